"""Tables with labels: a CSV with a header, every cell a text, errors with places."""

from __future__ import annotations

import csv
import math
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.files import TABLE, open_text_file, why_unread
from leaveout.models.cells import Cells, CellsReader
from leaveout.names import hint

OnRead = Callable[[float], None]
"""Told which share of a file is read, from time to time."""

OnHeader = Callable[["Table"], object]
"""Shown the table, without rows yet, once its header is read: what it raises ends the reading."""

_CHUNK = 2**10
"""Rows that are turned into columns together."""

_SHOWN = 8
_MOST_FRACTIONAL_LABELS = 20


@dataclass(frozen=True, eq=False)
class Table:
    """A table's cells, and their lines in the file."""

    path: Path
    header: list[str]  # names of the columns, all different
    columns: tuple[Cells, ...]  # one for each name; perhaps without any row
    lines: Sequence[int]  # the line of the file each row ends on, from 1
    unit: str = "line"  # what messages call a line, where the table is none of a file

    @classmethod
    def of_rows(
        cls,
        path: Path,
        header: list[str],
        rows: Sequence[Sequence[str]],
        lines: Sequence[int],
        unit: str = "line",
    ) -> Table:
        """Return the table with these rows, each with one cell per column."""
        columns = tuple(Cells.of(row[place] for row in rows) for place in range(len(header)))
        return cls(path, header, columns, lines, unit)

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def rows(self) -> list[list[str]]:
        """The cells of each row."""
        return [list(row) for row in self._rows()]

    def cells(self, name: str) -> Cells:
        """Return the cells of a column."""
        return self.columns[self.header.index(name)]

    def column(self, name: str) -> list[str]:
        """Return the cell of each row in a column."""
        return self.cells(name).texts()

    def records(self) -> Iterator[dict[str, str]]:
        """Yield each row as a dictionary from column names to cells."""
        return (dict(zip(self.header, row, strict=True)) for row in self._rows())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        return zip(*(each.texts() for each in self.columns), strict=True)

    def at(self, row: int, column: str) -> str:
        """Return the name that messages use for the place of a cell."""
        return f"{self.path}, {self.unit} {self.lines[row]}, column {column!r}"

    def take_rows(self, rows: Sequence[int]) -> Table:
        """Return the table of some of the rows."""
        columns = tuple(
            Cells.of(each.words[code] for code in each.codes[list(rows)].tolist())
            for each in self.columns
        )
        return replace(self, columns=columns, lines=[self.lines[i] for i in rows])

    def require(self, name: str, why: str) -> None:
        """Refuse a table without a column of this name, giving the reason."""
        if name not in self.header:
            shown = ", ".join(self.header[:_SHOWN])
            more = f", ... ({len(self.header)} columns)" if len(self.header) > _SHOWN else ""
            raise TrainingError(
                f"{self.path}, line 1: there is no column {name!r}{hint(name, self.header)}; "
                f"{why}; it has {shown}{more}"
            )

    def label_and_features(
        self, label: str | None, identity: str | None = None
    ) -> tuple[str, list[str]]:
        """Return the label column and the feature columns in order."""
        if len(self.header) == 1 and ";" in self.header[0]:
            raise TrainingError(
                f"{self.path}, line 1: one column only, with ';' in its name; separate columns by "
                "commas"
            )
        if label is None:
            raise TrainingError(
                f"{self.path}: say which column holds the label, as in --label {self.header[-1]!r}"
            )
        self.require(label, "--label names one of its columns")
        if label == identity:
            raise TrainingError(f"{self.path}: {label!r} cannot be both the label and the rows' id")
        names = [name for name in self.header if name not in {label, identity}]
        if not names:
            raise TrainingError(
                f"{self.path}, line 1: there is no column beside the label {label!r}"
            )
        return label, names

    def labels(self, column: str) -> list[str]:
        """Return a label column's distinct cells, sorted as numbers if all are."""
        distinct = sorted(self.cells(column).words)
        read = {cell: number(cell) for cell in distinct}
        numbers = {
            cell: value
            for cell, value in read.items()
            if value is not None and math.isfinite(value)
        }
        if len(numbers) < len(distinct):
            return distinct
        distinct.sort(key=lambda cell: (numbers[cell], cell))
        fractional = [cell for cell in distinct if not numbers[cell].is_integer()]
        if fractional and len(distinct) > _MOST_FRACTIONAL_LABELS:
            raise TrainingError(
                f"{self.path}, column {column!r}: {len(distinct)} different labels, "
                f"{fractional[0]!r} among them, look like measurements; expected a few classes: "
                "cut the column into ranges"
            )
        return distinct


def number(cell: str) -> float | None:
    """Parse a cell as a number in common table notation; None if it is not one."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def read_table(
    path: Path, on_read: OnRead | None = None, on_header: OnHeader | None = None
) -> Table:
    """Read a table."""
    lines = array("q")
    last = 0
    try:
        with open_text_file(path, TABLE) as stream:
            size = path.stat().st_size
            reader = csv.reader(stream, skipinitialspace=True, strict=True)
            header = [name.strip() for name in next(reader, [])]
            check_header(path, header)
            if on_header is not None:
                on_header(Table.of_rows(path, header, [], []))
            columns = [CellsReader() for _ in header]
            rows: list[list[str]] = []
            last = reader.line_num
            for row in reader:
                first, last = last + 1, reader.line_num
                if len(row) != len(header):
                    if _is_blank(row):
                        continue
                    raise TrainingError(
                        f"{path}, {_lines(first, last)}: {len(row)} cells, expected "
                        f"{len(header)} as in the header; mend the line"
                    )
                rows.append(row)
                lines.append(last)
                if len(rows) == _CHUNK:
                    _take(columns, rows)
                    if on_read is not None:
                        on_read(os.lseek(stream.fileno(), 0, os.SEEK_CUR) / size)
            _take(columns, rows)
    except OSError as error:
        raise TrainingError(f"{path}: {why_unread(error)}") from None
    except UnicodeDecodeError as error:
        raise TrainingError(
            f"{path}: byte {error.start} is not UTF-8 text; save the table as UTF-8"
        ) from None
    except csv.Error as error:
        raise TrainingError(f"{path}, {_flaw(error, last + 1, reader.line_num)}") from None
    return Table(path, header, tuple(each.cells() for each in columns), lines)


def _take(columns: Sequence[CellsReader], rows: list[list[str]]) -> None:
    """Move rows into columns, emptying the list."""
    for column, cells in zip(columns, zip(*rows, strict=True), strict=False):
        column.take(cells)
    rows.clear()


def _is_blank(row: Sequence[str]) -> bool:
    """Return whether a row is blank in a table of several columns."""
    return not row or (len(row) == 1 and not row[0].strip())


def _lines(first: int, last: int) -> str:
    return f"line {last}" if first == last else f"lines {first} to {last}"


def _flaw(error: csv.Error, first: int, last: int) -> str:
    if first == last:
        return f"line {last}: not CSV: {error}"
    return (
        f"line {first}: not CSV: a quote that opens in this row is not closed as it should be (it "
        f"was read on to line {last}: {error}); close it, or write two for one within a cell"
    )


def check_header(path: Path, header: list[str]) -> None:
    """Raise TrainingError for a header with missing or repeated names."""
    if not header or header == [""]:
        raise TrainingError(f"{path}: is empty; expected a header line with the column names")
    for position, name in enumerate(header):
        if not name:
            raise TrainingError(f"{path}, line 1: column {position + 1} has no name; give it one")
        if name in header[:position]:
            raise TrainingError(f"{path}, line 1: two columns are named {name!r}; rename one")
