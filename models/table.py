"""Tables with labels: a CSV with a header; all cells are text; errors state the place."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.names import hint


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a column, with each distinct word stored once."""

    words: Sequence[str]  # the distinct cells, in order of first use
    codes: NDArray[np.int32]  # shape (rows,): the word of each row

    @classmethod
    def of(cls, cells: Iterable[str]) -> Cells:
        """Return a column's cells, one per row; surrounding blanks are ignored."""
        reader = CellsReader()
        reader.take(list(cells))
        return reader.cells()

    def __len__(self) -> int:
        return len(self.codes)

    def texts(self) -> list[str]:
        """Return each row's cell."""
        return [self.words[code] for code in self.codes.tolist()]

    def counts(self) -> NDArray[np.int64]:
        """Return how many rows have each word, shape (words,)."""
        return np.bincount(self.codes, minlength=len(self.words))

    def first(self, word: int) -> int:
        """Return the first row with the word at an index."""
        return int(np.argmax(self.codes == word))

    def first_again(self) -> int | None:
        """Return the first row whose word occurred before; None if all rows differ."""
        if len(self.words) == len(self.codes):
            return None
        # Up to that row, each row has the next new word.
        return int(np.argmax(self.codes != np.arange(len(self.codes))))


class CellsReader:
    """Collector of a column's cells in batches; surrounding blanks are ignored."""

    def __init__(self) -> None:
        self._places = _Places()
        self._codes: list[NDArray[np.int32]] = []

    def take(self, cells: Sequence[str]) -> None:
        """Add the cells of the next rows."""
        places = map(self._places.__getitem__, cells)
        self._codes.append(np.fromiter(places, np.int32, len(cells)))

    def cells(self) -> Cells:
        """Return the cells of all rows."""
        codes = np.concatenate(self._codes) if self._codes else np.empty(0, dtype=np.int32)
        return Cells(self._places.words, codes)


class _Places(dict[str, int]):
    """The index of each word, in order of first use."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def __missing__(self, cell: str) -> int:
        word = cell.strip()
        if word != cell:
            place = self[word]
        else:
            place = len(self.words)
            self.words.append(word)
        self[cell] = place
        return place


_SHOWN = 8
_MOST_FRACTIONAL_LABELS = 20


@dataclass(frozen=True, eq=False)
class Table:
    """A table's cells, and their lines in the file."""

    path: Path
    header: list[str]  # names of the columns, all different
    columns: tuple[Cells, ...]  # one per name; perhaps without any row
    lines: Sequence[int]  # the line of the file on which each row ends, from 1
    unit: str = "line"  # what messages call a line if the table is not from a file

    @classmethod
    def of_rows(
        cls,
        path: Path,
        header: list[str],
        rows: Sequence[Sequence[str]],
        lines: Sequence[int],
    ) -> Table:
        """Return the table with these rows, each with one cell per column."""
        columns = tuple(Cells.of(row[place] for row in rows) for place in range(len(header)))
        return cls(path, header, columns, lines)

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
        """Return each row's cell in a column."""
        return self.cells(name).texts()

    def records(self) -> Iterator[dict[str, str]]:
        """Yield each row as a dictionary from column names to cells."""
        return (dict(zip(self.header, row, strict=True)) for row in self._rows())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        return zip(*(each.texts() for each in self.columns), strict=True)

    def at(self, row: int, column: str) -> str:
        """Return the place of a cell for messages."""
        return f"{self.path}, {self.unit} {self.lines[row]}, column {column!r}"

    def take_rows(self, rows: Sequence[int]) -> Table:
        """Return the table of some of the rows."""
        columns = tuple(
            Cells.of(each.words[code] for code in each.codes[list(rows)].tolist())
            for each in self.columns
        )
        return replace(self, columns=columns, lines=[self.lines[i] for i in rows])

    def require(self, name: str, why: str) -> None:
        """Refuse a table without this column, for the given reason."""
        require_column(self.path, self.header, name, why)

    def label_and_features(
        self, label: str | None, identity: str | None = None
    ) -> tuple[str, list[str]]:
        """Return the label column and the feature columns in order."""
        if label is None:
            raise TrainingError(
                f"{self.path}: name the label column, e.g. --label {self.header[-1]!r}"
            )
        self.require(label, "--label names one of its columns")
        if label == identity:
            raise TrainingError(f"{self.path}: {label!r} cannot be both the label and the row id")
        names = [name for name in self.header if name not in {label, identity}]
        if not names:
            raise TrainingError(f"{self.path}, line 1: no columns besides the label {label!r}")
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
                f"{self.path}, column {column!r}: {len(distinct)} different labels, including "
                f"{fractional[0]!r}, look like measurements; expected a few classes: cut the "
                "column into ranges"
            )
        return distinct


