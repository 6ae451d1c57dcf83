"""Samples in a CSV with a header, whose cells are text until a part encodes them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from leaveout.errors import TrainingError
from leaveout.models.table import Table, read_table
from leaveout.models.votes.features import TableFeatures, column_of
from leaveout.models.votes.hashing import cell_keys, held_out
from leaveout.models.votes.lines import read_lines
from leaveout.models.votes.naming import file_name
from leaveout.models.votes.origin import Assumption
from leaveout.models.votes.samples import (
    BadRows,
    Samples,
    bad_row_assumption,
    checked_names,
    checked_truth,
    number_labels,
    refuse_measurements,
    rows_with_known_labels,
)


def table_samples(
    path: Path,
    label: str | None,
    test: Path | None,
    test_share: float | None,
    labels: Sequence[str] | None,
    hash_key: str,
    bad_rows: BadRows,
    encoding: Path | None = None,
) -> Samples:
    """Read training rows, and test rows from another table or held out by hash.

    A sample is its cells' text without surrounding blanks or the label. With ``bad_rows="skip"``
    each unreadable line is skipped alone; the test table is always read whole.
    """
    skip = bad_rows == "skip"
    table, left_aside = read_lines(path) if skip else (_whole(path), ())
    if not len(table):
        raise TrainingError(f"{path}: there is no row below the header{_of(left_aside)}")
    label, features = table.label_and_features(label)
    keys = cell_keys(zip(*(table.column(name) for name in features), strict=True))
    names, assumption = _label_names(table, label, labels, skip)
    train, tests = table, None
    if test is not None:
        tests = _read(test)
        for name in table.header:
            tests.require(name, "the table to test on needs every column of the other")
    elif test_share is not None:
        out = held_out(keys, test_share, hash_key)
        # Sorted, so that the order of the file has no say in theirs either.
        cells = table.column(label)
        held = sorted((keys[row], cells[row], int(row)) for row in np.flatnonzero(out))
        if skip:
            kept, lost = rows_with_known_labels([word for _, word, _ in held], names)
            held, left_aside = [held[place] for place in kept], (*left_aside, *lost)
        tests = table.take_rows([row for _, _, row in held])
        train = table.take_rows([row for row in range(len(keys)) if not out[row]])
        keys = [key for key, kept in zip(keys, ~out, strict=True) if kept]
    else:
        raise TrainingError(
            f"{path}: say what to test on: --test FILE, or --test-share 0.2 to hold out a share of "
            "the rows"
        )
    for each in (train, tests):
        if not len(each):
            raise TrainingError(f"{each.path}: no row is left to train or to test on; add rows")
    basis = None if encoding is None else _basis(encoding, features)
    words, answers = train.column(label), tests.column(label)
    header = Assumption(
        text=f"a change of the training set adds or removes rows of {file_name(path)}, and leaves "
        "its header as it is",
        checked=False,
    )
    return Samples(
        keys=keys,
        y=number_labels(words, names),
        words=tuple(words),
        truth=checked_truth(answers, names, lambda row: tests.at(row, label)),
        labels=names,
        features=_features(features, [train, tests], basis),
        source=str(path),
        assumptions=(
            header,
            bad_row_assumption(bad_rows, "line"),
            assumption,
            *_basis_assumption(basis),
        ),
        left_aside=left_aside,
    )


def _whole(path: Path) -> Table:
    """Read a table, or refuse it, mentioning that bad lines can be skipped."""
    try:
        return read_table(path)
    except TrainingError as error:
        refused = error
    with contextlib.suppress(TrainingError):
        found, left_aside = read_lines(path)
        if len(found) and left_aside:
            refused = TrainingError(
                f"{refused}, or leave such lines aside by themselves with --bad-rows skip"
            )
    raise refused


def _of(left_aside: tuple[str, ...]) -> str:
    return "".join(f"; {each}" for each in left_aside)


def _basis(path: Path, features: Sequence[str]) -> Table:
    table = _read(path)
    for name in features:
        table.require(name, "the table of --encoding needs every column but the label")
    return table


def _features(names: Sequence[str], tables: Sequence[Table], basis: Table | None) -> TableFeatures:
    """Return the rows of several tables, followed by those of the basis."""
    every = [*tables, *([] if basis is None else [basis])]
    columns = tuple(
        column_of(name, [cell for table in every for cell in table.column(name)]) for name in names
    )
    if basis is None:
        return TableFeatures(columns)
    count = sum(len(table) for table in tables)
    return TableFeatures(columns, np.arange(count, count + len(basis)))


def _basis_assumption(basis: Table | None) -> tuple[Assumption, ...]:
    """Return the assumption on a basis, if there is one."""
    if basis is None:
        return ()
    text = (
        f"ranges and categories of columns stay those of {file_name(basis.path)}, which a change "
        "of the training set does not reach"
    )
    return (Assumption(text=text, checked=False),)


def _read(path: Path) -> Table:
    """Read a table outside the attacker's reach: all of it, or none."""
    table = read_table(path)
    if not len(table):
        raise TrainingError(f"{path}: there is no row below the header")
    return table


def _label_names(
    table: Table, label: str, given: Sequence[str] | None, skip: bool
) -> tuple[tuple[str, ...], Assumption]:
    if given is not None:
        return checked_names(str(table.path), [name.strip() for name in given], given=True)
    cells = table.column(label)
    if "" in cells and not skip:
        raise TrainingError(
            f"{table.at(cells.index(''), label)}: the label is missing; drop the row, or leave "
            "such rows aside with --bad-rows skip"
        )
    named = table.take_rows([row for row, cell in enumerate(cells) if cell])
    checked = checked_names(str(table.path), named.labels(label), given=False)
    refuse_measurements(f"{table.path}, column {label!r}", named.column(label), checked[0])
    return checked
