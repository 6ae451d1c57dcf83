"""Live progress on standard error; off if that is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.status import Status

from leaveout.errors import TrainingError
from leaveout.exit_codes import ExitCode

if TYPE_CHECKING:
    from leaveout.bab import Progress


class Display:
    """A live line with statement, label, bounds, open sets and time."""

    def __init__(self) -> None:
        console = self._console = Console(stderr=True)
        self._status: Status | None = None
        if console.is_terminal:
            self._status = Status("loading", console=console)

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, line: str) -> None:
        """Print a permanent line on standard error."""
        self._console.print(f"leaveout: {line}", soft_wrap=True, markup=False, highlight=False)

    def update(self, name: str, progress: Progress) -> None:
        """Show the state of the search for ``name``."""
        if self._status is None:
            return
        left = "" if progress.remaining is None else f", {progress.remaining:.0f} s left"
        if progress.words:
            self._status.update(f"{name}: {progress.words}, {progress.seconds:.0f} s{left}")
            return
        self._status.update(
            f"{name}, label {progress.label}: {progress.lower:.4g} to {progress.upper:.4g}, "
            f"{progress.open_sets} open, {progress.solved} bounded, "
            f"{progress.seconds:.0f} s{left}"
        )


@contextmanager
def live_line(text: str) -> Iterator[Callable[[str], None]]:
    """Show a line on a terminal, and yield what changes its text."""
    console = Console(stderr=True)
    with Status(text, console=console) if console.is_terminal else nullcontext() as status:
        yield (lambda line: None) if status is None else status.update


@contextmanager
def counter_bar(what: str, unit: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on a terminal, starting with the first report; elsewhere yield None."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn(what),
        BarColumn(),
        TextColumn(f"{{task.completed:,.0f}}/{{task.total:,.0f}} {unit}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: list[TaskID] = []

    def show(done: int, total: int) -> None:
        if not tasks:
            tasks.append(bar.add_task("", total=total))
        bar.update(tasks[0], completed=done)

    with bar:
        yield show


@contextmanager
def progress(what: str, unit: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """Show a bar of ``total`` steps; see `counter_bar`."""
    with counter_bar(what, unit) as show:
        yield None if show is None else lambda done: show(done, total)


@contextmanager
def interruptible() -> Iterator[None]:
    """Report Ctrl-C in one line, however early; imports alone take seconds."""
    try:
        yield
    except KeyboardInterrupt:
        # The names in this error may be those being imported.
        error = TrainingError("interrupted; nothing was written")
        error.exit_code = ExitCode.INTERRUPTED
        raise error from None
