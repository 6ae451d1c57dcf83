"""The output path of a run's certificate, checked before any work is done."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leaveout.bab import Instance
from leaveout.bab.native.files.certificate import (
    CERTIFIES,
    CertificateBook,
    FileFacts,
    SampledClaim,
    ValueClaims,
)
from leaveout.bab.native.files.records import Record
from leaveout.bab.native.question import NOTHING
from leaveout.deadline import NEVER, Deadline
from leaveout.errors import SpecError
from leaveout.models.archive import holds_arrays
from leaveout.verifier.checker import RejectedError
from leaveout.verifier.points.shortening import shorten
from leaveout.verifier.points.solved import Solved, Unproved, proved_points
from leaveout.version import VERSION

_CLOSE = 1e-6
_HELD = (("manifest", CERTIFIES), ("manifest", "tree0.ident"))
"""Arrays that a certificate holds: one of now, and one of an earlier version."""


@dataclass(eq=False)
class CertificateTarget:
    """Collects the proofs of a run's results for one file."""

    path: Path
    engine: str
    folder: Path | None = None
    notes: list[str] = field(default_factory=list)
    _book: CertificateBook | None = None
    _missing: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.engine != "native":
            raise SpecError(
                f"--certificate {self.path}: the {self.engine} engine rests on a MILP solver, "
                "which gives no proof to check; use --engine native"
            )
        try:
            if self.path.is_dir():
                raise SpecError(f"--certificate {self.path}: is a folder; give a file name")
            is_held = self.path.exists() and self.path.stat().st_size
            if is_held and not any(holds_arrays(self.path, each) for each in _HELD):
                raise SpecError(
                    f"--certificate {self.path}: exists and is no certificate; choose another "
                    "name, or remove it"
                )
            # What would fail in the end fails now.
            with tempfile.TemporaryFile(prefix=".leaveout-", dir=self.path.resolve().parent):
                pass
        except OSError as error:
            raise SpecError(
                f"--certificate {self.path}: cannot be written: {error.strerror}"
            ) from None

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
                "searched, or not for long enough; let the run take longer"
            )
        enough = upper if exactly else upper + _CLOSE * (1.0 + abs(upper))
        told = f"{upper:.6g}" if upper >= 0 else "that no answer changes"
        for label, most in proved.items():
            if max(enough, 0.0 if most < 0 else -math.inf) < most < math.inf:
                cure = "; let the run take longer" if stopped else ""
                self.notes.append(
                    f"{name}, label {label}: the certificate proves {most:.6g} only, not "
                    f"{told}: that rests on interval propagation or an earlier search, and "
                    f"this search did not get as far{cure}"
                )

    def add_sample(self, claim: SampledClaim, upper: float, *, stopped: bool) -> None:
        """Store a sample's claim on all rows, or note why it is missing."""
        assert self._book is not None
        proved = max(self._book.proved_bound(claim.instance, label) for label in claim.labels)
        cure = "; let the run take longer" if stopped else ""
        if math.isinf(proved):
            self.without(claim.name, f"not all of it was searched{cure}")
            return
        self._book.add_sampled(claim)
        if upper + _CLOSE * (1.0 + abs(upper)) < proved:
            self.notes.append(
                f"{claim.name}: the certificate proves {proved:.6g} of all rows only, not "
                f"{upper:.6g}{cure}"
            )

    def points(self, name: str, solved: list[Solved], questions: int, *, decides: bool) -> None:
        """Store the proof of a claim over points, or note why it is missing."""
        assert self._book is not None
        why = "no case of it is left to be searched" if not questions else ""
        if len(solved) < questions:
            why = "not all of it was searched; let the run take longer"
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
            told = f"{upper:.6g}" if upper > NOTHING else "that nothing counts at all"
            self.notes.append(f"{name}: the certificate proves {proved:.6g} only, not {told}")

    def values(self, claims: ValueClaims) -> None:
        """Store the statements about values."""
        assert self._book is not None
        self._book.values = claims

    def forests(self, claims: ValueClaims) -> None:
        """Store the claims about leaks of forests."""
        assert self._book is not None
        self._book.forests = claims

    def without(self, name: str, why: str) -> None:
        """Note that a statement is not in the certificate."""
        self._missing.append(f"{name} is not in the certificate: {why}")

    def write(self, deadline: Deadline = NEVER) -> None:
        """Write the certificate atomically."""
        assert self._book is not None
        if not self._book:
            why = "; ".join(self._missing) or "nothing that was proved can be proved again"
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
                    f"{told}: there was no time to check it, which would have made it shorter; "
                    "leaveout check proves it again"
                )
        except RejectedError as error:
            self.notes.append(f"leaveout check will not accept the certificate: {error}")
        except OSError as error:
            raise SpecError(
                f"--certificate {self.path}: cannot be written: {error.strerror}"
            ) from None
        if self.folder is not None:
            return
        for files in self._book.outside(self.path.resolve().parent):
            options = " ".join(dict.fromkeys(_options(files)))
            self.notes.append(
                f"{self.path}: its {' and '.join(files)} are not all under its folder; check it "
                f"with {options}"
            )


def _options(files: Mapping[str, Sequence[Path]]) -> Iterator[str]:
    """Yield the options that tell a checker the folders of other files."""
    for kind, own in files.items():
        yield from (f"--{kind} {each.parent if kind == 'files' else each}" for each in own)
