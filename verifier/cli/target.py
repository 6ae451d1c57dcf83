"""The output path of JSON results, checked before any work is done."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from leaveout.errors import SpecError
from leaveout.files import RESULTS, read_whole
from leaveout.verifier.report import Report, write_json


@dataclass(frozen=True)
class JsonTarget:
    """A file, standard output, or nowhere."""

    path: Path | None = None
    is_stdout: bool = False

    @staticmethod
    def open(text: str | None) -> JsonTarget:
        """Read the value of ``--json``."""
        if text is None:
            return JsonTarget()
        if text == "-":
            return JsonTarget(is_stdout=True)
        path = Path(text)
        try:
            _refuse_unusable(path)
            # What would fail in the end fails now: an odd name, no permission, no space.
            with tempfile.TemporaryFile(prefix=".leaveout-", dir=path.resolve().parent):
                pass
        except OSError as error:
            raise SpecError(f"--json {path}: cannot be written: {error.strerror}") from None
        return JsonTarget(path)

    def write(self, report: Report) -> None:
        """Write the report atomically."""
        if self.is_stdout:
            sys.stdout.write(report.to_json().decode())
            sys.stdout.flush()
        elif self.path is not None:
            try:
                write_json(report, self.path)
            except OSError as error:
                raise SpecError(
                    f"--json {self.path}: cannot be written: {error.strerror}"
                ) from None


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Tolerate a closed standard output; the exit status stays the verdicts'."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would try to flush into the closed pipe at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse_unusable(path: Path) -> None:
    """Raise on folders, devices and files that are not earlier results."""
    if path.is_dir():
        raise SpecError(f"--json {path}: is a folder; give a file name")
    if not path.resolve().parent.is_dir():
        raise SpecError(f"--json {path}: the folder does not exist; make it first")
    if not path.exists():
        return
    if not path.is_file():
        raise SpecError(f"--json {path}: is not an ordinary file; '-' writes to standard output")
    content = read_whole(path, RESULTS) if path.stat().st_size < RESULTS else b"{"
    try:
        known = not content or {"leaveout", "results"} <= set(msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError):
        known = False
    if not known:
        raise SpecError(
            f"--json {path}: exists and holds no results; choose another name, or remove it"
        )
