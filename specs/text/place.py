"""Messages that point into the right file, included ones too."""

from __future__ import annotations

from leaveout.errors import SpecError
from leaveout.specs.text.errors import Slip, error_in_source
from leaveout.specs.text.source import Position, Source


def error_in_file(source: Source, slip: Slip) -> SpecError:
    """Return the error that shows a slip in the file where it is."""
    file, at = source.find(slip.at)
    return error_in_source(file, Slip(at, slip.wrong, slip.cure))


def place(source: Source, at: Position, seen_from: Position) -> str:
    """Return ``line:column``, preceded by the name of the file if it is another one."""
    file, local = source.find(at)
    here, _ = source.find(seen_from)
    where = f"{local.line}:{local.column}"
    return where if file is here else f"{file.name}:{where}"