def number(cell: str) -> float | None:
    """Parse a cell as a number in common table notation; None if it is not a number."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def require_column(path: Path, header: Sequence[str], name: str, why: str) -> None:
    """Refuse a header without a column of this name, giving the reason."""
    if name not in header:
        shown = ", ".join(header[:_SHOWN])
        more = f", ... ({len(header)} columns)" if len(header) > _SHOWN else ""
        raise TrainingError(
            f"{path}, line 1: no column {name!r}{hint(name, header)}; {why}; it has {shown}{more}"
        )


def check_header(path: Path, header: list[str]) -> None:
    """Raise TrainingError for a header with missing or repeated names."""
    if not header or header == [""]:
        raise TrainingError(f"{path}: is empty; expected a header line with the column names")
    for position, name in enumerate(header):
        if not name:
            raise TrainingError(f"{path}, line 1: column {position + 1} has no name; add one")
        if name in header[:position]:
            raise TrainingError(f"{path}, line 1: two columns are named {name!r}; rename one")


def is_frame(given: object) -> bool:
    """Return whether an object has column names."""
    return hasattr(given, "columns") and hasattr(given, "__getitem__")


def frame_table(frame: Any, source: str) -> Table:
    """Return a data frame as a table whose text reads back as the same values."""
    header = header_of(frame, source)
    columns = [[_display_text(value) for value in values_of(frame[name])] for name in frame.columns]
    rows = range(len(columns[0]) if columns else 0)
    return Table(Path(source), header, tuple(map(Cells.of, columns)), rows, "row")


def header_of(frame: Any, source: Path | str) -> list[str]:
    """Return the column names; raises TrainingError as `frame_table` does."""
    header = [str(name).strip() for name in frame.columns]
    for place, name in enumerate(header):
        if name in header[:place]:
            raise TrainingError(f"{source}: two columns are named {name!r}; rename one")
        if not name:
            raise TrainingError(f"{source}: column {place} has no name; add one")
    return header


def values_of(column: Any) -> list[Any]:
    """Return the values of a column, or of any iterable."""
    return list(column.to_list() if hasattr(column, "to_list") else column)


def cell(value: Any) -> str | None:
    """Return a value as table text; None if it is neither a number nor a word."""
    if value is None or str(value) in {"<NA>", "NaT"}:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        # A missing number, as pandas represents it.
        return "" if math.isnan(value) else repr(float(value))
    return None


def _display_text(value: Any) -> str:
    """Return a value of any type as text, for a column that is never parsed."""
    text = cell(value)
    return str(value) if text is None else text


F = TypeVar("F", np.float32, np.float64)

_LARGEST = np.finfo(np.float32).max


FILL_OR_DROP = "fill it in, or drop the row"


def rows_and_labels(
    source: Path | str,
    names: tuple[str, str],
    X: NDArray[Any],  # shape (rows, features)
    y: NDArray[Any],  # shape (rows,)
    kind: type[F],
    cure: str = FILL_OR_DROP,
) -> tuple[NDArray[F], NDArray[np.int64]]:
    """Return features and labels, or name the unusable row in an error."""
    values = _features(source, names[0], X, kind, cure)
    labels = _labels(source, names[1], y)
    if len(values) != len(labels):
        raise TrainingError(
            f"{source}: {names[0]!r} has {len(values)} rows but {names[1]!r} has {len(labels)}; "
            "expected the same number"
        )
    return values, labels


def same_features(source: Path | str, train: NDArray[Any], test: NDArray[Any]) -> None:
    """Raise TrainingError if test rows have other features than training rows."""
    if test.shape[1] != train.shape[1]:
        raise TrainingError(
            f"{source}: 'X_test' has {test.shape[1]} features, but 'X_train' has {train.shape[1]}"
        )


def _features(
    source: Path | str, name: str, raw: NDArray[Any], kind: type[F], cure: str
) -> NDArray[F]:
    if raw.ndim != 2 or not raw.shape[1] or raw.dtype.kind not in "fiub":
        raise TrainingError(
            f"{source}: {name!r} is {raw.dtype} of shape {raw.shape}; expected numbers of shape "
            f"(rows, features){': pass X.reshape(len(X), -1)' * (raw.ndim > 2)}"
        )
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(raw, dtype=kind)
    wrong = ~(np.abs(values) <= _LARGEST)
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        raise TrainingError(
            f"{source}: {name!r} row {row}, column {column} is {raw[row, column]}; expected a "
            f"finite float32; {cure if np.isnan(values[row, column]) else FILL_OR_DROP}"
        )
    return values


_NUMBERED = "; numpy.unique(y, return_inverse=True)[1] numbers words"


def _labels(source: Path | str, name: str, raw: NDArray[Any]) -> NDArray[np.int64]:
    if raw.ndim != 1 or raw.dtype.kind not in "fiub":
        raise TrainingError(
            f"{source}: {name!r} is {raw.dtype} of shape {raw.shape}; expected whole numbers of "
            f"shape (rows,){_NUMBERED * (raw.dtype.kind in 'US')}"
        )
    values = raw.astype(np.float64)
    wrong = ~((values >= 0) & (values < 2**31) & (np.floor(values) == values))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise TrainingError(
            f"{source}: {name!r} row {row} is {raw[row]}; expected a label 0, 1, 2, ...; number "
            "the labels from 0"
        )
    return raw.astype(np.int64)
