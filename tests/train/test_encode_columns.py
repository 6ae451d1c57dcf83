"""A table encoded column by column is what its rows are encoded to."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.errors import TrainingError
from leaveout.models.table import Table
from leaveout.models.train.data import read_columns, table_data
from leaveout.models.train.encoding import encode_columns, encode_rows


def table(tmp_path, rows):
    header = ["age", "word", "flat", "far", "y"]
    return Table.of_rows(tmp_path / "t.csv", header, rows, list(range(2, len(rows) + 2)))


def test_columns_and_rows_give_the_same_bits(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        [repr(age), word, "7", repr(far), label]
        for age, word, far, label in zip(
            rng.random(40).tolist(),
            rng.choice(["a", "b", "c"], 40).tolist(),
            (rng.random(40) * 1e300).tolist(),
            rng.choice(["no", "yes"], 40).tolist(),
            strict=True,
        )
    ]
    read = table(tmp_path, rows)
    data = table_data(read, "y")
    expected = encode_rows(data.encoding, read.records())
    assert data.X.dtype == np.float32
    assert np.array_equal(data.X, expected)


@pytest.mark.parametrize("column, cell", [("word", "z"), ("age", "old"), ("far", "inf")])
def test_what_the_encoding_does_not_know_is_refused_by_its_row(tmp_path, column, cell, snapshot):
    rows = [["1", "a", "7", "2", "no"], ["2", "b", "7", "3", "yes"]]
    encoding = read_columns(table(tmp_path, rows), "y").encoding
    rows[1][["age", "word", "flat", "far"].index(column)] = cell
    other = table(tmp_path, rows)
    with pytest.raises(TrainingError) as told:
        encode_columns(encoding, other.cells, 2, np.float32)
    assert str(told.value) == snapshot


def test_what_this_machine_cannot_hold_is_refused_by_its_widest_column(
    tmp_path, monkeypatch, snapshot
):
    rows = [[str(row), f"w{row % 9}", "7", "1", "no" if row % 2 else "yes"] for row in range(40)]
    needed = 2 * 4 * 40 * (1 + 9 + 1 + 1)
    monkeypatch.setattr("leaveout.models.train.data.memory_size", lambda: needed)
    assert table_data(table(tmp_path, rows), "y").X.shape == (40, 12)
    monkeypatch.setattr("leaveout.models.train.data.memory_size", lambda: needed - 1)
    with pytest.raises(TrainingError) as told:
        table_data(table(tmp_path, rows), "y")
    assert str(told.value) == snapshot
