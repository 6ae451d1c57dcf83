"""Progress bars on a terminal, and a one-line message on Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from leaveout.errors import TrainingError
from leaveout.exit_codes import ExitCode


@contextmanager
def counter_bar(what: str, unit: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on a terminal from the first report on; elsewhere yield None."""
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
        # What names this error may be what was being imported.
        error = TrainingError("interrupted; nothing was written")
        error.exit_code = ExitCode.INTERRUPTED
        raise error from None
