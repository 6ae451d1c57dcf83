"""The set of inputs that training writes is what the records of the table can be."""

from __future__ import annotations

import csv
import tempfile
from decimal import Context, Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.bab import Instance, Witness
from leaveout.encoders import Box, Choices
from leaveout.models import DataFacts, Family, Manifest
from leaveout.models.train.data import TrainingData, read_csv
from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    cell_text,
    decode_row,
    encode_rows,
    nearest_record,
    records_of,
)
from leaveout.models.train.export import spec_text
from leaveout.models.train.job import settings_of
from leaveout.specs import check, parse
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.points.sentences import cells_of, outside_box, record
from leaveout.verifier.resolve_names import read_spec

from support.depth import rounds

_WORDS = st.text(st.characters(categories=("L", "P", "S")), min_size=1, max_size=6).map(
    lambda text: f"w{text}"
)
_KINDS = st.sampled_from(
    ["whole", "far whole", "wide whole", "binary", "real", "fine", "far real", "words", "constant"]
)


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, str]]:
    rows = draw(st.integers(2, 12))
    columns: dict[str, list[str]] = {}
    for index, kind in enumerate(draw(st.lists(_KINDS, min_size=1, max_size=5))):
        cells: st.SearchStrategy[str] = {
            "whole": st.integers(-40, 90).map(str),
            "far whole": st.integers(2**40, 2**40 + 5000).map(str),
            "wide whole": st.integers(-8, 2**40).map(str),
            "fine": st.floats(-1e-7, 1e-7).map(repr),
            "far real": st.integers(10**12, 10**12 + 30).map(lambda k: f"{k}.25"),
            "binary": st.sampled_from(["0", "1"]),
            "real": st.floats(-1e6, 1e6, width=32).map(repr),
            "words": _WORDS,
            "constant": st.just("7"),
        }[kind]
        columns[f"column {index}"] = draw(st.lists(cells, min_size=rows, max_size=rows))
    columns["label"] = [str(i % 2) for i in range(rows)]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _read(rows: list[dict[str, str]], folder: Path) -> TrainingData:
    path = folder / "table.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return read_csv(path, "label")


def _box(data: TrainingData, folder: Path) -> Box:
    path = folder / "idp.spec"
    path.write_text(spec_text(data.facts(), "table.csv", True, data.encoding), encoding="utf-8")
    reading = read_spec(path)
    reader = InputReader(reading.resolver(), data.X.shape[1])
    box = reader.read(reading.checked.lets["X"].value)
    assert reader.notes == []
    return box


@given(rows=tables())
@settings(max_examples=rounds(150), deadline=None)
def test_every_row_lies_in_the_set_and_every_listed_value_is_a_records(rows) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = _read(rows, Path(name))
        box = _box(data, Path(name))
    encoding = data.encoding
    assert encoding is not None
    assert all(box.contains(row.astype(np.float64)) for row in data.X)
    assert box.lower.tolist() == data.X.min(axis=0).tolist()
    assert box.upper.tolist() == data.X.max(axis=0).tolist()
    tables_ = {tuple(each.columns.tolist()): each.values for each in box.choices}
    first = 0
    for column in encoding.columns:
        at = tuple(range(first, first + len(column.features)))
        first += len(at)
        records = records_of(column)
        whole = isinstance(column, NumberColumn) and column.whole
        if records is None or (whole and column.minimum == column.maximum):
            assert at not in tables_
            continue
        assert np.array_equal(tables_[at], np.unique(records.astype(np.float64), axis=0))
        if whole:
            wanted = [{column.name: k} for k in range(int(column.minimum), int(column.maximum) + 1)]
            alone = Encoding("label", (column,))
            assert set(encode_rows(alone, wanted).ravel().tolist()) == set(tables_[at].ravel())


@given(rows=tables())
@settings(max_examples=rounds(100), deadline=None)
def test_every_row_is_a_possible_record_and_is_named_as_it_was(rows) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = _read(rows, Path(name))
    assert data.encoding is not None
    for row, x in zip(rows, data.X, strict=True):
        values, wrong = nearest_record(data.encoding, x)
        assert wrong == {}
        for column in data.encoding.columns:
            cell = row[column.name].strip()
            if isinstance(column, CategoryColumn):
                assert values[column.name] == cell
            elif column.whole and column.maximum - column.minimum < 2**24:
                assert values[column.name] == float(cell)


def _numbers_near(column: NumberColumn, value: float) -> set[float]:
    """Return numbers of float64, or whole ones, around a value."""
    if column.whole:
        return {float(round(value) + step) for step in range(-50, 51)}
    found, down, up = {value}, value, value
    for _ in range(50):
        down, up = np.nextafter(down, -np.inf), np.nextafter(up, np.inf)
        found |= {float(down), float(up)}
    return found


