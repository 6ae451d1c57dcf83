"""Engines, and the statements they load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

from leaveout.bab import Progress
from leaveout.bab.native.files.checkpoint import Checkpoint, Checkpoints
from leaveout.bab.native.workers.pool import Executor
from leaveout.errors import LeaveoutError
from leaveout.specs import CheckedSpec, Find, Guarantee
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.points.advice import Case
from leaveout.verifier.points.proofs import CertificateTarget
from leaveout.verifier.records import ByRowRecord, ModelRecord
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
    "linear": frozenset({"time", "certificate"}),
    "formula": frozenset(
        {"time", "workers", "executor", "kernel", "seed", "certificate", "resume"}
    ),
    "formula over trees": frozenset({"time", "certificate"}),
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
            notes.append(f"--{each.name} has no effect on {', '.join(dict.fromkeys(vain))}")
    return notes


def _reads(options: VerifyOptions, kind: Kind, option: str) -> bool:
    if option == "executor" and (options.workers or 1) == 1:
        # One worker is no crowd to run anywhere.
        return False
    return option in USED[kind]


Statement = Guarantee | Find


def kind_of(statement: Statement) -> Literal["guarantee", "find"]:
    """Return what a statement is, as results say it."""
    return "find" if isinstance(statement, Find) else "guarantee"


StatementProgress = Callable[[str, Progress], None]
"""Is told the statement's name and how far its search is."""


@dataclass(frozen=True)
class Context:
    """The input from which engines are made."""

    checked: CheckedSpec
    resolver: Resolver
    folder: Path  # what relative paths are relative to
    options: VerifyOptions
    progress: StatementProgress | None = None
    certificate: CertificateTarget | None = None
    executor: Executor | None = None
    is_asked: bool = True
    notes: list[str] = field(default_factory=list)  # those of the run, in order


@dataclass(frozen=True)
class Outline:
    """What a statement would solve, and how large it is."""

    name: str
    kind: str
    searches: int
    about: Mapping[str, str]  # in words

    @classmethod
    def of(cls, statement: Statement, searches: int, about: Mapping[str, str]) -> Outline:
        """Return the outline of a statement."""
        return cls(statement.name, kind_of(statement), searches, about)

    def __str__(self) -> str:
        lines = (f"    {what:<10}{words}" for what, words in self.about.items())
        return "\n".join((f"{self.kind} {self.name}", *lines))


def count_searches(labels: Sequence[int]) -> str:
    """Return the searches for some labels, in words."""
    listed = " and ".join(map(str, labels))
    if len(labels) > 2 and tuple(labels) == tuple(range(labels[0], labels[-1] + 1)):
        listed = f"{labels[0]} to {labels[-1]}"
    return f"{len(labels)}, for label{'s' * (len(labels) != 1)} {listed}"


Subject = Literal[
    "networks", "forests", "linear", "linear scores", "linear changes", "samples", "points",
    "values",
]  # fmt: skip
"""What an engine's claims are about: leaks of networks, of forests, of linear models, or of a
sample; others."""

J = TypeVar("J")


class Engine(ABC, Generic[J]):
    """Decides statements of one kind, each loaded as a job."""

    subject: ClassVar[Subject]
    claims: ClassVar[Kind]  # of what kind its claims are, where they are of one
    contradicted = False  # whether a bound it gave was refuted, so that no other is to be trusted

    def __init__(self, context: Context) -> None:
        self.context = context
        self._notes: list[str] = []

    @property
    def notes(self) -> list[str]:
        """Notes for readers of the results."""
        return self._notes

    def note(self, *notes: str) -> None:
        """Add notes, each once."""
        self._notes += [note for note in notes if note not in self._notes]

    @abstractmethod
    def accepts(self, statement: Statement) -> LeaveoutError | None:
        """Return why the engine cannot decide a statement; None if it can."""

    @abstractmethod
    def load(self, statement: Statement) -> J:
        """Load a statement that is accepted."""

    @abstractmethod
    def decide(self, job: J, clock: Clock) -> list[Result]:
        """Return the results of a statement."""

    def kind(self, job: J) -> Kind:
        """Return the kind of claim, which determines the options that apply."""
        return self.claims

    @abstractmethod
    def outline(self, job: J) -> Outline:
        """Return what would be solved."""

    def searches(self, job: J) -> int:
        """Return the number of searches that share the time."""
        return 1

    def open_searches(self, job: J) -> int:
        """Return the number of searches that would go on with more time."""
        return 0

    def kernels(self, job: J) -> Sequence[str]:
        """Return the names of the compiled kernels needed."""
        return ()

    def resume(self, job: J, store: Checkpoints) -> list[Checkpoint]:
        """Resume from checkpoints; return those of this statement."""
        return []

    def explain(self, job: J) -> Case | None:
        """Return what advice on an unknown result needs; None where there is none to give."""
        return None

    def models(self, job: J) -> list[ModelRecord]:
        """Return the models whose leaks a statement asks about."""
        return []

    def by_row(self, jobs: Sequence[J], clock: Clock) -> list[ByRowRecord]:
        """Return what is proved of each row, per question about a family."""
        return []


@dataclass(frozen=True, eq=False)
class Task(Generic[J]):
    """A statement loaded by the engine that decides it."""

    statement: Statement
    engine: Engine[J]
    job: J


def task_of(statement: Statement, engines: Sequence[Engine[Any]]) -> Task[Any]:
    """Load a statement with the first engine that accepts it."""
    refusals = []
    for engine in engines:
        refusal = engine.accepts(statement)
        if refusal is None:
            return Task(statement, engine, engine.load(statement))
        refusals.append(refusal)
    raise refusals[-1]
