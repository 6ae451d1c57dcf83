"""Certificates of the upper bounds of native searches, for ``leaveout check``.

The format is described in ``docs/certificates.md``. The checker has separate code to read it.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.instance import Instance
from leaveout.bab.joint_claim import JointClaim
from leaveout.bab.native.claims import Claims
from leaveout.bab.native.files.manifest_parts import box_part, family_kind, file_part
from leaveout.bab.native.files.proof_trees import ProofTree, compact, narrow, put_tree
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.leaks import Leaks
from leaveout.bab.native.question import NOTHING
from leaveout.encoders.query import Form
from leaveout.files import open_atomically
from leaveout.models.archive import put_array

CERTIFIES = "certificate"
"""The array that identifies an archive as a certificate: its format."""


@dataclass(frozen=True)
class FileFacts:
    """Files of a question's network and family."""

    network: Path
    family: Path
    family_is_network: bool = False  # whether the family is a single network
    without: tuple[int, ...] = ()  # positions of members left out of the question


@dataclass(eq=False)
class _Claim:
    names: list[str]
    question: int
    label: int
    upper: float
    tree: ProofTree


@dataclass(frozen=True, eq=False)
class SampledClaim:
    """A claim about all rows, from the members of a sample."""

    name: str  # of the statement
    instance: Instance  # with the members whose leaks are bounded
    labels: tuple[int, ...]  # whose leaks the claim bounds jointly
    said: Mapping[str, object]


class PointsClaim(Protocol):
    """A claim over points with its proof."""

    def put(self, archive: zipfile.ZipFile, name: str) -> None:
        """Write its proof, given the name of its arrays."""

    @property
    def files(self) -> dict[str, list[Path]]:
        """The files it depends on, by kind."""

    def part(self, tree: str, folder: Path) -> dict[str, object]:
        """Return its part of the manifest, given its tree's name and the base folder."""


class ValueClaims(Protocol):
    """Claims of other kinds, such as statements about values, with their proofs."""

    def __bool__(self) -> bool:
        """Return whether there are any claims."""

    @property
    def files(self) -> list[Path]:
        """The files they depend on."""

    def proofs(self) -> Iterator[tuple[str, Mapping[str, NDArray[Any]]]]:
        """Yield the key and arrays of every proof."""

    def part(self, folder: Path, prefixes: Mapping[str, str]) -> dict[str, Any]:
        """Return their part of the manifest, given the base folder and array prefixes."""


