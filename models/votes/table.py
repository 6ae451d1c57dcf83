"""Samples given as a CSV with a header: every cell is text until a part encodes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from leaveout.errors import TrainingError
from leaveout.models.table import Table, read_table
from leaveout.models.votes.features import TableFeatures, column_of
from leaveout.models.votes.hashing import cell_keys, held_out
from leaveout.models.votes.naming import file_name
from leaveout.models.votes.origin import Assumption
from leaveout.models.votes.samples import Samples, checked_names, checked_truth, number_labels

__all__ = ["table_samples"]


def table_samples(
    path: Path,
    label: str | None,
    test: Path | None,
    test_share: float | None,
    labels: Sequence[str] | None,
    hash_key: str,
) -> Samples:
    """Read training rows, and test rows from another table or held out by their hash.

    A sample is the text of its cells, blanks around them taken off; its label is no part of it.
    An empty cell is a word like any other.

    Raises
    ------
    TrainingError
        With file, line and column of what cannot be used.
    """
    table = _read(path)
    label, features = table.label_and_features(label)
    keys = cell_keys(zip(*(table.column(name) for name in features), strict=True))
    names, assumption = _names(table, label, labels)
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
        tests = table.chosen([row for _, _, row in held])
        train = table.chosen([row for row in range(len(keys)) if not out[row]])
        keys = [key for key, kept in zip(keys, ~out, strict=True) if kept]
    else:
        raise TrainingError(
            f"{path}: say what to test on: --test FILE, or --test-share 0.2 to hold out a share of "
            "the rows"
        )
    for each in (train, tests):
        if not each.rows:
            raise TrainingError(f"{each.path}: no row is left to train or to test on; add rows")
    words, answers = train.column(label), tests.column(label)
    header = Assumption(
        text=f"a change of the training set adds or removes rows of {file_name(path)}, not columns",
        checked=False,
    )
    return Samples(
        keys=keys,
        y=number_labels(words, names),
        words=tuple(words),
        truth=checked_truth(answers, names, lambda row: tests.at(row, label)),
        labels=names,
        features=TableFeatures(
            tuple(column_of(name, train.column(name) + tests.column(name)) for name in features)
        ),
        source=str(path),
        assumptions=(header, assumption),
    )


def _read(path: Path) -> Table:
    table = read_table(path)
    if not table.rows:
        raise TrainingError(f"{path}: there is no row below the header")
    return table


def _names(
    table: Table, label: str, given: Sequence[str] | None
) -> tuple[tuple[str, ...], Assumption]:
    if given is not None:
        return checked_names(str(table.path), [name.strip() for name in given], given=True)
    cells = table.column(label)
    if "" in cells:
        raise TrainingError(
            f"{table.at(cells.index(''), label)}: the label is missing; drop the row"
        )
    return checked_names(str(table.path), table.labels(label), given=False)
