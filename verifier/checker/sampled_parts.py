"""Manifest entries on claims about all rows, none of which is trusted."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class DrawPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The uniform draw of ``size`` of ``rows``: number ``draw`` of ``draws`` planned."""

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
    """One claim about all rows: at most a share of them have a leak above all the bounds."""

    question: int  # of the members that are bounded; those that it leaves out may be above
    name: str  # of the statement
    bounds: tuple[MembersBoundPart, ...]  # one a label that the claim is about
    sample: DrawPart
    share: str  # a fraction
    confidence: str  # a fraction: of all results together, and of all draws that were planned
    results: int  # so many share what may be wrong


def sampled_texts(part: SampledPart) -> Iterator[str]:
    """Yield what of a claim may be shown on a terminal."""
    yield part.name
    yield from (each.tree for each in part.bounds)
