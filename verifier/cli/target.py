"""Where the JSON results go, checked before any work is done."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import SpecError
from leaveout.verifier.report import Report, write_json

__all__ = ["JsonTarget"]


@dataclass(frozen=True)
class JsonTarget:
    """A file, standard output, or nowhere.

    Attributes
    ----------
    path : Path or None
    is_stdout : bool
    """

    path: Path | None = None
    is_stdout: bool = False

    @staticmethod
    def open(text: str | None) -> JsonTarget:
        """Read the value of ``--json``.

        Raises
        ------
        SpecError
            If the file could not be written in the end.
        """
        if text is None:
            return JsonTarget()
        if text == "-":
            return JsonTarget(is_stdout=True)
        path = Path(text)
        if path.is_dir():
            raise SpecError(f"--json {path}: is a directory; give a file name")
        if not path.absolute().parent.is_dir():
            raise SpecError(f"--json {path}: the folder does not exist; make it first")
        if not os.access(path.absolute().parent, os.W_OK):
            raise SpecError(f"--json {path}: the folder is not writable")
        return JsonTarget(path)

    def write(self, report: Report) -> None:
        """Write the report, whole or not at all."""
        if self.is_stdout:
            sys.stdout.write(report.to_json().decode())
            sys.stdout.flush()
        elif self.path is not None:
            write_json(report, self.path)
