"""Training rows of models that are fitted to a table as a whole, as float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.archive import archive_names, expect_arrays, holds_archive, read_archive
from leaveout.models.reading import KEEP, Reading, read_table, refuse_for_archive
from leaveout.models.table import FILL_OR_DROP, Table, number
from leaveout.models.train.columns import TableColumns
from leaveout.models.train.data import (
    MANY_WORDS,
    read_arrays,
    read_columns,
    refuse_wrong_names,
)
from leaveout.models.train.encoding import CategoryColumn, encode_columns


@dataclass(frozen=True, eq=False)
class TableRows:
    """Training rows, and test rows if any."""

    X: NDArray[np.float64]  # shape (rows, features)
    y: NDArray[Any]  # shape (rows,): places in ``labels``, or the numbers to predict
    labels: tuple[str, ...]  # empty if numbers are predicted
    columns: TableColumns
    X_test: NDArray[np.float64] | None = None
    y_test: NDArray[Any] | None = None
    cautions: tuple[str, ...] = ()  # what looks like a mistake in the table, a line each
    names: NDArray[np.int64] | None = None  # shape (rows,): places in a file with others between
    lines: tuple[str, ...] = ()  # ``line 12`` a row, where others are left out and rows lack names
    listed: int = 0  # how many rows the file has
    groups: tuple[str, NDArray[np.str_]] | None = None  # a column, and its cells
    weights: NDArray[np.float64] | None = None  # shape (rows,)


def read_rows(
    path: Path,
    label: str | None,
    identity: str | None,
    units: Mapping[str, str] | None,
    reading: Reading,
    *,
    scaled: bool,
    measured: bool = False,
    weight: str = "",
    gaps: bool = False,
) -> TableRows:
    """Read a CSV with a header, or an NPZ with ``X_train, y_train`` or ``X, y``.

    Parameters
    ----------
    path, label, identity, units, reading
        As `leaveout.models.train.run` takes them.
    scaled : bool
        Whether numbers of a table are scaled to [0, 1].
    measured : bool
        Whether the label is a number to predict.
    weight : str
        The column that says how much each row counts; empty if all count 1.
    gaps : bool
        Whether numbers of a table may stay missing.
    """
    if holds_archive(path, TrainingError):
        options = [("--id", identity), ("--unit", units), ("--weight", weight)]
        refuse_for_archive(path, [*options, *reading.set_options])
        plain = TableColumns(source=path.name)
        if measured:
            return _measured_arrays(path, plain)
        gap = f", or keep gaps: save it as a CSV and add --missing {KEEP}" * gaps
        found = read_arrays(path, label, np.float64, FILL_OR_DROP + gap)
        labels = tuple(map(str, range(found.labels)))
        return TableRows(found.X, found.y, labels, plain, found.X_test, found.y_test)
    check = partial(
        refuse_wrong_names, label=label, identity=identity, units=units, group=reading.group
    )
    whole = read_table(path, on_header=check, reading=reading)
    table, weights = whole, None
    if weight:
        whole.require(weight, "--weight names one of its columns")
        if weight in {label, identity, reading.group}:
            raise TrainingError(f"{path}: {weight!r} is the weight; name another column")
        weights = numbers_of(whole, weight)
        kept = [name for name in whole.header if name != weight]
        table = replace(whole, header=kept, columns=tuple(map(whole.cells, kept)))
    read = read_columns(table, label, identity, units, reading, scaled, measured, gaps)
    columns = TableColumns(
        source=path.name,
        encoding=read.encoding,
        units=dict(read.units),
        identity=identity,
        ids={} if identity is None else dict(enumerate(read.ids)),
    )
    groups, names = None, None
    lines: tuple[str, ...] = ()
    if read.groups is not None:
        groups = reading.group, np.array(read.ids, np.str_)[read.groups]
    if len(read.table) < len(table):
        places = np.searchsorted(np.array(table.lines), np.array(read.table.lines))
        weights = None if weights is None else weights[places]
        # Numbers are those of the file, whatever rows of it are left out.
        names, lines = (places, read.ids) if identity is None else (None, ())
    X = encode_columns(read.encoding, read.table.cells, len(read.table), np.float64)
    y = numbers_of(read.table, read.encoding.label) if measured else read.y
    wide = [
        f"column {column.name!r} has {len(column.categories):,} words, each of which becomes a "
        "feature; --drop it, or use --group or --id if it names people or rows"
        for column in read.encoding.columns
        if isinstance(column, CategoryColumn) and len(column.categories) > MANY_WORDS
    ]
    return TableRows(
        X, y, read.labels, columns, cautions=(*read.cautions, *wide), names=names, lines=lines,
        listed=len(table), groups=groups, weights=weights,
    )  # fmt: skip


def numbers_of(table: Table, column: str) -> NDArray[np.float64]:
    """Return a column of finite numbers."""
    cells = table.cells(column)
    values = np.array([np.nan if (v := number(word)) is None else v for word in cells.words])
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        at = table.at(cells.first(int(wrong[0])), column)
        raise TrainingError(f"{at}: {cells.words[wrong[0]]!r} is not a finite number")
    return np.asarray(values[cells.codes], np.float64)


def _measured_arrays(path: Path, columns: TableColumns) -> TableRows:
    names = archive_names(path, TrainingError)
    wanted = ["X_train", "y_train"] if "X_train" in names else ["X", "y"]
    tests = ["X_test", "y_test"] if {"X_test", "y_test"} <= set(names) else []
    expect_arrays(path, names, TrainingError, wanted, expected=" and ".join(wanted))
    found = read_archive(path, TrainingError, [*wanted, *tests])
    arrays = [found[name] for name in (*wanted, *tests)]
    if any(each.dtype.kind not in "fiub" or not np.isfinite(each).all() for each in arrays):
        raise TrainingError(f"{path}: expected arrays of finite numbers")
    given = [each.astype(np.float64) for each in arrays]
    for X, y in zip(given[::2], given[1::2], strict=True):
        if X.ndim != 2 or y.shape != X.shape[:1] or X.shape[1] != given[0].shape[1] or len(X) < 2:
            raise TrainingError(
                f"{path}: arrays of shapes {', '.join(str(each.shape) for each in given)}; "
                "expected (rows, features) and (rows,), of at least 2 rows"
            )
    X_test, y_test = given[2:] or (None, None)
    return TableRows(given[0], given[1], (), columns, X_test, y_test)


def label_values(names: Sequence[str]) -> NDArray[Any]:
    """Return labels as integers if all are written so, else as text."""
    try:
        numbers = np.array([int(name) for name in names], dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(names, dtype=np.str_)
    alike = [str(number) for number in numbers.tolist()] == list(names)
    return numbers if alike else np.array(names, dtype=np.str_)


def test_split(
    units: NDArray[np.int64], share: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows to test on, those of a group together, and the others."""
    known = int(units.max()) + 1
    tested = min(round(share * known), known - 1)
    order = np.random.default_rng(seed).permutation(known)
    is_out = np.isin(units, order[:tested])
    return np.flatnonzero(is_out), np.flatnonzero(~is_out)
