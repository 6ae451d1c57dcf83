"""Training data: the arrays a family is trained on, and facts stored about them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.cores import memory_size
from leaveout.errors import TrainingError
from leaveout.models.archive import archive_names, expect_arrays, holds_archive, read_archive
from leaveout.models.family import DataFacts
from leaveout.models.table import (
    Cells,
    OnRead,
    Table,
    number,
    read_table,
    rows_and_labels,
    same_features,
)
from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    encode_columns,
    number_column,
)
from leaveout.names import hint


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training rows, and test rows if any."""

    X: NDArray[np.float32]  # shape (rows, features)
    y: NDArray[np.int64]  # shape (rows,): 0 to ``len(labels) - 1``
    labels: tuple[str, ...]  # one name per label
    features: tuple[str, ...] = ()  # one name per feature; empty if unknown
    encoding: Encoding | None = None  # how the features were encoded from a table
    ids: tuple[str, ...] = ()  # one name per row; empty if rows have none
    units: Mapping[str, str] = field(default_factory=dict)  # units of measurement, by columns
    X_test: NDArray[np.float32] | None = None  # like ``X``; None without a test part
    y_test: NDArray[np.int64] | None = None  # like ``y``; None without a test part

    def facts(self) -> DataFacts:
        """Return the facts about training rows stored in the family's manifest."""
        digest = hashlib.sha256(np.ascontiguousarray(self.X, dtype="<f4").reshape(-1).data)
        digest.update(np.ascontiguousarray(self.y, dtype="<i8").data)
        return DataFacts(
            sha256=digest.hexdigest(),
            rows=len(self.X),
            minimum=tuple(self.X.min(axis=0).tolist()),
            maximum=tuple(self.X.max(axis=0).tolist()),
            features=self.features,
            labels=self.labels,
            ids=self.ids,
            units=dict(self.units),
        )


_MISSING = {"na", "n/a", "nan", "null", "none", "?", "-"}
_MOST_CATEGORIES = 50
_NAMED = "--id names one of its columns"
_FEW_ROWS = 20
"""With fewer rows, words unique to each row do not suggest names."""


@dataclass(frozen=True, eq=False)
class ReadColumns:
    """The columns of a table, decoded."""

    encoding: Encoding  # all columns except the label and the one that names rows
    labels: tuple[str, ...]  # in numeric order if all are numbers
    y: NDArray[np.int64]  # shape (rows,): index into the labels
    ids: tuple[str, ...]  # one name per row; empty if rows have none
    units: Mapping[str, str]  # units of measurement, by columns


def read_csv(
    path: Path,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    on_read: OnRead | None = None,
) -> TrainingData:
    """Read a UTF-8 CSV file with a header as `table_data` does."""
    check = partial(refuse_wrong_names, label=label, identity=identity, units=units)
    return table_data(read_table(path, on_read, check), label, identity, units)


def table_data(
    table: Table,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
) -> TrainingData:
    """Encode a table.

    Numbers are scaled to [0, 1] by column (constants give 0); words give one feature per sorted
    category; labels are sorted (as numbers if all are) and numbered from 0.
    """
    read = read_columns(table, label, identity, units)
    _refuse_too_wide(table, read.encoding)
    return TrainingData(
        X=encode_columns(read.encoding, table.cells, len(table)),
        y=read.y,
        features=read.encoding.features,
        labels=read.labels,
        encoding=read.encoding,
        ids=read.ids,
        units=read.units,
    )


def read_columns(
    table: Table,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    scaled: bool = True,
) -> ReadColumns:
    """Return the columns of a table and their encoding."""
    if len(table) < 2:
        raise TrainingError(
            f"{table.path}: {len(table)} row{'s' * (len(table) != 1)} below the header; expected "
            "at least 2, so that one can be left out"
        )
    label, names = refuse_wrong_names(table, label, identity, units)
    ids = () if identity is None else row_ids(table, identity)
    refuse_empty_cells(table)
    labels, y = labels_of(table, label)
    encoding = Encoding(label, tuple(_column(table, name, scaled) for name in names))
    return ReadColumns(encoding, labels, y, ids, units or {})


def refuse_wrong_names(
    table: Table,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
) -> tuple[str, list[str]]:
    """Raise on column names that are missing from a table's header."""
    if identity is not None:
        table.require(identity, _NAMED)
    label, names = table.label_and_features(label, identity)
    for name in units or {}:
        if name not in names:
            raise TrainingError(
                f"{table.path}: a unit is set for {name!r}, which is not a feature "
                f"column{hint(name, names)}"
            )
    return label, names


