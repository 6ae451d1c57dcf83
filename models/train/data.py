"""Training data: the arrays a family is trained on, and facts stored about them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.cores import memory_size
from leaveout.errors import TrainingError
from leaveout.models.archive import archive_names, expect_arrays, holds_archive, read_archive
from leaveout.models.family import DataFacts
from leaveout.models.reading import (
    KEEP,
    PLAIN,
    OnRead,
    Reading,
    comma_cure,
    comma_number,
    odd_notation,
    read_table,
    refuse_for_archive,
)
from leaveout.models.table import FILL_OR_DROP, Cells, Table, number, rows_and_labels, same_features
from leaveout.models.train.encoding import (
    GAP,
    INDICATED,
    MISSING,
    CategoryColumn,
    Encoding,
    NumberColumn,
    encode_columns,
    indicator_name,
    is_missing_value,
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
    ids: tuple[str, ...] = ()  # one name per row or group; empty if rows have none
    units: Mapping[str, str] = field(default_factory=dict)  # units of measurement, by columns
    group: str = ""  # the column that names the groups
    groups: NDArray[np.int64] | None = None  # shape (rows,): place in ``ids``; None: rows alone
    X_test: NDArray[np.float32] | None = None  # like ``X``; None without a test part
    y_test: NDArray[np.int64] | None = None  # like ``y``; None without a test part
    cautions: tuple[str, ...] = ()  # what looks like a mistake in the table, one line each

    @property
    def removable(self) -> int:
        """How many rows or groups can be left out."""
        return len(self.X) if self.groups is None else len(self.ids)

    def facts(self) -> DataFacts:
        """Return the facts about training rows stored in the family's manifest."""
        digest = hashlib.sha256(np.ascontiguousarray(self.X, dtype="<f4").reshape(-1).data)
        digest.update(np.ascontiguousarray(self.y, dtype="<i8").data)
        if self.groups is not None:
            digest.update(np.ascontiguousarray(self.groups, dtype="<i8").data)
        return DataFacts(
            sha256=digest.hexdigest(),
            rows=self.removable,
            minimum=tuple(self.X.min(axis=0).tolist()),
            maximum=tuple(self.X.max(axis=0).tolist()),
            features=self.features,
            labels=self.labels,
            ids=self.ids,
            units=dict(self.units),
            group=self.group,
        )


MANY_WORDS = 500
"""A column with more words is noted before training: each becomes a feature."""
_MOST_CATEGORIES = 50
_NAMED = "--id names one of its columns"
_FILL = "--missing drop or --missing mark, fill it in, or --drop the column"
_FEW_ROWS = 20  # with fewer rows, words unique to each row do not suggest names


@dataclass(frozen=True, eq=False)
class ReadColumns:
    """The columns of a table, decoded."""

    encoding: Encoding  # all columns except the label and the one that names rows
    labels: tuple[str, ...]  # in numeric order if all are numbers
    y: NDArray[np.int64]  # shape (rows,): index into the labels
    ids: tuple[str, ...]  # one name per row or group; empty if rows have none
    groups: NDArray[np.int64] | None  # shape (rows,): place in ``ids``
    units: Mapping[str, str]  # units of measurement, by columns
    table: Table  # whose cells are encoded: missing values marked and filled
    cautions: tuple[str, ...]


def read_csv(
    path: Path,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    on_read: OnRead | None = None,
    reading: Reading = PLAIN,
) -> TrainingData:
    """Read a CSV file with a header as `table_data` does."""
    check = partial(
        refuse_wrong_names, label=label, identity=identity, units=units, group=reading.group
    )
    table = read_table(path, on_read, check, reading)
    return table_data(table, label, identity, units, reading)


def table_data(
    table: Table,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    reading: Reading = PLAIN,
) -> TrainingData:
    """Encode a table.

    Numbers are scaled to [0, 1] by column (constants give 0); words give one feature per sorted
    category; labels are sorted (as numbers if all are) and numbered from 0.
    """
    read = read_columns(table, label, identity, units, reading)
    _refuse_too_wide(read.table, read.encoding)
    return TrainingData(
        X=encode_columns(read.encoding, read.table.cells, len(read.table), np.float32),
        y=read.y,
        features=read.encoding.features,
        labels=read.labels,
        encoding=read.encoding,
        ids=read.ids,
        units=read.units,
        group=reading.group,
        groups=read.groups,
        cautions=read.cautions,
    )