@given(rows=tables(), data=st.data())
@settings(max_examples=rounds(200), deadline=None)
def test_the_cells_as_printed_are_the_witness_or_the_words_say_nearest(rows, data) -> None:
    with tempfile.TemporaryDirectory() as name:
        read = _read(rows, Path(name))
    encoding = read.encoding
    assert encoding is not None
    width = len(encoding.features)
    unit = st.one_of(
        st.sampled_from([0.0, 1.0]),
        st.sampled_from(read.X.ravel().tolist()),
        st.floats(0, 1, width=32),
    )
    x = np.array(data.draw(st.lists(unit, min_size=width, max_size=width)), np.float32)
    manifest = Manifest(recipe={"encoding": msgspec.to_builtins(encoding)})
    words = _words(x, manifest)
    cells = cells_of(manifest, x)
    assert ("where x is nearest to (" in words) == any(cell.nearest for cell in cells)
    for column, cell in zip(encoding.columns, cells, strict=True):
        assert cell.value is not None
        text = cell_text(cell.value)
        assert f"{column.name} = {text}" in words
        alone = Encoding("label", (column,))
        part = x[list(cell.at)]
        encoded = encode_rows(alone, [{column.name: text}])[0]
        assert np.array_equal(encoded, encode_rows(alone, [{column.name: cell.value}])[0])
        assert np.array_equal(encoded, part) != cell.nearest
        if isinstance(column, CategoryColumn):
            continue
        assert column.minimum <= float(text) <= column.maximum
        assert "e" not in text or not 1e-6 <= abs(float(text)) < 1e16
        assert not column.whole or text.lstrip("-").isdigit()
        if cell.nearest and column.minimum < column.maximum:
            value = float(decode_row(alone, part)[column.name])
            near = [
                k for k in _numbers_near(column, value) if column.minimum <= k <= column.maximum
            ]
            others = encode_rows(alone, [{column.name: k} for k in near])
            assert part[0] not in others


@given(
    ends=st.tuples(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12)).filter(lambda e: e[0] < e[1]),
    feature=st.floats(0, 1, width=32),
)
@settings(max_examples=rounds(200), deadline=None)
def test_a_number_is_printed_with_no_more_digits_than_it_takes(ends, feature) -> None:
    alone = Encoding("label", (NumberColumn("a", *ends),))
    values, wrong = nearest_record(alone, [feature])
    value = float(values["a"])
    digits = len(cell_text(value).replace(".", "").strip("-0"))
    if wrong or digits < 2 or "e" in cell_text(value):
        return
    for way in ("ROUND_FLOOR", "ROUND_CEILING"):
        fewer = float(Context(prec=digits - 1, rounding=way).plus(Decimal(repr(value))))
        if ends[0] <= fewer <= ends[1]:
            assert encode_rows(alone, [{"a": fewer}])[0, 0] != np.float32(feature)


def test_whole_numbers_too_many_to_be_listed_are_still_whole(tmp_path, snapshot) -> None:
    rows = [{"income": "8", "label": "0"}, {"income": "82000000", "label": "1"}]
    data = _read(rows, tmp_path)
    manifest = Manifest(recipe={"encoding": msgspec.to_builtins(data.encoding)})
    (cell,) = cells_of(manifest, np.array([0.00123], np.float32))
    assert (cell.value, cell.nearest) == (100868.0, True)
    assert _words(np.array([0.00123], np.float32), manifest) == snapshot
    text = spec_text(data.facts(), "table.csv", True, data.encoding)
    assert text == snapshot
    assert "integers" not in text


AGE = NumberColumn("age", 17, 90, whole=True)
CITY = CategoryColumn("city", ("Bonn", "Koeln", "Trier"))
INCOME = NumberColumn("income", 0.5, 1000.5)
ENCODING = Encoding("label", (AGE, CITY, INCOME))
RECORD = {"age": 30, "city": "Koeln", "income": 200.5}


def _point(**changes: float) -> np.ndarray:
    x = encode_rows(ENCODING, [RECORD])[0]
    for name, value in changes.items():
        x[{"age": 0, "bonn": 1, "koeln": 2, "trier": 3, "income": 4}[name]] = value
    return x


