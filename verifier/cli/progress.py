"""Live progress on standard error, off when that is not a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.status import Status

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
