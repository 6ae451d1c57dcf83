"""Ballots as CSV: a row per test point, with its true label and all votes."""

from __future__ import annotations

import re
import warnings
from io import StringIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import BallotError
from leaveout.files import TABLE, read_whole
from leaveout.models.votes.ballots import MOST_LABELS, Ballots

_LABELS = re.compile(r"#\s*labels\s*=\s*(\S+)\s*")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


def read_csv(path: Path) -> Ballots:
    """Read a CSV with the header ``truth,part_0,part_1,...``.

    Without a line ``# labels = 10``, labels are counted from the data, at least two. Unseen larger
    labels have no votes and lose ties, so they lower no radius.
    """
    try:
        text = read_whole(path, TABLE).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise BallotError(
            f"{path}: byte {error.start} is not UTF-8 text; save the table as UTF-8"
        ) from None
    if not text.strip():
        raise BallotError(f"{path}: is empty; expected the header truth,part_0,part_1,...")
    first, _, rest = text.partition("\n")
    labels, line = None, 1
    if first.lstrip().startswith("#"):
        labels, line = _parse_label_count(path, first), 2
        first, _, rest = rest.partition("\n")
    columns = _header(path, line, first)
    table = _numbers(path, line + 1, columns, rest)
    if not len(table):
        raise BallotError(f"{path}: there is no row below the header; add a row a test point")
    large = np.argwhere((table >= MOST_LABELS) | (table < -MOST_LABELS))
    if len(large):
        row, column = (int(i) for i in large[0])
        raise BallotError(
            f"{path}: {columns[column]!r} of test point {row} is {table[row, column]}, far beyond "
            "any label; number the labels from 0"
        )
    if labels is None:
        labels = max(2, int(table.max()) + 1)
    numbers = table.astype(np.int32)
    return Ballots(
        votes=np.ascontiguousarray(numbers[:, 1:]),
        truth=np.ascontiguousarray(numbers[:, 0]),
        labels=labels,
        source=str(path),
    )


def _parse_label_count(path: Path, line: str) -> int:
    """Return the number of labels stated in the first line."""
    match = _LABELS.fullmatch(line.strip())
    if match is None or not re.fullmatch(r"[0-9]{1,9}", match[1]):
        raise BallotError(
            f"{path}, line 1: {line.strip()!r} is not understood; expected how many labels there "
            "are, as in '# labels = 10', or the header truth,part_0,part_1,..."
        )
    return int(match[1])


def _header(path: Path, line: int, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if names[0] != "truth":
        raise BallotError(
            f"{path}, line {line}: the first column is {names[0]!r}, expected 'truth', the true "
            "label, and after it part_0,part_1,..."
        )
    for index, name in enumerate(names[1:]):
        if name != f"part_{index}":
            again = " (it is there twice)" if name in names[1 : index + 1] else ""
            raise BallotError(
                f"{path}, line {line}: column {index + 2} is {name!r}{again}, expected "
                f"'part_{index}'; name the columns truth,part_0,part_1,... in this order"
            )
    return names


def _numbers(path: Path, line: int, columns: list[str], text: str) -> NDArray[np.int64]:
    if not text.strip():
        return np.empty((0, len(columns)), dtype=np.int64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = np.loadtxt(
                StringIO(text), dtype=np.int64, delimiter=",", comments=None, ndmin=2
            )
        if table.shape[1] == len(columns):
            return table
    except (ValueError, OverflowError, Warning):
        pass
    # Something is amiss: a slower look says where.
    rows = []
    for number, content in enumerate(text.split("\n"), start=line):
        if content.strip():
            rows.append(_row(f"{path}, line {number}", columns, content))
    return np.array(rows, dtype=np.int64)


def _row(place: str, columns: list[str], content: str) -> list[int]:
    cells = [cell.strip() for cell in content.split(",")]
    if len(cells) != len(columns):
        raise BallotError(
            f"{place}: {len(cells)} cells, expected {len(columns)} as in the header; mend the line"
        )
    for name, cell in zip(columns, cells, strict=True):
        if not _WHOLE.fullmatch(cell):
            what = f"is {cell!r}, which is not a whole number" if cell else "is missing"
            raise BallotError(f"{place}, column {name!r}: the label {what}; expected 0, 1, 2, ...")
    return [int(cell) for cell in cells]