@given(
    x=st.lists(
        st.one_of(st.sampled_from([0.0, 1.0]), st.floats(-0.5, 1.5, width=32)),
        min_size=5,
        max_size=5,
    )
)
@settings(max_examples=rounds(300))
def test_what_can_be_no_record_is_what_enumeration_says(x) -> None:
    read = np.array(x, dtype=np.float32)
    _, wrong = nearest_record(ENCODING, read)
    ages = encode_rows(Encoding("label", (AGE,)), [{"age": k} for k in range(17, 91)])
    assert ("age" not in wrong) == (read[0] in ages)
    assert ("city" not in wrong) == any(np.array_equal(read[1:4], row) for row in np.eye(3))
    if read[4] == 0 or not 0 < read[4] < 1e-9:  # there float64 is finer than the feature
        assert ("income" not in wrong) == (0 <= read[4] <= 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"koeln": 0.6},
        {"koeln": 0.0},
        {"bonn": 1.0},
        {"age": 0.5123},
        {"age": 1.5},
        {"income": -0.1},
        {"bonn": 0.4, "age": 0.5123},
    ],
)
def test_a_witness_that_is_no_record_is_worded_as_nearest_to_one(changes, snapshot) -> None:
    words = _words(_point(**changes))
    assert words == snapshot


def test_a_witness_that_a_record_can_be_is_worded_as_that_record(snapshot) -> None:
    words = _words(_point())
    assert words == snapshot
    assert [each.nearest for each in cells_of(_manifest(), _point())] == [False, False, False]
    shown = [each.nearest for each in cells_of(_manifest(), _point(koeln=0.5))]
    assert shown == [False, True, False]


def test_of_an_older_family_whole_numbers_are_not_known_but_categories_are() -> None:
    older = {
        "label": "label",
        "columns": [
            {"type": "number", "name": "age", "minimum": 17.0, "maximum": 90.0},
            {"type": "category", "name": "city", "categories": ["Bonn", "Koeln"]},
        ],
    }
    manifest = Manifest(recipe={"encoding": older})
    cells = cells_of(manifest, np.array([0.51237, 0.2, 0.8], np.float32))
    assert [each.nearest for each in cells] == [False, True]
    assert cells[0].value == pytest.approx(17 + 0.51237 * 73)


def test_a_run_goes_on_where_an_older_one_that_knew_no_whole_columns_stopped() -> None:
    recipe = {
        "encoding": {
            "label": "y",
            "columns": [{"type": "number", "name": "a", "minimum": 0.0, "maximum": 3.0}],
        }
    }
    now = {
        "encoding": {
            "label": "y",
            "columns": [
                {"type": "number", "name": "a", "minimum": 0.0, "maximum": 3.0, "whole": True}
            ],
        }
    }
    assert settings_of(Manifest(recipe=recipe), 3) == settings_of(Manifest(recipe=now), 3)


def _manifest() -> Manifest:
    return Manifest(recipe={"encoding": msgspec.to_builtins(ENCODING)})


def _words(x: np.ndarray, manifest: Manifest | None = None) -> str:
    manifest = manifest or _manifest()
    family = Family({"w": np.zeros((1, 1), np.float32)}, np.array([4]), manifest)
    witness = Witness(
        x=x,
        member=0,
        removed=4,
        label=0,
        confidence=0.5,
        scores=np.array([1.0, 0.5], np.float32),
        member_scores=np.array([0.0, 1.0], np.float32),
    )
    return record(cast(Instance, SimpleNamespace(family=family)), witness, pair=False).words


def test_a_specification_of_very_many_or_very_fine_columns_can_be_read(tmp_path) -> None:
    fine = NumberColumn("fine", 0, 2_000_000, whole=True)
    many = tuple(NumberColumn(f"count {i}", 0, 7, whole=True) for i in range(3000))
    words = CategoryColumn("word", tuple(f"w{i:05}" for i in range(1500)))
    for columns in ((fine,), many, (words, AGE)):
        encoding = Encoding("label", columns)
        width = len(encoding.features)
        facts = DataFacts(
            sha256="", rows=9, minimum=(0.0,) * width, maximum=(1.0,) * (width - 1) + (0.0,)
        )
        text = spec_text(facts, "table.csv", True, encoding)
        assert len(check(parse(text)).statements) == 1
        assert "too many values to list them all, so these stay ranges: " in text


def test_whether_all_rows_are_listed_is_known_of_a_table(tmp_path, snapshot) -> None:
    path = tmp_path / "table.csv"
    path.write_text("age,city,label\n17,Bonn,0\n19,Koeln,1\n")
    data = read_csv(path, "label")
    manifest = Manifest(data=data.facts(), recipe={"encoding": msgspec.to_builtins(data.encoding)})
    family = Family({"w": np.zeros((1, 1), np.float32)}, np.array([0]), manifest)
    box = _box(data, tmp_path)
    assert outside_box(cast(Instance, SimpleNamespace(family=family, box=box))) is None
    fewer = Box(box.lower, box.upper, (Choices(np.array([0]), np.array([0.0, 1.0])),))
    said = outside_box(cast(Instance, SimpleNamespace(family=family, box=fewer)))
    assert said is not None
    assert said == snapshot


def test_decoding_still_tells_the_numbers_themselves() -> None:
    assert decode_row(ENCODING, _point(age=0.5))["age"] == 17 + 0.5 * 73