def read_columns(
    table: Table,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    reading: Reading = PLAIN,
    scaled: bool = True,
    measured: bool = False,
    gaps: bool = False,
) -> ReadColumns:
    """Return the columns of a table and their encoding; a measured label is none.

    ``gaps`` says whether numbers may stay missing.
    """
    if not gaps and any(text.endswith(KEEP) for text in reading.missing):
        raise TrainingError(
            f"--missing {KEEP}: only boosted trees (leaveout trees train) read gaps; take drop or "
            "mark"
        )
    label, names = refuse_wrong_names(table, label, identity, units, reading.group)
    table, fills, kept, left = _without_gaps(table, label, names, reading, scaled)
    if len(table) < 2:
        raise TrainingError(
            f"{table.path}: {len(table)} row{'s' * (len(table) != 1)} below the header; expected "
            "at least 2, so that one can be left out"
        )
    ids = left.names if identity is None else row_ids(table, identity)
    groups, spelled = None, ""
    if reading.group:
        people = table.cells(reading.group)
        for code, word in enumerate(people.words):
            if is_missing_value(word, among_numbers=True):
                at = table.at(people.first(code), reading.group)
                raise TrainingError(
                    f"{at}: missing value; add --missing {quote(reading.group + '=drop')}"
                )
        ids, groups = tuple(people.words), people.codes.astype(np.int64)
        alike = {each.casefold(): each for each in ids}
        for each in (each for each in ids if alike[each.casefold()] != each):
            other = alike[each.casefold()]
            spelled = f"column {reading.group!r}: {each!r} and {other!r} are two groups, not one"
        if any("\0" in each for each in ids):
            raise TrainingError(
                f"{table.path}, column {reading.group!r}: a name has a NUL character; remove it"
            )
        if len(ids) < 2:
            raise TrainingError(
                f"{table.path}, column {reading.group!r}: every row has {ids[0]!r}; expected at "
                "least 2, so that one can be left out"
            )
    cure = f"add --missing {KEEP}, {_FILL}" if gaps else f"add {_FILL}"
    refuse_empty_cells(table, (label,), cure)
    labels, y = ((), np.zeros(len(table), np.int64)) if measured else labels_of(table, label)
    named = [
        each
        for name in names
        for each in ((name,) if fills.get(name) is None else (name, indicator_name(name)))
    ]
    columns = _columns(table, named, reading.words, scaled, kept, cure)
    written = (reading.separator, reading.decimal, reading.charset)
    encoding = Encoding(label, columns, fills, *written, kept)
    cautions = (*left.words, *filter(None, [spelled]), *_cautions(table, encoding, y, labels))
    return ReadColumns(encoding, labels, y, ids, groups, units or {}, table, cautions)


@dataclass(frozen=True)
class _Left:
    """The rows left of a table."""

    names: tuple[str, ...] = ()  # their lines in the file, if some were left out
    words: tuple[str, ...] = ()


