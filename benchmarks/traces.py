"""Runs of the engines with their bounds over time, kept as JSON lines."""

from __future__ import annotations

import contextlib
import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from leaveout.bab import EngineResult, Instance, LucidOptions, Progress
from leaveout.bab import search as lucid_search
from leaveout.bab.native.leaks import Leaks
from leaveout.bab.native.leaks import search as native_search
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.workers.worker import Worker
from leaveout.cores import cores

__all__ = ["Moment", "Run", "machine", "run_lucid", "run_native", "warm_up", "write_traces"]


@dataclass(frozen=True)
class Moment:
    """Bounds at one time of a run.

    Attributes
    ----------
    seconds, lower, upper : float
    open : int
        Nodes, or sets of members, that may still hold a worse leak.
    """

    seconds: float
    lower: float
    upper: float
    open: int


@dataclass(frozen=True, eq=False)
class Run:
    """One search for one label.

    Attributes
    ----------
    row, engine : str
    label : int
    members : int
    result : EngineResult
    trace : list of Moment
        In the order of time; the last is how it ended.
    """

    row: str
    engine: str
    label: int
    members: int
    result: EngineResult
    trace: list[Moment] = field(repr=False)

    def at(self, seconds: float) -> Moment | None:
        """Return the last moment that is not later, None before the first."""
        before = [moment for moment in self.trace if moment.seconds <= seconds]
        return before[-1] if before else None

    def reaches(self, upper: float) -> float | None:
        """Return when the upper bound first was at most ``upper``, None if never."""
        return next((m.seconds for m in self.trace if m.upper <= upper), None)


class _Recorder:
    """Keeps every moment an engine tells of, and how it ended."""

    def __init__(self) -> None:
        self.trace: list[Moment] = []

    def __call__(self, progress: Progress) -> None:
        moment = Moment(progress.seconds, progress.lower, progress.upper, progress.open_sets)
        self.trace.append(moment)

    def ended(self, result: EngineResult) -> list[Moment]:
        left = self.trace[-1].open if self.trace and not result.closed else 0
        self.trace.append(Moment(result.seconds, result.lower, result.upper, left))
        return self.trace


def warm_up(instance: Instance, options: NativeOptions) -> None:
    """Compile the native engine's kernel, so that no run is charged for it."""
    Worker(Leaks(instance, 0), options).start(0.0)


def run_native(row: str, instance: Instance, label: int, options: NativeOptions) -> Run:
    """Run the native engine."""
    recorder = _Recorder()
    result = native_search(instance, label, options, progress=recorder)
    return Run(row, "native", label, len(instance.family), result, recorder.ended(result))


def run_lucid(row: str, instance: Instance, label: int, options: LucidOptions) -> Run:
    """Run LUCID's algorithm with a MILP solver."""
    recorder = _Recorder()
    result = lucid_search(instance, label, options, progress=recorder)
    engine = f"lucid+{options.solver}"
    return Run(row, engine, label, len(instance.family), result, recorder.ended(result))


def write_traces(path: Path, runs: Iterable[Run]) -> None:
    """Write one JSON object a moment: row, engine, label, members, and the moment's numbers."""
    with path.open("w") as stream:
        for run in runs:
            head = {
                "row": run.row,
                "engine": run.engine,
                "label": run.label,
                "members": run.members,
            }
            for moment in run.trace:
                stream.write(json.dumps({**head, **asdict(moment)}) + "\n")


def machine() -> str:
    """Return the processor's name, where the system tells it, and how many cores may be used."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {cores()} cores"
