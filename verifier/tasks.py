"""Engines and tasks: interfaces for deciding statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

from leaveout.bab.native.files.checkpoint import Checkpoint, Checkpoints
from leaveout.bab.native.workers.pool import Executor
from leaveout.errors import LeaveoutError
from leaveout.specs import CheckedSpec, Find, Guarantee
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.points.leak_decider import StatementProgress
from leaveout.verifier.points.network_leaks import Decider
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.report import Result
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.time_sharing import Clock

Kind = str
"""Of a claim: a key of `USED`."""

USED: Mapping[Kind, frozenset[str]] = {
    "leaks, native": frozenset(
        {"engine", "time", "workers", "executor", "kernel", "seed", "certificate", "resume"}
    ),
    "leaks, lucid": frozenset({"engine", "time", "solver", "variant", "workers", "seed"}),
    "leaks of samples, native": frozenset(
        {"engine", "time", "workers", "executor", "kernel", "seed", "certificate"}
    ),
    "leaks of samples, lucid": frozenset(
        {"engine", "time", "solver", "variant", "workers", "seed"}
    ),
    "leaks, forests": frozenset({"time", "workers", "certificate"}),
    "formula": frozenset(
        {"time", "workers", "executor", "kernel", "seed", "certificate", "resume"}
    ),
    "value": frozenset({"time", "seed", "certificate"}),
    "value, by a solver": frozenset({"time", "seed", "solver", "certificate"}),
}
"""Options of `VerifyOptions` that each kind of claim reads."""


def unused_option_notes(options: VerifyOptions, claims: Iterable[tuple[str, Kind]]) -> list[str]:
    """Return a note for each option set that some claims ignore."""
    listed = list(claims)
    notes = []
    for each in fields(options):
        if getattr(options, each.name) == each.default:
            continue
        vain = [name for name, kind in listed if not _reads(options, kind, each.name)]
        if vain:
            notes.append(f"--{each.name} has no say in {', '.join(dict.fromkeys(vain))}")
    return notes


def _reads(options: VerifyOptions, kind: Kind, option: str) -> bool:
    if option == "executor" and (options.workers or 1) == 1:
        # One worker is no crowd to run anywhere.
        return False
    return option in USED[kind]


Statement = Guarantee | Find


@dataclass(frozen=True)
class Context:
    """The input from which engines are made."""

    checked: CheckedSpec
    resolver: Resolver
    folder: Path  # what relative paths are relative to
    options: VerifyOptions
    decider: Decider  # of statements about leaks
    progress: StatementProgress | None = None
    certificate: CertificateTarget | None = None
    executor: Executor | None = None
    is_asked: bool = True


class Task(Protocol):
    """A statement loaded by the engine that decides it."""

    @property
    def statement(self) -> Statement:
        """The statement as written."""
        ...

    @property
    def kind(self) -> Kind:
        """The kind of claim, which determines the options that apply."""
        ...

    @property
    def searches(self) -> int:
        """The number of searches that share the time."""
        ...

    @property
    def kernels(self) -> Sequence[str]:
        """The names of the compiled kernels needed."""
        ...

    def resume(self, store: Checkpoints) -> list[Checkpoint]:
        """Resume from checkpoints; return those of this statement."""
        ...

    def decide(self, clock: Clock) -> list[Result]:
        """Return the results."""
        ...


class Engine(Protocol):
    """Decides statements of one kind."""

    @property
    def notes(self) -> list[str]:
        """Notes for readers of the results."""
        ...

    def accepts(self, statement: Statement) -> LeaveoutError | None:
        """Return why the engine cannot decide a statement; None if it can."""
        ...

    def load(self, statement: Statement) -> Task:
        """Load a statement that is accepted.

        Raises
        ------
        LeaveoutError
            If it cannot be decided, or a file it names cannot be used.
        """
        ...