def _without_gaps(
    table: Table, label: str, names: Sequence[str], reading: Reading, scaled: bool
) -> tuple[Table, dict[str, float | None], tuple[str, ...], _Left]:
    """Return a table without gaps, what fills each column, columns with gaps, and rows left."""
    for text in reading.missing:
        name = text.rpartition("=")[0]
        if name:
            table.require(name, "--missing names one of its columns")
    gone = np.zeros(len(table), dtype=bool)
    for name in [label, *filter(None, [reading.group]), *names]:
        if reading.missing_mode(name) == "drop":
            cells = table.cells(name)
            if name == label:
                lacking = _find_unlabelled(cells)
            else:
                lacking = _find_missing(cells, name in reading.words, name == reading.group)
            gone |= lacking[cells.codes]
    left = _Left()
    if gone.any():
        kept = np.flatnonzero(~gone).tolist()
        words = f"{int(gone.sum()):,} of {len(table):,} rows lack a value and are left out"
        names_of = [f"{table.unit} {table.lines[at]}" for at in kept]
        table, left = table.take_rows(kept), _Left(tuple(names_of), (words,))
    for name in names if reading.missing and len(table) else ():
        if _find_missing(table.cells(name), name in reading.words).all():
            raise TrainingError(
                f"{table.path}, column {name!r}: is empty; add --drop {quote(name)}"
            )
    fills: dict[str, float | None] = {}
    gaps: list[str] = []
    columns = dict(zip(table.header, table.columns, strict=True))
    for name in names:
        cells, is_word = columns[name], name in reading.words
        lacking = _find_missing(cells, is_word)
        mode = reading.missing_mode(name)
        if mode in {"", "drop"} or not lacking.any():
            continue
        fill = None if is_word else _fill(cells, lacking, scaled)
        if mode == KEEP and fill is not None:
            gaps.append(name)
            word, fill = GAP, None
        else:
            fills[name] = fill
            word = MISSING if fill is None else repr(fill)
        columns[name] = Cells.of(
            word if lacking[code] else cells.words[code] for code in cells.codes.tolist()
        )
        if fill is not None:
            mark = indicator_name(name)
            if mark in columns:
                raise TrainingError(
                    f"{table.path}: --missing mark adds a column {mark!r}, which exists; rename it"
                )
            columns[mark] = Cells.of(INDICATED[lacks] for lacks in lacking[cells.codes].tolist())
    return (
        replace(table, header=list(columns), columns=tuple(columns.values())),
        fills,
        tuple(gaps),
        left,
    )


def _find_missing(cells: Cells, is_word: bool, among_numbers: bool = False) -> NDArray[np.bool_]:
    """Return which words of a column are missing values."""
    numeric = among_numbers or (not is_word and _is_numeric(cells))
    return np.array([is_missing_value(w, among_numbers=numeric) for w in cells.words], bool)


def _find_unlabelled(cells: Cells) -> NDArray[np.bool_]:
    """Return which words of the label column are missing labels."""
    values = [number(word) for word in cells.words]
    return np.array(
        [
            (value is not None and not math.isfinite(value))
            or is_missing_value(word, among_numbers=word.lower() not in {"-", "none"})
            for word, value in zip(cells.words, values, strict=True)
        ],
        bool,
    )


def _fill(cells: Cells, lacking: NDArray[np.bool_], scaled: bool) -> float | None:
    """Return what stands for a column's missing numbers; None for words."""
    if not _is_numeric(cells):
        return None
    if not scaled:
        return 0.0
    words = (word for word, lacks in zip(cells.words, lacking, strict=True) if not lacks)
    return min(value for value in map(number, words) if value is not None)


def _is_numeric(cells: Cells) -> bool:
    """Return whether all words of a column that are not missing are numbers."""
    known = [w for w in cells.words if not is_missing_value(w, among_numbers=True)]
    return bool(known) and all(number(word) is not None for word in known)


_MOST_LABELS = 20
_SHOWN = 20  # constant columns


def _cautions(
    table: Table, encoding: Encoding, y: NDArray[np.int64], labels: Sequence[str]
) -> Iterator[str]:
    """Yield what looks like a mistake in a table."""
    constant = [each.name for each in encoding.columns if len(table.cells(each.name).words) == 1]
    if constant:
        shown = ", ".join(
            f"{name!r} ({table.cells(name).words[0]!r})" for name in constant[:_SHOWN]
        )
        more = len(constant) - _SHOWN
        yield (
            f"the same in every row: {shown}{f' and {more:,} more' if more > 0 else ''}; --drop "
            "such columns"
        )
    for column in encoding.columns:
        cells, name = table.cells(column.name), column.name
        if name in constant:
            continue
        if odd := odd_notation(cells.words):
            yield f"column {name!r}: {odd}"
        elif isinstance(column, CategoryColumn) and (odd := _odd_word(cells)):
            yield f"column {name!r} is read as words, since {odd!r} is not a number"
        elif isinstance(column, NumberColumn) and _counts_rows(column, cells):
            yield (
                f"column {name!r} has its own whole number in every row, like a row id: pass "
                f"--id {quote(name)}, or --drop {quote(name)}"
            )
        elif len(cells.words) == len(labels):
            pairs = {*zip(cells.codes.tolist(), y.tolist(), strict=True)}
            if len(pairs) == len(labels):
                yield (
                    f"column {name!r} gives the label {encoding.label!r} away in every row; "
                    f"--drop {quote(name)} unless it is known before the label is"
                )
    if len(labels) > _MOST_LABELS and all(number(each) is not None for each in labels):
        yield (
            f"column {encoding.label!r} has {len(labels)} different numbers as labels; if it is a "
            "measurement, cut it into ranges"
        )


