"""Tables: what is read, what is refused and where, and the way back to the data's own units."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.errors import TrainingError
from leaveout.models.family import Manifest
from leaveout.models.forest.folders.training import read_forest_data
from leaveout.models.train import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    decode_row,
    encode_rows,
    encoding_of,
)
from leaveout.models.train.data import read_data

PATIENTS = """age, clinic ,dose,same,ill
30,North,1.5,7,yes
50,East,2.5,7,no
40,North,-1.5,7,yes
"""


def write(tmp_path, text, name="patients.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_table_is_scaled_and_one_hot_encoded(tmp_path):
    data = read_data(write(tmp_path, PATIENTS), "ill")
    assert data.features == ("age", "clinic=East", "clinic=North", "dose", "same")
    assert data.labels == ("no", "yes")
    assert data.y.tolist() == [1, 0, 1]
    assert data.X.dtype == np.float32
    assert data.X.tolist() == [[0, 0, 1, 0.75, 0], [1, 1, 0, 1, 0], [0.5, 0, 1, 0, 0]]


def test_labels_that_are_numbers_sort_as_numbers(tmp_path):
    data = read_data(write(tmp_path, "a,b\n1,10\n2,9\n3,10\n"), "b")
    assert data.labels == ("9", "10")
    assert data.y.tolist() == [1, 0, 1]


def test_a_bom_blank_lines_and_quoted_cells_are_read(tmp_path):
    data = read_data(write(tmp_path, '\ufeffa,b\n"x, y",1\n\n"z",0\n'), "b")
    assert data.features == ("a=x, y", "a=z")


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("", "b"),
        ("\n", "b"),
        ("a,b\n", "b"),
        ("a,b\n1,0\n", "b"),
        ("a,b\n1,0\n2\n", "b"),
        ("a,b\n1,0\n2,1,9\n", "b"),
        ("a,b\n1,0\n,1\n", "b"),
        ("a,b\n1,0\n1,\n", "b"),
        ("a,b\n1,0\nnan,1\n", "b"),
        ("a,b\n1,0\n-inf,1\n", "b"),
        ("a,b\n1,0\n2,1\n?,1\n", "b"),
        ("a,b\n1,0\n2,nan\n", "b"),
        ("a,b\n1,0\n2,0\n", "b"),
        ("a,price,b\n1,2,0\n2,3,1\n", "prise"),
        ("a,b\n1,0\n2,1\n", None),
        ("a,a\n1,0\n2,1\n", "a"),
        ("a,\n1,0\n2,1\n", "a"),
        ("b\n1\n2\n", "b"),
        ("a,b\n-1e308,0\n1e308,1\n", "b"),
        (b"a,b\n\xff,0\n2,1\n", "b"),
        ('a,b\n"1"x,0\n2,1\n', "b"),
        ("a,b\n" + "".join(f"{i},{i / 64}\n" for i in range(64)), "b"),
        ("a,b\n" + "".join(f"{i},P{i}\n" for i in range(64)), "b"),
        ("a,b\n" + "".join(f"{i},{i % 2}\n" for i in range(64)) + "6x,1\n", "b"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line_that_names_the_place(
    tmp_path, text, label, snapshot
):
    path = write(tmp_path, text)
    with pytest.raises(TrainingError) as caught:
        read_data(path, label)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [read_data, read_forest_data])
@pytest.mark.parametrize(
    ("label", "identity", "units"),
    [
        ("il", None, None),
        (None, None, None),
        ("ill", "patent", None),
        ("ill", "ill", None),
        ("ill", "patient", {"doze": "mg"}),
    ],
)
def test_a_wrong_name_of_a_column_is_told_before_any_row_is_read(
    tmp_path, read, label, identity, units, snapshot
):
    path = write(tmp_path, "patient,dose,ill\na,1,no\nthis is no row\n")
    with pytest.raises(TrainingError) as caught:
        read(path, label, identity, units)
    assert str(caught.value) == snapshot


def test_a_missing_file_is_named(tmp_path, snapshot):
    with pytest.raises(TrainingError) as told:
        read_data(tmp_path / "none.csv", "b")
    assert str(told.value) == snapshot
    with pytest.raises(TrainingError) as told:
        read_data(tmp_path, "b")
    assert str(told.value) == snapshot


names = st.text("abcxyz", min_size=1, max_size=4)
ranges = st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).map(sorted)


@st.composite
def encodings(draw):
    columns = []
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        if draw(st.booleans()):
            columns.append(NumberColumn(name, *draw(ranges)))
        else:
            words = draw(st.lists(names, min_size=1, max_size=4, unique=True))
            columns.append(CategoryColumn(name, tuple(sorted(words))))
    return Encoding("label", tuple(columns))


@given(st.data())
def test_decoding_undoes_encoding(data):
    encoding = data.draw(encodings())
    row = {
        column.name: data.draw(st.sampled_from(column.categories))
        if isinstance(column, CategoryColumn)
        else data.draw(st.floats(column.minimum, column.maximum))
        for column in encoding.columns
    }
    decoded = decode_row(encoding, encode_rows(encoding, [row])[0])
    for column in encoding.columns:
        if isinstance(column, CategoryColumn):
            assert decoded[column.name] == row[column.name]
        else:
            span = column.maximum - column.minimum
            assert decoded[column.name] == pytest.approx(row[column.name], abs=1e-6 * span + 1e-9)


@pytest.mark.parametrize("rows", [19, 20, 60])
@pytest.mark.parametrize("alone", [0.0, 0.5, 0.6, 1.0])
def test_a_column_that_names_its_rows_is_refused(tmp_path, rows, alone, snapshot):
    own = round(alone * rows)
    words = [f"P{row}" if row < own else f"ward{row % 2}" for row in range(rows)]
    counts = {word: words.count(word) for word in words}
    lonely = sum(count == 1 for count in counts.values())
    text = "".join(f"{word},{row},{row % 2}\n" for row, word in enumerate(words))
    path = write(tmp_path, f"patient,age,ill\n{text}")
    if rows >= 20 and 2 * lonely > rows:
        with pytest.raises(TrainingError) as told:
            read_data(path, "ill")
        assert str(told.value) == snapshot
        assert f"{lonely}" in str(told.value)
    else:
        assert len(read_data(path, "ill").X) == rows


def test_an_encoding_survives_the_manifest(tmp_path):
    encoding = read_data(write(tmp_path, PATIENTS), "ill").encoding
    manifest = Manifest(recipe={"encoding": msgspec.to_builtins(encoding)})
    read_back = msgspec.json.decode(msgspec.json.encode(manifest), type=Manifest)
    assert encoding_of(read_back) == encoding
    assert encoding_of(Manifest()) is None


def test_rows_encode_as_in_training_and_what_is_new_is_refused(tmp_path, snapshot):
    data = read_data(write(tmp_path, PATIENTS), "ill")
    row = {"age": "40", "clinic": "North", "dose": -1.5, "same": 7}
    assert np.array_equal(encode_rows(data.encoding, [row])[0], data.X[2])
    assert encode_rows(data.encoding, [{**row, "age": 70}])[0, 0] == 2
    with pytest.raises(TrainingError) as told:
        encode_rows(data.encoding, [{**row, "clinic": "Norht"}])
    assert str(told.value) == snapshot
    with pytest.raises(TrainingError) as told:
        encode_rows(data.encoding, [{**row, "age": "old"}])
    assert str(told.value) == snapshot
    with pytest.raises(TrainingError) as told:
        encode_rows(data.encoding, [row, {"clinic": "North"}])
    assert str(told.value) == snapshot
    with pytest.raises(TrainingError) as told:
        decode_row(data.encoding, [0.0, 1.0])
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    ("name", "label", "rows", "features"),
    [("adult.data", "Y", 32561, 108), ("online_shoppers_intention.csv", "Revenue", 12330, None)],
)
def test_public_tables_are_read(shared, name, label, rows, features):
    data = read_data(shared(name), label)
    assert len(data.X) == rows
    assert features in {None, data.X.shape[1]}
    assert data.X.min() == 0
    assert data.X.max() == 1
    assert len(data.labels) == 2