@dataclass(eq=False)
class CertificateBook:
    """Collector of proofs for the results of one specification."""

    version: str  # version of leaveout
    spec: str  # name of the specification
    text: str  # its text
    values: ValueClaims | None = None  # statements about values
    forests: ValueClaims | None = None  # claims about leaks of forests
    linear: ValueClaims | None = None  # claims about linear models
    _questions: list[tuple[Instance, FileFacts]] = field(default_factory=list)
    _claims: dict[tuple[int, int], _Claim] = field(default_factory=dict)
    _points: list[PointsClaim] = field(default_factory=list)
    _sampled: list[SampledClaim] = field(default_factory=list)

    def add(
        self,
        name: str,
        label: int,
        upper: float,
        records: Sequence[Record],
        instance: Instance,
        files: FileFacts,
    ) -> None:
        """Add the proof of one label's bound; a question's lowest bound is kept."""
        place = self._place(instance, files)
        known = self._claims.get((place, label))
        if records:
            proved, tree = leak_tree(records, upper, instance, label)
            if known is None or proved < known.upper:
                names = [] if known is None else known.names
                known = _Claim(names, place, label, proved, tree)
                self._claims[place, label] = known
        if known is not None and name and name not in known.names:
            known.names.append(name)

    def add_sampled(self, claim: SampledClaim) -> None:
        """Add a claim from a sample whose members' bounds were added before."""
        self._sampled.append(claim)

    def proved_bound(self, instance: Instance, label: int) -> float:
        """Return the bound proved for a label; infinite if there is none."""
        claim = self._claim(instance, label)
        return math.inf if claim is None else claim.upper

    def _claim(self, instance: Instance, label: int) -> _Claim | None:
        places = (i for i, (question, _) in enumerate(self._questions) if question is instance)
        return next((self._claims.get((i, label)) for i in places), None)

    def use_bound(self, name: str, instance: Instance, label: int) -> float:
        """Record that a result uses a label's bound; return it, or infinity if there is none."""
        claim = self._claim(instance, label)
        if claim is None:
            return math.inf
        if name not in claim.names:
            claim.names.append(name)
        return claim.upper

    def add_points(self, claim: PointsClaim) -> None:
        """Add a claim over points."""
        self._points.append(claim)

    def __bool__(self) -> bool:
        named = any(each.names for each in self._claims.values())
        others = (self._points, self._sampled, self.values, self.forests, self.linear)
        return named or any(map(bool, others))

    def _place(self, instance: Instance, files: FileFacts) -> int:
        for i, (known, _) in enumerate(self._questions):
            if known is instance:
                return i
        self._questions.append((instance, files))
        return len(self._questions) - 1

    def outside(self, folder: Path) -> list[dict[str, list[Path]]]:
        """Return the files, by kind, that a checker given only the folder cannot open."""
        found = list(self._by_claim())
        others = [each.files for each in (self.values, self.forests, self.linear) if each]
        if others:
            found.append({"files": list(dict.fromkeys(file for own in others for file in own))})
        return [
            files
            for files in found
            if not all(
                each.resolve().is_relative_to(folder) for own in files.values() for each in own
            )
        ]

    @property
    def files(self) -> dict[str, list[Path]]:
        """The networks and families that its proof trees depend on."""
        found: dict[str, list[Path]] = {}
        for each in self._by_claim():
            for kind, own in each.items():
                known = found.setdefault(kind, [])
                known += [path for path in own if path not in known]
        return found

    def _by_claim(self) -> Iterator[dict[str, list[Path]]]:
        for _, files in self._questions:
            yield {"network": [files.network], "family": [files.family]}
        for claim in self._points:
            yield claim.files

    def write(self, path: Path) -> None:
        """Write the certificate atomically."""
        with open_atomically(path) as stream:
            self._write(stream, path.resolve().parent)

    def _write(self, stream: IO[bytes], folder: Path) -> None:
        told = {
            id(self._claim(each.instance, label)) for each in self._sampled for label in each.labels
        }
        claims = sorted(
            (each for each in self._claims.values() if each.names or id(each) in told),
            key=lambda claim: (claim.question, claim.label),
        )
        trees = {id(claim): f"tree{i}" for i, claim in enumerate(claims)}
        manifest: dict[str, object] = {
            "format": 4 if self._sampled else 3,
            "leaveout": self.version,
            "spec": self.spec,
            "text": self.text,
            "questions": [
                question_part(instance, files, folder) for instance, files in self._questions
            ],
            "results": [
                {
                    "question": claim.question,
                    "name": ", ".join(claim.names),
                    "label": claim.label,
                    "upper": claim.upper,
                    "tree": trees[id(claim)],
                }
                for claim in claims
                if claim.names
            ],
        }
        if self._sampled:
            manifest["samples"] = [self._sampled_part(each, trees) for each in self._sampled]
        names = [f"tree{len(claims) + i}" for i in range(len(self._points))]
        if self._points:
            manifest["claims"] = [
                claim.part(name, folder) for claim, name in zip(self._points, names, strict=True)
            ]
        proofs: dict[str, Mapping[str, NDArray[Any]]] = {}
        kinds = ("values", self.values), ("forests", self.forests), ("linear", self.linear)
        for kind, own in kinds:
            if own:
                prefixes = {}
                for key, arrays in own.proofs():
                    prefixes[key] = f"proof{len(proofs)}"
                    proofs[prefixes[key]] = arrays
                manifest[kind] = own.part(folder, prefixes)
        encoded = np.frombuffer(json.dumps(manifest, allow_nan=False).encode(), np.uint8)
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            put_array(archive, "manifest", encoded, packed=True)
            for i, claim in enumerate(claims):
                put_tree(archive, f"tree{i}", claim.tree)
            for name, each in zip(names, self._points, strict=True):
                each.put(archive, name)
            for name, arrays in proofs.items():
                for key, array in arrays.items():
                    put_array(archive, f"{name}.{key}", np.asarray(array))
            # Identifies the archive as a certificate.
            put_array(archive, CERTIFIES, np.array([manifest["format"]], np.int64))

    def _sampled_part(self, sampled: SampledClaim, trees: Mapping[int, str]) -> dict[str, object]:
        """Return the part of the manifest about all rows."""
        claims = [self._claim(sampled.instance, label) for label in sampled.labels]
        known = [claim for claim in claims if claim is not None]
        return {
            "question": known[0].question,
            "name": sampled.name,
            "bounds": [
                {"label": each.label, "upper": each.upper, "tree": trees[id(each)]}
                for each in known
            ],
            **sampled.said,
        }