def _odd_word(cells: Cells) -> str:
    """Return a word of a column in which most rows have numbers; empty if it is not one."""
    odd = [number(word) is None for word in cells.words]
    if not any(odd) or 2 * int(cells.counts()[odd].sum()) >= len(cells):
        return ""
    return cells.words[odd.index(True)]


def _counts_rows(column: NumberColumn, cells: Cells) -> bool:
    """Return whether a column numbers the rows, perhaps with gaps."""
    rows = len(cells)
    is_dense = column.maximum - column.minimum < 2 * rows
    return column.whole and is_dense and rows >= _FEW_ROWS and len(cells.words) == rows


def refuse_wrong_names(
    table: Table,
    label: str | None,
    identity: str | None = None,
    units: Mapping[str, str] | None = None,
    group: str = "",
) -> tuple[str, list[str]]:
    """Raise on column names that are missing from a table's header."""
    if identity is not None:
        table.require(identity, _NAMED)
    if group:
        table.require(group, "--group names one of its columns")
        if group == label:
            raise TrainingError(
                f"{table.path}: {group!r} is the label; --group names the column whose equal "
                "cells are one person's, such as a patient number"
            )
        if identity is not None:
            raise TrainingError(
                f"{table.path}: --group {group} names what leaves together, so rows need no "
                f"--id; replace --id {identity} by --drop {identity}"
            )
    label, names = table.label_and_features(label, identity or group or None)
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
            f"{table.lines[names.first(code)]}; row names must be unique; "
            f"--group {quote(column)} if rows of one name leave together"
        )
    return tuple(names.words)


def refuse_empty_cells(
    table: Table, but: Container[str], cure: str = "fill it in, or drop the row"
) -> None:
    """Raise TrainingError if a value is missing, except in some columns."""
    for name in table.header:
        if name in but:
            continue
        cells = table.cells(name)
        if "" in cells.words:
            at = table.at(cells.first(cells.words.index("")), name)
            raise TrainingError(f"{at}: missing value; {cure}")


def _columns(
    table: Table,
    names: Sequence[str],
    words: Container[str],
    scaled: bool,
    gaps: Container[str],
    cure: str,
) -> tuple[NumberColumn | CategoryColumn, ...]:
    """Return how columns are read, or raise with all that cannot be."""
    found: list[NumberColumn | CategoryColumn] = []
    refused = []
    for name in names:
        try:
            if name in words:
                found.append(CategoryColumn(name, _categories(table, name)))
            else:
                found.append(_column(table, name, scaled, name in gaps, cure))
        except TrainingError as error:
            refused.append(str(error))
    if refused:
        raise TrainingError("; ".join(refused))
    return tuple(found)


