"""Engines and tasks: interfaces for deciding statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from leaveout.bab.native.files.checkpoint import Checkpoint, Checkpoints
from leaveout.bab.native.workers.pool import Executor
from leaveout.errors import LeaveoutError
from leaveout.specs import CheckedSpec, Find, Guarantee
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.points.idp import Decider
from leaveout.verifier.points.leak_decider import StatementProgress
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.report import Result
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.time_sharing import Clock
from leaveout.verifier.unused_options import Kind

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