def _refuse_too_wide(table: Table, encoding: Encoding) -> None:
    """Raise if memory is too small; workers need a second copy of the features."""
    memory = memory_size()
    needed = 2 * len(table) * len(encoding.features) * np.dtype(np.float32).itemsize
    if memory is None or needed <= memory:
        return
    widest = max(encoding.columns, key=lambda column: len(column.features))
    raise TrainingError(
        f"{table.path}: its {len(encoding.columns):,} columns become {len(encoding.features):,} "
        f"features, {len(widest.features):,} of them for words of {widest.name!r}: "
        f"{len(table):,} rows need {needed / 1e9:,.1f} GB, but this machine has "
        f"{memory / 1e9:,.1f} GB; write dates and codes as numbers, merge rare words, or drop "
        "the column"
    )


def row_ids(table: Table, column: str) -> tuple[str, ...]:
    """Return the names of the rows."""
    table.require(column, _NAMED)
    names = table.cells(column)
    row = names.first_again()
    if row is not None:
        code = int(names.codes[row])
        raise TrainingError(
            f"{table.at(row, column)}: {names.words[code]!r} also names the row of {table.unit} "
            f"{table.lines[names.first(code)]}; row names must be unique"
        )
    return tuple(names.words)


def refuse_empty_cells(table: Table) -> None:
    """Raise TrainingError if a value is missing, with its position."""
    for name in table.header:
        cells = table.cells(name)
        if "" in cells.words:
            at = table.at(cells.first(cells.words.index("")), name)
            raise TrainingError(f"{at}: missing value; fill it in, or drop the row or the column")


def _column(table: Table, name: str, scaled: bool) -> NumberColumn | CategoryColumn:
    cells = table.cells(name)
    words = cells.words
    values = [number(word) for word in words]
    wrong = np.array([value is None for value in values])
    if wrong.any():
        first = int(np.argmax(wrong))
        word, at = words[first], table.at(cells.first(first), name)
        mostly_numbers = 2 * int(cells.counts()[wrong].sum()) < len(cells)
        if mostly_numbers and word.lower() in _MISSING:
            raise TrainingError(
                f"{at}: missing value ({word!r} among numbers); fill it in, or drop the row or "
                "the column"
            )
        if mostly_numbers and len(words) > _MOST_CATEGORIES:
            raise TrainingError(
                f"{at}: {word!r} is not a number, but most of the column is; fix it, or drop the "
                "row or the column"
            )
        _refuse_names(table, name, cells)
        return CategoryColumn(name, tuple(sorted(words)))
    known = np.array(values, dtype=np.float64)
    infinite = ~np.isfinite(known)
    if infinite.any():
        first = int(np.argmax(infinite))
        raise TrainingError(
            f"{table.at(cells.first(first), name)}: {words[first]!r} is not a finite number; fill "
            "it in, or drop the row or the column"
        )
    column = number_column(name, known, scaled)
    low, high = column.minimum, column.maximum
    if scaled and not math.isfinite(high - low):
        raise TrainingError(
            f"{table.path}, column {name!r}: the range {low} to {high} is too wide to scale"
        )
    return column


def _refuse_names(table: Table, name: str, cells: Cells) -> None:
    """Raise on words that are mostly unique to one row: as features they would publish rows."""
    alone = np.flatnonzero(cells.counts() == 1)
    if len(cells) >= _FEW_ROWS and 2 * len(alone) > len(cells):
        first = int(alone[0])
        raise TrainingError(
            f"{table.at(cells.first(first), name)}: {len(alone):,} of {len(cells):,} rows have a "
            f"unique word, e.g. {cells.words[first]!r}: each would become a feature that "
            "identifies its row; drop the column, use it as the row id, or replace the words by "
            "numbers or a few categories"
        )


