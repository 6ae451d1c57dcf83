"""The output path of rows as CSV or JSON, checked before any work is done."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import SpecError
from leaveout.files import write_whole


@dataclass(frozen=True)
class TextTarget:
    """A file, or standard output."""

    option: str  # for messages
    path: Path | None  # None for standard output

    @staticmethod
    def open(option: str, text: str | None) -> TextTarget | None:
        """Read the value of an option; None if not given."""
        if text is None:
            return None
        if text == "-":
            return TextTarget(option, None)
        path = Path(text)
        try:
            if path.is_dir():
                raise SpecError(f"{option} {path}: is a folder; give a file name")
            if path.exists() and not path.is_file():
                raise SpecError(f"{option} {path}: is not an ordinary file")
            if not path.resolve().parent.is_dir():
                raise SpecError(f"{option} {path}: the folder does not exist; make it first")
            # What would fail in the end fails now.
            with tempfile.TemporaryFile(prefix=".leaveout-", dir=path.resolve().parent):
                pass
        except OSError as error:
            raise SpecError(f"{option} {path}: cannot be written: {error.strerror}") from None
        return TextTarget(option, path)

    def write(self, content: bytes) -> None:
        """Write the content atomically."""
        if self.path is None:
            sys.stdout.write(content.decode())
            sys.stdout.flush()
            return
        try:
            write_whole(self.path, content)
        except OSError as error:
            raise SpecError(
                f"{self.option} {self.path}: cannot be written: {error.strerror}"
            ) from None
