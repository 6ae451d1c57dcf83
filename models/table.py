"""Tables with labels: a CSV with a header, every cell a text; each message names its place."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.files import TABLE, opened_text, why_unread
from leaveout.names import hint

__all__ = ["Table", "check_header", "number", "read_table"]

_SHOWN = 8
_MOST_FRACTIONAL_LABELS = 20


@dataclass(frozen=True, eq=False)
class Table:
    """What a table holds, and where in the file.

    Attributes
    ----------
    path : Path
    header : list of str
        Names of the columns, all different.
    rows : list of list of str
        As many cells each as there are columns; perhaps no row at all.
    lines : list of int
        The line of the file each row ends on, from 1.
    unit : str
        What messages call a line, where the table is none of a file.
    """

    path: Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    unit: str = "line"

    def column(self, name: str) -> list[str]:
        """Return the cells of a column."""
        place = self.header.index(name)
        return [row[place] for row in self.rows]

    def records(self) -> Iterator[dict[str, str]]:
        """Yield each row as cells by the names of their columns."""
        return (dict(zip(self.header, row, strict=True)) for row in self.rows)

    def at(self, row: int, column: str) -> str:
        """Return what a message calls the place of a cell."""
        return f"{self.path}, {self.unit} {self.lines[row]}, column {column!r}"

    def chosen(self, rows: Sequence[int]) -> Table:
        """Return some of the rows."""
        return replace(self, rows=[self.rows[i] for i in rows], lines=[self.lines[i] for i in rows])

    def require(self, name: str, why: str) -> None:
        """Refuse the table, with the reason, if it has no column of this name.

        Raises
        ------
        TrainingError
        """
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
        """Return the column to predict and the others, in order, but the one that names rows.

        Raises
        ------
        TrainingError
            If either is missing, or the columns are not separated by commas.
        """
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
        """Return the distinct cells of a column of labels: in order as numbers if all are.

        Raises
        ------
        TrainingError
            If they look like measurements.
        """
        distinct = sorted(set(self.column(column)))
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
    """Read a cell as a number, as people write them in tables; None if it is not one."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def read_table(path: Path) -> Table:
    """Read a table.

    Parameters
    ----------
    path : Path
        UTF-8, commas, the first line names the columns. Blanks around cells do not count.

    Raises
    ------
    TrainingError
        With file and line of what is no table.
    """
    lines: list[int] = []
    rows: list[list[str]] = []
    try:
        with opened_text(path, TABLE) as stream:
            reader = csv.reader(stream, skipinitialspace=True, strict=True)
            header = [name.strip() for name in next(reader, [])]
            check_header(path, header)
            for row in reader:
                if not row or (len(row) == 1 and not row[0].strip() and len(header) > 1):
                    continue
                if len(row) != len(header):
                    raise TrainingError(
                        f"{path}, line {reader.line_num}: {len(row)} cells, expected "
                        f"{len(header)} as in the header; mend the line"
                    )
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except OSError as error:
        raise TrainingError(f"{path}: {why_unread(error)}") from None
    except UnicodeDecodeError as error:
        raise TrainingError(
            f"{path}: byte {error.start} is not UTF-8 text; save the table as UTF-8"
        ) from None
    except csv.Error as error:
        raise TrainingError(f"{path}, line {reader.line_num}: not CSV: {error}") from None
    return Table(path, header, rows, lines)


def check_header(path: Path, header: list[str]) -> None:
    """Refuse a header without names, or with one twice; raises TrainingError."""
    if not header or header == [""]:
        raise TrainingError(f"{path}: is empty; expected a header line with the column names")
    for position, name in enumerate(header):
        if not name:
            raise TrainingError(f"{path}, line 1: column {position + 1} has no name; give it one")
        if name in header[:position]:
            raise TrainingError(f"{path}, line 1: two columns are named {name!r}; rename one")
