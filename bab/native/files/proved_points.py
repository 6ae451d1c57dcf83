"""Certificate entries of claims over points, for ``leaveout check``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leaveout.bab.joint_claim import JointClaim
from leaveout.bab.native.claims import Claims
from leaveout.bab.native.files.file_parts import box_part, family_kind, file_part
from leaveout.bab.native.files.proof_trees import ProofTree, compact
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.question import NOTHING
from leaveout.encoders.query import Form


@dataclass(frozen=True)
class FamilySource:
    """The file or folder of a family."""

    path: Path
    is_network: bool  # whether it is a single network
    members: int

    def part(self, folder: Path) -> dict[str, object]:
        """Return its part of the manifest."""
        kind = "network" if self.is_network else family_kind(self.path)
        return {"file": file_part(self.path, folder, kind), "members": self.members}


@dataclass(frozen=True)
class Source:
    """The file of what is applied to a point."""

    network: Path  # of a family, a network of its architecture
    family: FamilySource | None = None
    member: int | None = None  # the one of the family that is applied; None for any


@dataclass(frozen=True, eq=False)
class ProvedPoints:
    """A claim over points with its proof."""

    name: str
    upper: float  # what is proved, which may be a hair above what was found
    decides: bool  # whether what is claimed is that there is no counter-example
    claim: JointClaim
    sources: tuple[Source, ...]  # of each application
    tree: ProofTree

    @property
    def files(self) -> dict[str, list[Path]]:
        """The files it depends on, by kind."""
        families = [each.family.path for each in self.sources if each.family is not None]
        found = {"network": [each.network for each in self.sources], "family": families}
        return {kind: list(dict.fromkeys(each)) for kind, each in found.items() if each}

    def part(self, tree: str, folder: Path) -> dict[str, object]:
        """Return its part of the manifest."""
        return {
            "name": self.name,
            "upper": self.upper,
            "tree": tree,
            **claim_part(self.claim, self.sources, folder, decides=self.decides),
        }


def claim_part(
    claim: JointClaim, sources: Sequence[Source], folder: Path, *, decides: bool
) -> dict[str, object]:
    """Return the manifest's entry on a claim over points, whatever proves it."""
    query = claim.query
    applied = zip(sources, query.applications, strict=True)
    return {
        "decides": decides,
        "reals": query.reals,
        "points": [box_part(each) for each in query.points],
        "applications": [_application(source, each.point, folder) for source, each in applied],
        "cases": list(_cases(claim, decides)),
    }


def prove_points(
    name: str,
    upper: float,
    claims: Claims,
    records: Sequence[Record],
    sources: Sequence[Source],
    *,
    decides: bool,
) -> ProvedPoints | None:
    """Return the proved claim from the results of a search."""
    claim = claims.claim
    roots = {record.split.index for record in records if record.parent < 0}
    if len(roots) < claim.forms.cases or not math.isfinite(max(upper, NOTHING)):
        return None
    if not np.isfinite(claim.forms.errors).all():
        return None
    proved, tree = compact(records, max(upper, NOTHING), claims.room)
    if not math.isfinite(proved) or (decides and proved >= 0.0):
        return None
    return ProvedPoints(name, proved, decides, claim, tuple(sources), tree)


def _application(source: Source, point: int, folder: Path) -> dict[str, object]:
    return {
        "network": file_part(source.network, folder, "network"),
        "point": point,
        "family": None if source.family is None else source.family.part(folder),
        "member": source.member,
    }


def _cases(claim: JointClaim, decides: bool) -> Iterator[dict[str, object]]:
    origin = np.minimum(claim.joint.box.lower, 0.0).tolist()
    forms = claim.forms
    for number, (case, rows) in enumerate(zip(claim.cases, claim.rows, strict=True)):
        strict = {condition.form for condition in case.conditions if condition.strict}
        goals, first = len(case.goals), len(rows) - claim.sides[number]
        sums = slice(int(forms.sum_starts[number]), int(forms.sum_starts[number + 1]))
        yield {
            "goals": [_form(form, decides and form in strict) for form in rows[:goals]],
            "conditions": [_form(form, form in strict) for form in rows[goals:first]],
            "inside": [_side(form) for form in rows[first:]],
            "sums": forms.sums[sums].tolist(),
            "near": claim.joint.is_near,
            "origin": origin,
        }


def _form(form: Form, strict: bool) -> dict[str, object]:
    return {
        "features": [list(term) for term in form.features],
        "scores": [list(term) for term in form.scores],
        "constant": form.constant,
        "strict": strict,
    }


def _side(form: Form) -> list[int]:
    ((point, feature, coefficient),) = form.features
    return [point, feature, 0 if coefficient > 0 else 1]
