"""What a manifest may say of all rows, of which a sample was left out; none of it is believed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

__all__ = ["DrawPart", "MembersBoundPart", "SampledPart", "sampled_texts"]


class DrawPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows were drawn: ``size`` of ``rows``, uniformly; the ``draw`` of ``draws`` planned."""

    size: int
    rows: int
    seed: int
    draw: int
    draws: int


class MembersBoundPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No leak of the question's members with the label has a confidence above ``upper``."""

    label: int
    upper: float
    tree: str


class SampledPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim about all rows: at most a share of them have a leak above all the bounds.

    Attributes
    ----------
    question : int
        Of the members that are bounded; those that it leaves out may be above.
    name : str
        Of the statement.
    bounds : tuple of MembersBoundPart
        One a label that the claim is about.
    sample : DrawPart
    share : str
        A fraction.
    confidence : str
        A fraction: of all results together, and of all draws that were planned.
    results : int
        So many share what may be wrong.
    """

    question: int
    name: str
    bounds: tuple[MembersBoundPart, ...]
    sample: DrawPart
    share: str
    confidence: str
    results: int


def sampled_texts(part: SampledPart) -> Iterator[str]:
    """Yield what of a claim may be shown on a terminal."""
    yield part.name
    yield from (each.tree for each in part.bounds)
