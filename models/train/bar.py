"""A bar of progress, where somebody sees it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaveout.models.train.report import TrainingProgress

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(
    instead: Callable[[TrainingProgress], None] | None = None,
) -> Iterator[Callable[[TrainingProgress], None]]:
    """Show progress on the terminal: what is done, and the time left.

    Notes are shown on standard error where there is no terminal, too.

    Parameters
    ----------
    instead : callable or None
        What is told instead.

    Yields
    ------
    callable
        To be told each `TrainingProgress`.
    """
    if instead is not None or not sys.stderr.isatty():
        yield instead or _say_note
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
        TextColumn("training"),
        BarColumn(),
        TextColumn("{task.fields[finished]:,}/{task.total:,.0f} networks"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=Console(stderr=True),
        transient=True,
        # Networks may take a minute each: what the first took says how long the others will.
        speed_estimate_period=3600,
    )
    tasks: list[TaskID] = []

    def show(progress: TrainingProgress) -> None:
        if not tasks:
            tasks.append(
                bar.add_task(
                    "",
                    total=progress.networks,
                    completed=progress.finished,
                    finished=progress.finished,
                )
            )
        if progress.note:
            bar.console.print(progress.note, markup=False, highlight=False, soft_wrap=True)
        bar.update(tasks[0], completed=progress.work, finished=progress.finished)

    with bar:
        yield show


def _say_note(progress: TrainingProgress) -> None:
    if progress.note:
        sys.stderr.write(f"{progress.note}\n")
        sys.stderr.flush()
