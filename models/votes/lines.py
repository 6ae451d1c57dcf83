"""Tables read line by line, so that an unreadable line is skipped alone."""

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
    """Read a table line by line, skipping lines that are not rows.

    Each line is read by itself, so a cell cannot continue on the next line: an open quote would
    swallow lines below. For tables of valid lines it equals `read_table`.
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
    """Yield lines without their line ends, of any kind."""
    with open_file(path, TABLE) as stream:
        for place, chunk in enumerate(stream):
            content = chunk.removeprefix(_BYTE_ORDER_MARK) if not place else chunk
            yield from content.splitlines()


def _header(path: Path, content: bytes) -> list[str]:
    found = _parse_line(content)
    if isinstance(found, str):
        raise TrainingError(f"{path}, line 1: the header cannot be read: {found}")
    header = [name.strip() for name in found]
    check_header(path, header)
    return header


def _cells(content: bytes, columns: int) -> list[str] | str:
    """Return a line's cells, empty for a blank line, or why it is not a row."""
    found = _parse_line(content)
    if isinstance(found, str):
        return found
    if not found or (len(found) == 1 and not found[0].strip() and columns > 1):
        return []
    if len(found) != columns:
        return f"not {columns} cells, as the header has"
    return [cell.strip() for cell in found]


def _parse_line(content: bytes) -> list[str] | str:
    """Return the cells of a line, or why it cannot be read."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "not UTF-8 text"
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True), [])
    except csv.Error as error:
        return f"not CSV: {error}"
