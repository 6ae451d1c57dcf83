"""Tables and arrays of rows with labels: what is read, and the place that each refusal names."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.errors import TrainingError
from leaveout.models.reading import Reading, read_table
from leaveout.models.table import Cells, Table, number, rows_and_labels
from leaveout.models.votes.source import samples_from_arrays

CELLS = st.text("ab1.,\"'; \n-_é", max_size=4)


@st.composite
def _tables(draw) -> tuple[list[str], list[list[str]]]:
    header = draw(st.lists(CELLS.filter(str.strip), min_size=1, max_size=4, unique_by=str.strip))
    row = st.lists(CELLS, min_size=len(header), max_size=len(header))
    # A line of blanks alone is no row.
    return header, draw(st.lists(row.filter(lambda cells: any(map(str.strip, cells))), max_size=5))


@settings(deadline=None)
@given(_tables())
def test_every_cell_comes_back_without_the_blanks_around_it(tmp_path_factory, table):
    header, rows = table
    path = tmp_path_factory.mktemp("tables") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows])
    found = read_table(path, reading=Reading(separator=","))
    assert found.header == [name.strip() for name in header]
    assert found.rows == [[cell.strip() for cell in row] for row in rows]
    lines = path.read_text(encoding="utf-8").count("\n")
    assert list(found.lines) == sorted(set(found.lines))
    assert not rows or found.lines[-1] == lines
    for place, name in enumerate(found.header):
        assert found.column(name) == [row[place] for row in found.rows]


def test_some_rows_keep_their_lines(tmp_path, snapshot):
    table = Table.of_rows(tmp_path / "t.csv", ["a"], [["x"], ["y"], ["z"]], [2, 3, 7])
    chosen = table.take_rows([2, 0])
    assert (chosen.rows, chosen.lines) == ([["z"], ["x"]], [7, 2])
    assert chosen.at(0, "a") == snapshot


@settings(deadline=None)
@given(st.lists(st.sampled_from(["1", "10", "9", "01", "-2", "1e1", "x", "nan", ""]), min_size=1))
def test_labels_are_in_the_order_of_numbers_if_all_are(tmp_path_factory, cells):
    table = Table.of_rows(tmp_path_factory.getbasetemp(), ["y"], [[cell] for cell in cells], [])
    found = table.labels("y")
    assert sorted(found) == sorted(set(cells))
    if set(cells) & {"x", "nan", ""}:
        assert found == sorted(found)
    else:
        assert [float(cell) for cell in found] == sorted(map(float, set(cells)))


@pytest.mark.parametrize(
    ("cell", "value"), [("1", 1.0), ("-1e3", -1000.0), ("1_0", None), ("", None), ("x", None)]
)
def test_numbers_are_as_people_write_them(cell, value):
    assert number(cell) == value


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[0.0], [np.nan]], [0, 1]),
        ([[0.0, -1e39]], [0]),
        ([0.0], [0]),
        ([[0.0]], [0.5]),
        ([[0.0]], [2**31]),
        ([[0.0]], [[0]]),
        ([[0.0]], [0, 1]),
    ],
)
def test_arrays_that_cannot_be_used_are_refused_by_name_and_row(kind, X, y, snapshot):
    with pytest.raises(TrainingError) as told:
        rows_and_labels("data", ("X", "y"), np.array(X), np.array(y), kind)
    assert str(told.value) == snapshot


def test_features_wider_than_float64_are_no_samples(snapshot):
    wide = np.zeros((2, 1), np.longdouble)
    if wide.dtype.itemsize > 8:
        with pytest.raises(TrainingError) as told:
            samples_from_arrays(wide, np.arange(2), wide, np.arange(2))
        assert str(told.value) == snapshot


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", " a", "b", "c ", ""])))
def test_the_cells_of_a_column_are_its_words_in_the_order_in_which_they_come(cells):
    found, stripped = Cells.of(cells), [cell.strip() for cell in cells]
    assert found.texts() == stripped
    assert list(found.words) == list(dict.fromkeys(stripped))
    assert found.counts().tolist() == [stripped.count(word) for word in found.words]
    assert [found.first(place) for place in range(len(found.words))] == [
        stripped.index(word) for word in found.words
    ]
    again = [row for row, cell in enumerate(stripped) if cell in stripped[:row]]
    assert found.first_again() == (again[0] if again else None)


@pytest.mark.parametrize(
    "rest",
    [
        '"3,no\n4,no\n' + "5,no\n" * 40_000,
        '"3,no\n4,"no\n',
        '"3,no\n4,no\n"\n',
        '3,no"x"\n"4"x,no\n',
    ],
)
def test_a_quote_left_open_is_told_by_the_line_where_its_row_begins(tmp_path, rest, snapshot):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,no\n2,yes\n" * 999 + '"1\n ",no\n' + rest)
    with pytest.raises(TrainingError) as caught:
        read_table(path)
    assert str(caught.value) == snapshot


def test_who_waits_is_told_how_much_is_read(tmp_path):
    path, seen = tmp_path / "t.csv", []
    path.write_text("a,b\n" + "".join(f"{row},x\n" for row in range(9_000)))
    assert len(read_table(path, seen.append)) == 9_000
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] <= 1