def labels_of(
    table: Table, label: str
) -> tuple[tuple[str, ...], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the label names, and each row's label as an index into them."""
    cells = table.cells(label)
    for code, word in enumerate(cells.words):
        value = number(word)
        is_finite = value is None or math.isfinite(value)
        if not is_finite or word.lower() in _MISSING - {"-", "none"}:
            at = table.at(cells.first(code), label)
            raise TrainingError(f"{at}: missing label; drop the row")
    names = table.labels(label)
    if len(names) < 2:
        raise TrainingError(
            f"{table.path}, column {label!r}: every row has the label {names[0]!r}; expected at "
            "least 2 labels"
        )
    alone = int((cells.counts() == 1).sum())
    if len(cells) >= _FEW_ROWS and 2 * alone > len(cells):
        raise TrainingError(
            f"{table.path}, column {label!r}: {alone:,} of {len(cells):,} rows have a unique "
            f"label, e.g. {cells.words[0]!r}; expected a few classes: name another column"
        )
    place = {name: index for index, name in enumerate(names)}
    codes = np.array([place[word] for word in cells.words], dtype=np.int64)
    return tuple(names), codes[cells.codes]


F = TypeVar("F", np.float32, np.float64)

_EXPECTED = "X_train and y_train, plus X_test and y_test if there is test data, or X and y"


class Arrays(NamedTuple, Generic[F]):
    """Features and labels of training and test rows."""

    X: NDArray[F]  # shape (rows, features)
    y: NDArray[np.int64]  # shape (rows,): 0 to ``labels - 1``, each present
    labels: int
    X_test: NDArray[F] | None
    y_test: NDArray[np.int64] | None


def read_npz(path: Path, label: str | None = None) -> TrainingData:
    """Read the arrays of a file in float32, as `read_arrays` does."""
    found = read_arrays(path, label, np.float32)
    return TrainingData(
        X=found.X,
        y=found.y,
        labels=tuple(map(str, range(found.labels))),
        X_test=found.X_test,
        y_test=found.y_test,
    )


def read_arrays(path: Path, label: str | None, kind: type[F]) -> Arrays[F]:
    """Read ``X_train, y_train`` (``X_test, y_test``) or ``X, y``, with values unchanged."""
    names = archive_names(path, TrainingError)
    x_name, y_name = ("X_train", "y_train") if "X_train" in names else ("X", "y")
    wanted = [x_name, y_name]
    if {"X_test", "y_test"} & set(names) and x_name == "X_train":
        wanted += ["X_test", "y_test"]
    expect_arrays(path, names, TrainingError, wanted, expected=_EXPECTED)
    found = read_archive(path, TrainingError, wanted)
    arrays = [found[name] for name in wanted]
    if label not in {None, y_name, "y"}:
        raise TrainingError(
            f"{path}: --label {label} is not an array of labels; an NPZ keeps them in "
            f"{y_name!r}: drop --label"
        )
    X, y = rows_and_labels(path, (x_name, y_name), arrays[0], arrays[1], kind)
    if len(X) < 2:
        raise TrainingError(
            f"{path}: {len(X)} rows; expected at least 2, so that one can be left out"
        )
    count = _count_labels(path, y_name, y)
    X_test = y_test = None
    if len(arrays) > 2:
        X_test, y_test = rows_and_labels(path, ("X_test", "y_test"), arrays[2], arrays[3], kind)
        same_features(path, X, X_test)
        if len(y_test) and y_test.max() >= count:
            row = int(np.argmax(y_test >= count))
            raise TrainingError(
                f"{path}: 'y_test' row {row} has the label {y_test[row]}; expected 0 to "
                f"{count - 1} as in 'y_train'"
            )
    return Arrays(X, y, count, X_test, y_test)


def _count_labels(path: Path, name: str, y: NDArray[np.int64]) -> int:
    present = np.unique(y)
    if len(present) < 2:
        raise TrainingError(
            f"{path}: every row of {name!r} has the label {present[0]}; expected at least 2 labels"
        )
    if present[-1] >= len(present):
        absent = int(np.argmax(present != np.arange(len(present))))
        raise TrainingError(
            f"{path}: {name!r} goes up to {present[-1]}, but no row has the label {absent}; number "
            "the labels from 0 without gaps"
        )
    return len(present)


def read_data(
    path: Path,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    on_read: OnRead | None = None,
) -> TrainingData:
    """Read a CSV or NPZ file, distinguished by its content."""
    if not holds_archive(path, TrainingError):
        return read_csv(path, label, identity, units, on_read)
    refuse_column_names(path, identity, units)
    return read_npz(path, label)


def refuse_column_names(path: Path, identity: str | None, units: Mapping[str, str] | None) -> None:
    """Raise on column names given for a file without columns."""
    for flag, given in (("--id", identity), ("--unit", units)):
        if given:
            raise TrainingError(
                f"{path}: {flag} names a column, but an NPZ has no columns: drop {flag}"
            )
