"""Progress and report of a run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.exit_codes import ExitCode
from leaveout.models.family import FAMILY
from leaveout.models.quality import Quality
from leaveout.models.train.export import BOUNDS, NETWORK, SPEC


class TrainingInterruptedError(TrainingError):
    """Training was interrupted from the keyboard; finished parts are kept."""

    exit_code = ExitCode.INTERRUPTED


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of training.

    Attributes
    ----------
    finished : int
        Networks on disk: the one on all rows and the members.
    networks : int
        Total number of networks.
    work : float
        Training done so far, in networks; unfinished blocks count by their share.
    note : str
        A line on an event since, such as a worker's death; usually empty.
    """

    finished: int
    networks: int
    work: float
    note: str = ""


@dataclass(frozen=True, repr=False)
class TrainingReport:
    """What was trained.

    Attributes
    ----------
    directory : Path
    rows, features, labels, members : int
    train_accuracy : float
        Share of rows labelled correctly by the network on all rows, in [0, 1].
    test_accuracy : float or None
        The same for the test rows; None if there are none.
    seconds : float
        Duration of this run.
    complete_before : bool
        Whether the result existed already, so that nothing was done.
    files : tuple of Path
    warnings : tuple of str
        Why the members may not be a leave-one-out family, and likely mistakes in the table.
    quality : Quality
        How accurate the network is on its training rows.
    groups : int or None
        Groups of rows that leave together; None if each row leaves alone.
    """

    directory: Path
    rows: int
    features: int
    labels: int
    members: int
    train_accuracy: float
    test_accuracy: float | None
    seconds: float
    complete_before: bool
    files: tuple[Path, ...]
    quality: Quality
    groups: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def network(self) -> Path:
        """The network on all rows, as an ONNX file."""
        return self.directory / NETWORK

    @property
    def family(self) -> Path:
        """The file of the members."""
        return self.directory / FAMILY

    @property
    def spec(self) -> Path:
        """The initial specification."""
        return self.directory / SPEC

    @property
    def bounds(self) -> Path:
        """Where `leaveout.verify` should write bounds for a guard to find."""
        return self.directory / BOUNDS

    def __repr__(self) -> str:
        return (
            f"<{self.members:,} of {self.rows:,} rows left out, {self.features:,} features, "
            f"{self.labels:,} labels, train accuracy {self.train_accuracy:.1%} (majority "
            f"{self.quality.majority:.1%}, balanced {self.quality.balanced:.1%}): {self.spec}>"
        )


@dataclass(frozen=True)
class Shown:
    """The callbacks that report a run's progress."""

    progress: Callable[[TrainingProgress], None]  # receives each `TrainingProgress`
    read: Callable[[float], None] | None = None  # before training, receives the share of data read


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


@contextmanager
def progress_bar(
    instead: Callable[[TrainingProgress], None] | None = None,
) -> Iterator[Shown]:
    """Show progress and notes on a terminal or in a notebook, elsewhere only notes."""
    if instead is not None or not (sys.stderr.isatty() or _in_notebook()):
        yield Shown(instead or _say_note)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=Console(stderr=True),
        transient=True,
        # A network may take minutes: the first one's duration is used to predict the others'.
        speed_estimate_period=3600,
    )
    tasks: dict[str, TaskID] = {}

    def begin(what: str, total: float, done: int) -> TaskID:
        if what not in tasks:
            for other in tasks.values():
                bar.remove_task(other)
            tasks[what] = bar.add_task(what, total=total, completed=done, said="")
        return tasks[what]

    def read(share: float) -> None:
        bar.update(begin("reading", 1, 0), completed=share, said=f"{share:.0%}")

    def show(progress: TrainingProgress) -> None:
        task = begin("training", progress.networks, progress.finished)
        if progress.note:
            bar.console.print(progress.note, markup=False, highlight=False, soft_wrap=True)
        said = f"{progress.finished:,}/{progress.networks:,} networks"
        bar.update(task, completed=progress.work, said=said)

    with bar:
        yield Shown(show, read)


def _say_note(progress: TrainingProgress) -> None:
    if progress.note:
        sys.stderr.write(f"{progress.note}\n")
        sys.stderr.flush()
