"""What a certificate's manifest may say, as JSON; nothing in it is believed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from leaveout.verifier.checker.basic_parts import BoxPart, ChoicesPart, FilePart
from leaveout.verifier.checker.ensembles.parts import ForestsPart, forest_texts
from leaveout.verifier.checker.expressions.parts import ValuesPart
from leaveout.verifier.checker.expressions.parts import names as names_of
from leaveout.verifier.checker.sampled_parts import SampledPart, sampled_texts

__all__ = [
    "ApplicationPart", "BoxPart", "CasePart", "ChoicesPart", "ClaimPart", "FamilyPart", "FilePart",
    "FormPart", "ManifestPart", "QuestionPart", "ResultPart", "printed",
]  # fmt: skip

Term = tuple[int, int, float]


class QuestionPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network, members of a family and a box.

    Attributes
    ----------
    network, family : FilePart
    members : int
    box : BoxPart
    without : tuple of int
        Positions of further members of the file that it is not about, ascending; of samples alone.
    """

    network: FilePart
    family: FilePart
    members: int
    box: BoxPart
    without: tuple[int, ...] = ()


class ResultPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim: over the question, no leak with the label has a confidence above ``upper``."""

    question: int
    name: str
    label: int
    upper: float
    tree: str


class FormPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``features + scores + constant >= 0``, or ``> 0`` where strict.

    Attributes
    ----------
    features : tuple of (int, int, float)
        Point, feature, coefficient; no place occurs twice.
    scores : tuple of (int, int, float)
        Application, label, coefficient; no place occurs twice.
    constant : float
    strict : bool
    """

    features: tuple[Term, ...]
    scores: tuple[Term, ...]
    constant: float
    strict: bool = False


class CasePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to be a counter-example, and how it is laid out.

    Its rows are the goals, the conditions, and the sides of boxes that are conditions too.

    Attributes
    ----------
    goals, conditions : tuple of FormPart
    inside : tuple of (int, int, int)
        Point, feature, side: the point lies in its box, 0 above its lower bound, 1 below its upper.
    sums : tuple of (int, int)
        Pairs of rows whose sum is bounded on its own.
    near : bool
        Whether the second of two points is laid out as its difference from the first.
    origin : tuple of float
        What regions of the tree are shifted by.
    """

    goals: tuple[FormPart, ...]
    conditions: tuple[FormPart, ...]
    inside: tuple[tuple[int, int, int], ...]
    sums: tuple[tuple[int, int], ...]
    near: bool
    origin: tuple[float, ...]


class FamilyPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A family whose members an application ranges over."""

    file: FilePart
    members: int


class ApplicationPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network, or a member of a family of its architecture, applied to a point.

    Attributes
    ----------
    network : FilePart
    point : int
    family : FamilyPart or None
    member : int or None
        The one of the family; None for any of them.
    """

    network: FilePart
    point: int
    family: FamilyPart | None = None
    member: int | None = None


class ClaimPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim over points: no counter-example of any case has a least goal above ``upper``.

    Attributes
    ----------
    name : str
    upper : float
    decides : bool
        Whether the goals are conditions as well, and what is claimed is that there is no
        counter-example; ``upper`` then is below 0.
    reals : bool
        Whether it is about exact arithmetic, not about float32.
    tree : str
    points : tuple of BoxPart
    applications : tuple of ApplicationPart
    cases : tuple of CasePart
    """

    name: str
    upper: float
    decides: bool
    reals: bool
    tree: str
    points: tuple[BoxPart, ...]
    applications: tuple[ApplicationPart, ...]
    cases: tuple[CasePart, ...]


class ManifestPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything but arrays.

    Format 1 has leaks alone, format 2 no statements about values, format 3 no samples.
    """

    format: int
    leaveout: str
    spec: str
    text: str
    questions: tuple[QuestionPart, ...]
    results: tuple[ResultPart, ...]
    claims: tuple[ClaimPart, ...] = ()
    values: ValuesPart | None = None
    forests: ForestsPart | None = None
    samples: tuple[SampledPart, ...] = ()


def printed(manifest: ManifestPart) -> Iterator[str]:
    """Yield what of a manifest is shown on a terminal, which it must not steer."""
    for result in manifest.results:
        yield from (result.name, result.tree)
    for claim in manifest.claims:
        yield from (claim.name, claim.tree)
    for sampled in manifest.samples:
        yield from sampled_texts(sampled)
    files = [part for each in manifest.questions for part in (each.network, each.family)]
    applied = [each for claim in manifest.claims for each in claim.applications]
    files += [each.network for each in applied]
    files += [each.family.file for each in applied if each.family is not None]
    for part in files:
        yield from (part.path, part.sha256, part.kind)
    if manifest.values is not None:
        yield from names_of(manifest.values)
    if manifest.forests is not None:
        yield from forest_texts(manifest.forests)