def leak_tree(
    records: Sequence[Record], upper: float, instance: Instance, label: int
) -> tuple[float, ProofTree]:
    """Return the part of a leak search that its bound depends on, with one row of errors."""
    rivals = [c for c in range(instance.labels) if c != label]
    proved, tree = compact(records, upper, Leaks(instance, label).room)
    arrays = dict(tree.arrays)
    errors, share = arrays.pop("errors"), arrays["share"]
    # All goals have the same error.
    arrays["error"], arrays["tie"] = errors[:, 0].copy(), errors[:, -1].copy()
    arrays["t"] = share[:, -1].astype(np.float32)
    arrays["share"] = np.zeros((len(share), instance.labels))
    arrays["share"][:, rivals] = share[:, :-1]
    roots = arrays["parent"] < 0
    index = arrays["index"].astype(np.int64)
    index[roots] = np.array(rivals)[index[roots]]
    arrays["index"] = narrow(index)
    return proved, replace(tree, arrays=arrays)


def question_part(instance: Instance, files: FileFacts, folder: Path) -> dict[str, object]:
    """Return a leak question's part of the manifest, given the base folder."""
    kind = "network" if files.family_is_network else family_kind(files.family)
    return {
        "network": file_part(files.network, folder, "network"),
        "family": file_part(files.family, folder, kind),
        "members": len(instance.family),
        "box": box_part(instance.box),
        **({"without": files.without} if files.without else {}),
    }


@dataclass(frozen=True)
class FamilySource:
    """The file or folder of a family."""

    path: Path
    is_network: bool  # whether the family is a single network
    members: int

    def part(self, folder: Path) -> dict[str, object]:
        """Return its part of the manifest."""
        kind = "network" if self.is_network else family_kind(self.path)
        return {"file": file_part(self.path, folder, kind), "members": self.members}


@dataclass(frozen=True)
class Source:
    """The files of a network that is applied to a point."""

    network: Path  # for a family: a network of its architecture
    family: FamilySource | None = None
    member: int | None = None  # position of the member that is applied; None for any


@dataclass(frozen=True, eq=False)
class ProvedPoints(PointsClaim):
    """A claim over points with its proof."""

    name: str
    upper: float  # the proved bound, possibly slightly above the searched one
    decides: bool  # whether the claim is that there is no counter-example
    claim: JointClaim
    sources: tuple[Source, ...]  # one per application
    tree: ProofTree

    def put(self, archive: zipfile.ZipFile, name: str) -> None:
        put_tree(archive, name, self.tree)

    @property
    def files(self) -> dict[str, list[Path]]:
        families = [each.family.path for each in self.sources if each.family is not None]
        found = {"network": [each.network for each in self.sources], "family": families}
        return {kind: list(dict.fromkeys(each)) for kind, each in found.items() if each}

    def part(self, tree: str, folder: Path) -> dict[str, object]:
        return {
            "name": self.name,
            "upper": self.upper,
            "tree": tree,
            **claim_part(self.claim, self.sources, folder, decides=self.decides),
        }


def claim_part(
    claim: JointClaim, sources: Sequence[Source], folder: Path, *, decides: bool
) -> dict[str, object]:
    """Return the manifest's entry on a claim over points, whatever its proof."""
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
            "goals": [form_part(form, decides and form in strict) for form in rows[:goals]],
            "conditions": [form_part(form, form in strict) for form in rows[goals:first]],
            "inside": [_side(form) for form in rows[first:]],
            "sums": forms.sums[sums].tolist(),
            "near": claim.joint.is_near,
            "origin": origin,
        }


def form_part(form: Form, strict: bool) -> dict[str, object]:
    """Return the manifest's entry on a form."""
    return {
        "features": [list(term) for term in form.features],
        "scores": [list(term) for term in form.scores],
        "constant": form.constant,
        "strict": strict,
    }


def _side(form: Form) -> list[int]:
    ((point, feature, coefficient),) = form.features
    return [point, feature, 0 if coefficient > 0 else 1]
