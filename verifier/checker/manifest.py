"""A certificate's manifest in JSON, none of which is trusted."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from leaveout.verifier.checker.basic_parts import BoxPart, FilePart
from leaveout.verifier.checker.ensembles.parts import ForestsPart, forest_texts
from leaveout.verifier.checker.expressions.parts import ValuesPart
from leaveout.verifier.checker.expressions.parts import names as names_of
from leaveout.verifier.checker.sampled_parts import SampledPart, sampled_texts

Term = tuple[int, int, float]


class QuestionPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network, members of a family and a box."""

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
    """``features + scores + constant >= 0``, or ``> 0`` where strict."""

    features: tuple[Term, ...]  # point, feature, coefficient; no place occurs twice
    scores: tuple[Term, ...]  # application, label, coefficient; no place occurs twice
    constant: float
    strict: bool = False


class CasePart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One way to be a counter-example, and how it is laid out.

    Its rows are the goals, the conditions, and the sides of boxes that are conditions too.
    """

    goals: tuple[FormPart, ...]
    conditions: tuple[FormPart, ...]
    inside: tuple[tuple[int, int, int], ...]
    sums: tuple[tuple[int, int], ...]  # pairs of rows whose sum is bounded on its own
    near: bool  # whether the second of two points is laid out as its difference from the first
    origin: tuple[float, ...]  # what regions of the tree are shifted by


class FamilyPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A family whose members an application ranges over."""

    file: FilePart
    members: int


class ApplicationPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A network, or a member of a family of its architecture, applied to a point."""

    network: FilePart
    point: int
    family: FamilyPart | None = None
    member: int | None = None  # the one of the family; None for any of them


class ClaimPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim over points: no counter-example of any case has a least goal above ``upper``."""

    name: str
    upper: float
    decides: bool
    reals: bool  # whether it is about exact arithmetic, not about float32
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


def printed_texts(manifest: ManifestPart) -> Iterator[str]:
    """Yield the texts shown on a terminal, which must not control it."""
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
