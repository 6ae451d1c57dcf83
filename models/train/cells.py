"""The cells of a CSV with a header, as text, and the line of the file each row ends on."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from leaveout.errors import TrainingError
from leaveout.files import TABLE, opened_text

__all__ = ["Cells", "read_cells"]


@dataclass(frozen=True)
class Cells:
    """What a table holds.

    Attributes
    ----------
    header : list of str
        Names of the columns, all different.
    rows : list of list of str
        As many cells each as there are columns; perhaps no row at all.
    lines : list of int
        The line of the file each row ends on, from 1.
    """

    header: list[str]
    rows: list[list[str]]
    lines: list[int]


def read_cells(path: Path) -> Cells:
    """Read the cells of a table, as text.

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
            _check_header(path, header)
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
        raise TrainingError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TrainingError(
            f"{path}: byte {error.start} is not UTF-8 text; save the table as UTF-8"
        ) from None
    except csv.Error as error:
        raise TrainingError(f"{path}, line {reader.line_num}: not CSV: {error}") from None
    return Cells(header, rows, lines)


def _check_header(path: Path, header: list[str]) -> None:
    if not header or header == [""]:
        raise TrainingError(f"{path}: is empty; expected a header line with the column names")
    for position, name in enumerate(header):
        if not name:
            raise TrainingError(f"{path}, line 1: column {position + 1} has no name; give it one")
        if name in header[:position]:
            raise TrainingError(f"{path}, line 1: two columns are named {name!r}; rename one")
