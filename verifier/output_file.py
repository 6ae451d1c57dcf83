"""Output files: checked before any work is done, and written atomically at its end."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import LeaveoutError, SpecError
from leaveout.files import write_whole


@dataclass(frozen=True)
class OutputFile:
    """A file, or standard output."""

    option: str  # what messages begin with
    path: Path | None  # None for standard output
    error: type[LeaveoutError] = SpecError

    @staticmethod
    def open(
        option: str,
        name: str | Path,
        error: type[LeaveoutError] = SpecError,
        *,
        stdout: bool = False,
        kind: str = "",
        is_one: Callable[[Path], bool] = lambda path: True,
    ) -> OutputFile:
        """Refuse what cannot be written, or exists and is none of its ``kind``.

        With ``stdout``, the name ``-`` is standard output.
        """
        if stdout and name == "-":
            return OutputFile(option, None, error)
        path = Path(name)
        target = OutputFile(option, path, error)
        try:
            if path.is_dir():
                raise error(f"{option} {path}: is a folder; name a file")
            if not path.resolve().parent.is_dir():
                raise error(f"{option} {path}: no such folder; create it first")
            if path.exists() and not path.is_file():
                hint = "; '-' writes to standard output" * stdout
                raise error(f"{option} {path}: not a regular file{hint}")
            if path.exists() and not is_one(path):
                raise error(
                    f"{option} {path}: exists and is not {kind}; choose another name, or remove it"
                )
            # What would fail in the end fails now: an invalid name, no permission, no space.
            with tempfile.TemporaryFile(prefix=".leaveout-", dir=path.resolve().parent):
                pass
        except (OSError, ValueError) as failed:
            raise target.refusal(failed) from None
        return target

    def write(self, content: bytes) -> None:
        """Write the content."""
        if self.path is None:
            sys.stdout.write(content.decode())
            sys.stdout.flush()
            return
        try:
            write_whole(self.path, content)
        except OSError as failed:
            raise self.refusal(failed) from None

    def refusal(self, failed: OSError | ValueError) -> LeaveoutError:
        """Return the error about a failure to write."""
        why = getattr(failed, "strerror", None) or failed
        return self.error(f"{self.option} {self.path}: cannot write: {why}")