def _column(
    table: Table, name: str, scaled: bool, has_gaps: bool, cure: str
) -> NumberColumn | CategoryColumn:
    cells = table.cells(name)
    words = cells.words
    values = [number(word) for word in words]
    wrong = np.array([value is None for value in values])
    if wrong.any():
        others = [
            at
            for at in np.flatnonzero(wrong).tolist()
            if words[at] != MISSING and not is_missing_value(words[at], among_numbers=True)
        ]
        first = others[0] if others else int(np.argmax(wrong))
        word, at = words[first], table.at(cells.first(first), name)
        mostly_numbers = 2 * int(cells.counts()[wrong].sum()) < len(cells)
        if mostly_numbers and not others and word != MISSING:
            raise TrainingError(f"{at}: missing value ({word!r} among numbers); {cure}")
        commas = [each for each in others if comma_number(words[each])]
        if commas and 2 * int(cells.counts()[commas].sum()) >= int(cells.counts()[others].sum()):
            word, at = words[commas[0]], table.at(cells.first(commas[0]), name)
            cure = "write a point" if any("." in w for w in words) else comma_cure(word)
            raise TrainingError(f"{at}: {word!r} is a number with a comma; {cure}")
        if mostly_numbers and len(others) < int(wrong.sum()):
            raise TrainingError(
                f"{at}: {word!r} is not a number, but most of the column is, and values are "
                "missing; fix it, or drop the row or the column"
            )
        if mostly_numbers and len(words) > _MOST_CATEGORIES:
            raise TrainingError(
                f"{at}: {word!r} is not a number, but most of the column is; fix it, or drop the "
                "row or the column"
            )
        return CategoryColumn(name, _categories(table, name))
    known = np.array(values, dtype=np.float64)
    infinite = ~np.isfinite(known) & ~(np.isnan(known) & has_gaps)
    if infinite.any():
        first = int(np.argmax(infinite))
        raise TrainingError(
            f"{table.at(cells.first(first), name)}: {words[first]!r} is not a finite number; fill "
            "it in, or drop the row or the column"
        )
    column = number_column(name, known[np.isfinite(known)], scaled)
    low, high = column.minimum, column.maximum
    if scaled and not math.isfinite(high - low):
        raise TrainingError(
            f"{table.path}, column {name!r}: the range {low} to {high} is too wide to scale"
        )
    return column


def _categories(table: Table, name: str) -> tuple[str, ...]:
    """Return sorted words, unless most are unique to one row: they would publish rows."""
    cells = table.cells(name)
    alone = np.flatnonzero(cells.counts() == 1)
    if len(cells) >= _FEW_ROWS and 2 * len(alone) > len(cells):
        first = int(alone[0])
        cure = f"--drop {quote(name)} or --id {quote(name)}"
        if len(alone) < len(cells):
            cure = f"--group {quote(name)} if it says whose rows they are, or --drop {quote(name)}"
        if odd := odd_notation(cells.words):
            raise TrainingError(f"{table.path}, column {name!r}: {odd}")
        raise TrainingError(
            f"{table.at(cells.first(first), name)}: {len(alone):,} of {len(cells):,} rows have a "
            f"unique word, e.g. {cells.words[first]!r}: each would become a feature that "
            f"identifies its row; add {cure}, or replace the words by numbers or a few categories"
        )
    return tuple(sorted(cells.words))


def labels_of(
    table: Table, label: str
) -> tuple[tuple[str, ...], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the label names, and each row's label as an index into them."""
    cells = table.cells(label)
    unlabelled = _find_unlabelled(cells)
    if unlabelled.any():
        at = table.at(cells.first(int(unlabelled.argmax())), label)
        raise TrainingError(
            f"{at}: missing label; add --missing {quote(label + '=drop')}, or drop the row"
        )
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


def read_arrays(
    path: Path, label: str | None, kind: type[F], cure: str = FILL_OR_DROP
) -> Arrays[F]:
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
    X, y = rows_and_labels(path, (x_name, y_name), arrays[0], arrays[1], kind, cure)
    if len(X) < 2:
        raise TrainingError(
            f"{path}: {len(X)} rows; expected at least 2, so that one can be left out"
        )
    count = _count_labels(path, y_name, y)
    X_test = y_test = None
    if len(arrays) > 2:
        X_test, y_test = rows_and_labels(
            path, ("X_test", "y_test"), arrays[2], arrays[3], kind, cure
        )
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
    reading: Reading = PLAIN,
) -> TrainingData:
    """Read a CSV or NPZ file, distinguished by its content."""
    if not holds_archive(path, TrainingError):
        return read_csv(path, label, identity, units, on_read, reading)
    refuse_for_archive(path, [("--id", identity), ("--unit", units), *reading.set_options])
    return read_npz(path, label)
