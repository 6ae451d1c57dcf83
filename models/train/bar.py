"""A progress bar for training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaveout.models.train.report import TrainingProgress


@dataclass(frozen=True)
class Shown:
    """The callbacks that report a run's progress."""

    progress: Callable[[TrainingProgress], None]  # each `TrainingProgress`
    read: Callable[[float], None] | None = None  # before that, which share of the data is read


@contextmanager
def progress_bar(
    instead: Callable[[TrainingProgress], None] | None = None,
) -> Iterator[Shown]:
    """Show progress and notes on the terminal; only notes where there is none."""
    if instead is not None or not sys.stderr.isatty():
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
        # Networks may take a minute each: what the first took says how long the others will.
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
