"""Tables whose lines are each read by themselves: one that cannot be read is left aside alone."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.files import TABLE, open_file, why_unread
from leaveout.models.table import Table, check_header

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(path: Path) -> tuple[Table, tuple[str, ...]]:
    """Read a table line by line, and leave aside what is no row of it.

    What becomes of a line depends on the header and the line alone. So a cell that goes on in the
    next line makes no row: a quote that is left open would otherwise take in the lines below it.
    Of tables in which every line is a row it returns what `leaveout.models.table.read_table` does.
    """
    header: list[str] | None = None
    rows: list[list[str]] = []
    lines: list[int] = []
    reasons: Counter[str] = Counter()
    first: dict[str, int] = {}
    try:
        for number, content in enumerate(_contents(path), start=1):
            if header is None:
                header = _header(path, content)
            else:
                found = _cells(content, len(header))
                if isinstance(found, str):
                    reasons[found] += 1
                    first.setdefault(found, number)
                elif found:
                    rows.append(found)
                    lines.append(number)
    except OSError as error:
        raise TrainingError(f"{path}: {why_unread(error)}") from None
    if header is None:
        header = _header(path, b"")
    return Table.of_rows(path, header, rows, lines), tuple(
        f"{count} line{'s' * (count != 1)} left aside: {why} (the first is line {first[why]})"
        for why, count in sorted(reasons.items())
    )


def _contents(path: Path) -> Iterator[bytes]:
    """Yield lines without their ends, however these are written."""
    with open_file(path, TABLE) as stream:
        for place, chunk in enumerate(stream):
            content = chunk.removeprefix(_BYTE_ORDER_MARK) if not place else chunk
            yield from content.splitlines()


def _header(path: Path, content: bytes) -> list[str]:
    found = _parsed(content)
    if isinstance(found, str):
        raise TrainingError(f"{path}, line 1: the header cannot be read: {found}")
    header = [name.strip() for name in found]
    check_header(path, header)
    return header


def _cells(content: bytes, columns: int) -> list[str] | str:
    """Return a line's cells, none of a blank line, or why it is no row."""
    found = _parsed(content)
    if isinstance(found, str):
        return found
    if not found or (len(found) == 1 and not found[0].strip() and columns > 1):
        return []
    if len(found) != columns:
        return f"not {columns} cells, as the header has"
    return [cell.strip() for cell in found]


def _parsed(content: bytes) -> list[str] | str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "not UTF-8 text"
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        return f"not CSV: {error}"
