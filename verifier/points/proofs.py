"""The output path of a run's certificate, checked before any work is done."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import Instance
from leaveout.bab.native.files.certificate import (
    CERTIFIES,
    CertificateBook,
    FileFacts,
    SampledClaim,
    ValueClaims,
)
from leaveout.bab.native.files.proof_trees import narrow
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.question import NOTHING
from leaveout.deadline import NEVER, Deadline
from leaveout.errors import RejectedError, SpecError
from leaveout.files import open_atomically
from leaveout.models.archive import holds_arrays, put_array, read_arrays
from leaveout.verifier.amounts import bound
from leaveout.verifier.certify.check import used_parts
from leaveout.verifier.certify.trees import Used
from leaveout.verifier.output_file import OutputFile
from leaveout.verifier.points.job import ProvedTrees, Solved, Unproved, proved_points
from leaveout.version import VERSION

Arrays = dict[str, NDArray[Any]]

_PER_NODE = ("kind", "index", "side", "point", "target", "error", "tie", "errors")
_PLAIN = ("cz", "cd")  # arrays that a reader maps, if they are large


class _LateError(Exception):
    """The time for checking is over."""


def shorten(
    path: Path,
    networks: Sequence[Path],
    families: Sequence[Path],
    deadline: Deadline = NEVER,
) -> bool:
    """Rewrite a certificate without nodes and multipliers that its check does not use."""

    def look(name: str, label: int | None, done: int, total: int) -> None:
        if deadline.over:
            raise _LateError

    if deadline.over:
        return False
    try:
        found = used_parts(path, network=networks, family=families, progress=look)
    except (_LateError, KeyboardInterrupt):
        # It is written as it is: after Ctrl-C, too, the results are the answer.
        return False
    arrays = read_arrays(path)
    for name, spare in found.items():
        _cut(arrays, name, spare)
    with open_atomically(path) as stream, zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            put_array(archive, name, array, packed=name.rpartition(".")[2] not in _PLAIN)
    return True


def _cut(arrays: Arrays, name: str, spare: Used) -> None:
    """Shorten one tree."""

    def own(key: str) -> NDArray[Any]:
        return arrays[f"{name}.{key}"]

    seen, count = spare.seen, len(spare.seen)
    for key in _PER_NODE:
        array = arrays.get(f"{name}.{key}")
        if array is not None and len(array) == count:
            arrays[f"{name}.{key}"] = _once(array[seen])
    place = np.append(np.cumsum(seen) - 1, -1)
    arrays[f"{name}.parent"] = narrow(place[own("parent")[seen]])
    group = own("group")[seen].astype(np.int64)
    members, offsets = own("members"), own("offsets")
    has = np.flatnonzero(group >= 0)
    sets = [members[offsets[g] : offsets[g + 1]] for g in group[has]]
    group[has] = np.arange(len(has))
    arrays[f"{name}.group"] = narrow(group)
    arrays[f"{name}.members"] = narrow(np.concatenate([members[:0], *sets]))
    arrays[f"{name}.offsets"] = narrow(np.cumsum([0, *(len(each) for each in sets)]))
    leaves = sorted(spare.neurons)
    rows = own("proof")[leaves].astype(np.int64)
    proof = np.full(count, -1)
    proof[leaves] = np.arange(len(leaves))
    arrays[f"{name}.proof"] = narrow(proof[seen])
    for key in ("share", "t"):
        if f"{name}.{key}" in arrays:
            arrays[f"{name}.{key}"] = own(key)[rows]
    needed = [spare.neurons[leaf] for leaf in leaves]
    arrays[f"{name}.neuron"] = narrow(np.concatenate([np.zeros(0, np.int64), *needed]))
    arrays[f"{name}.starts"] = narrow(np.cumsum([0, *(len(each) for each in needed)]))
    for key in _PLAIN:
        given = arrays.pop(f"{name}.{key}", None)
        if given is not None:
            parts = [given[row, each] for row, each in zip(rows, needed, strict=True)]
            values = np.concatenate([np.zeros(0, np.float32), *parts])
            if key == "cz" or values.any():
                arrays[f"{name}.{key}"] = values


def _once(values: NDArray[Any]) -> NDArray[Any]:
    """Return the first number if all are equal; integers unchanged."""
    if values.dtype == np.float64 and len(values) and (values == values[0]).all():
        return values[:1]
    return values


_CLOSE = 1e-6
_HELD = (("manifest", CERTIFIES), ("manifest", "tree0.ident"))
"""Arrays that a certificate holds: one of now, and one of an earlier version."""


def _holds_certificate(path: Path) -> bool:
    return not path.stat().st_size or any(holds_arrays(path, each) for each in _HELD)


@dataclass(eq=False)
class CertificateTarget:
    """Collects the proofs of a run's results for one file."""

    path: Path
    engine: str
    folder: Path | None = None
    notes: list[str] = field(default_factory=list)
    _book: CertificateBook | None = None
    _missing: list[str] = field(default_factory=list)
    _file: OutputFile = field(init=False)

    def __post_init__(self) -> None:
        if self.engine != "native":
            raise SpecError(
                f"--certificate {self.path}: the {self.engine} engine relies on a MILP solver, "
                "which produces no checkable proof; use --engine native"
            )
        self._file = OutputFile.open(
            "--certificate", self.path, kind="a certificate", is_one=_holds_certificate
        )

    def begin(self, spec: str, text: str) -> None:
        """Set the specification that is proved."""
        if Path(spec).is_absolute():
            # Where it lies on this machine is nobody's business.
            spec = Path(os.path.relpath(spec, self.path.resolve().parent)).as_posix()
        self._book = CertificateBook(VERSION, spec, text)

    def add(
        self,
        name: str,
        label: int,
        upper: float,
        records: list[Record],
        instance: Instance,
        files: FileFacts,
    ) -> None:
        """Store the proof of one label's bound."""
        assert self._book is not None
        self._book.add(name, label, upper, records, instance, files)

    def check_labels(
        self,
        name: str,
        labels: Sequence[int],
        upper: float,
        instance: Instance,
        *,
        exactly: bool,
        stopped: bool,
    ) -> None:
        """Compare a result's bounds of labels with the stored proofs."""
        assert self._book is not None
        proved = {label: self._book.use_bound(name, instance, label) for label in labels}
        missing = [label for label in labels if math.isinf(proved[label])]
        if missing:
            plural, are, they = ("s", "are", "they were") if missing[1:] else ("", "is", "it was")
            listed = ", ".join(map(str, missing))
            self._missing.append(
                f"label{plural} {listed} of {name} {are} not in the certificate: {they} not "
                "searched, or not for long enough; raise the time limit"
            )
        enough = upper if exactly else upper + _CLOSE * (1.0 + abs(upper))
        told = f"{upper:.6g}" if upper >= 0 else "that no answer changes"
        for label, most in proved.items():
            if max(enough, 0.0 if most < 0 else -math.inf) < most < math.inf:
                cure = "; raise the time limit" if stopped else ""
                self.notes.append(
                    f"{name}, label {label}: the certificate proves only "
                    f"{bound(most, up=True)}, not {told}, which comes from "
                    "interval propagation or an earlier search; this search "
                    f"did not get as far{cure}"
                )

    def add_sample(self, claim: SampledClaim, upper: float, *, stopped: bool) -> None:
        """Store a sample's claim on all rows, or note why it is missing."""
        assert self._book is not None
        proved = max(self._book.proved_bound(claim.instance, label) for label in claim.labels)
        cure = "; raise the time limit" if stopped else ""
        if math.isinf(proved):
            self.without(claim.name, f"it was not searched completely{cure}")
            return
        self._book.add_sampled(claim)
        if upper + _CLOSE * (1.0 + abs(upper)) < proved:
            self.notes.append(
                f"{claim.name}: the certificate proves only {bound(proved, up=True)} for "
                f"all rows, not {upper:.6g}{cure}"
            )

    def points(self, name: str, solved: list[Solved], questions: int, *, decides: bool) -> None:
        """Store the proof of a claim over points, or note why it is missing."""
        assert self._book is not None
        why = "no case of it is left to search" if not questions else ""
        if len(solved) < questions:
            why = "it was not searched completely; raise the time limit"
        claims = []
        try:
            claims = [proved_points(name, each, decides=decides) for each in solved]
        except Unproved as error:
            why = why or str(error)
        if why:
            self.without(name, why)
            return
        for claim in claims:
            self._book.add_points(claim)
        upper, proved = max(s.upper for s in solved), max(claim.upper for claim in claims)
        upper = max(upper, NOTHING)
        if upper + _CLOSE * (1.0 + abs(upper)) < proved and not decides:
            told = f"{upper:.6g}" if upper > NOTHING else "that no input satisfies its premise"
            self.notes.append(
                f"{name}: the certificate proves only {bound(proved, up=True)}, not {told}"
            )

    def trees(self, claims: Sequence[ProvedTrees]) -> None:
        """Store the proofs of a claim over points and trees."""
        assert self._book is not None
        for claim in claims:
            self._book.add_points(claim)

    def values(self, claims: ValueClaims) -> None:
        """Store the statements about values."""
        assert self._book is not None
        self._book.values = claims

    def forests(self, claims: ValueClaims) -> None:
        """Store the claims about leaks of forests."""
        assert self._book is not None
        self._book.forests = claims

    def linear(self, claims: ValueClaims) -> None:
        """Store the claims about linear models."""
        assert self._book is not None
        self._book.linear = claims

    def without(self, name: str, why: str) -> None:
        """Note that a statement is not in the certificate."""
        self._missing.append(f"{name} is not in the certificate: {why}")

    def write(self, deadline: Deadline = NEVER) -> None:
        """Write the certificate atomically."""
        assert self._book is not None
        if not self._book:
            why = "; ".join(self._missing) or (
                "none of the proved results can be recorded in a certificate"
            )
            shown = self.path if self.folder is None else self.folder
            self.notes.append(f"no certificate was written to {shown}: {why}")
            return
        self.notes += self._missing
        try:
            self._book.write(self.path)
            files = self._book.files
            if not shorten(self.path, files.get("network", []), files.get("family", []), deadline):
                told = str(self.path) if self.folder is None else "the certificate"
                self.notes.append(
                    f"{told}: no time was left to check and shorten it; leaveout check "
                    "tells whether it is accepted"
                )
        except RejectedError as error:
            self.notes.append(f"leaveout check will not accept the certificate: {error}")
        except OSError as error:
            raise self._file.refusal(error) from None
        if self.folder is not None:
            return
        for files in self._book.outside(self.path.resolve().parent):
            options = " ".join(dict.fromkeys(_options(files)))
            self.notes.append(
                f"{self.path}: not all of its {' and '.join(files)} are under its folder; check "
                f"it with {options}"
            )


def _options(files: Mapping[str, Sequence[Path]]) -> Iterator[str]:
    """Yield the options that tell a checker the folders of other files."""
    for kind, own in files.items():
        yield from (f"--{kind} {each.parent if kind == 'files' else each}" for each in own)
