"""Tables as people write them: every way of writing one reads as the same table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.errors import TrainingError
from leaveout.models.forest.folders.training import read_forest_data
from leaveout.models.reading import Reading, read_table
from leaveout.models.train import encode_rows
from leaveout.models.train.data import read_data
from leaveout.models.train.encoding import INDICATED, MISSING, encode_values, indicator_name
from leaveout.models.votes.source import read_lines

WORDS = st.sampled_from(["", "x", "Zoë", "a b", "0", "-12", "3.25", "1e5", "1,5 kg", 'say "a"'])
ROWS = st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=8)


def quoted(word):
    return '"' + word.replace('"', '""') + '"'


def comma(word):
    try:
        float(word)
    except ValueError:
        return word
    return word.replace(".", ",")


@given(
    rows=ROWS,
    separator=st.sampled_from([",", ";", "\t", "|"]),
    told=st.booleans(),
    decimal=st.sampled_from(".,"),
    charset=st.sampled_from(["", "utf-8-sig", "cp1252", "latin-1", "utf-16"]),
    by_line=st.booleans(),
)
def test_every_way_of_writing_a_table_reads_as_the_same_table(
    tmp_path_factory, rows, separator, told, decimal, charset, by_line
):
    path = tmp_path_factory.mktemp("t") / "a.csv"
    lines = [separator.join(("first", '"second, one; or \t"', "third"))]
    for row in rows:
        words = map(comma, row) if decimal == "," else row
        lines.append(separator.join(map(quoted, words)))
    path.write_bytes("\n".join(lines).encode(charset or "utf-8"))
    named = "" if charset in {"utf-8-sig", "utf-16"} else charset
    reading = Reading(separator if told else "", decimal, named)
    if by_line and charset != "utf-16":
        table, left_aside = read_lines(path, reading)
        assert left_aside == ()
    else:
        table = read_table(path, reading=reading)
    assert table.header == ["first", "second, one; or", "third"]
    assert list(map(tuple, table.rows)) == rows


def test_columns_that_are_dropped_are_as_if_they_had_never_been_there(tmp_path):
    (tmp_path / "a.csv").write_text("name,age,ill\nAnn,3,no\nBob,,yes\n")
    (tmp_path / "b.csv").write_text("age,ill\n3,no\n,yes\n")
    reading = Reading(drop=("name",))
    for read in (read_table, lambda path, reading: read_lines(path, reading)[0]):
        table = read(tmp_path / "a.csv", reading=reading)
        expected = read_table(tmp_path / "b.csv")
        assert (table.header, list(table.rows)) == (expected.header, list(expected.rows))


@pytest.mark.parametrize(
    ("content", "reading"),
    [
        ("a,b\n1.5,x\n", {"decimal": ","}),
        ("a,b\n1,x\n", {"drop": ("c",)}),
        ("a,b\nZoë,x\n", {}),
        ("a,b\nZoë,x\n", {"charset": "ascii"}),
        ("a,b\n1,x\n", {"charset": "utf-16"}),
        ("a;b\n1.234,5;x\n", {"separator": ";", "decimal": ","}),
        ("sep=;\na;b\n1;x\n", {}),
        ("a\0,\0b\0\n\0", {}),
        ("PK\x03\x04", {}),
        ("a,b\n1,x\n", {"charset": "undefined"}),
        ("a,b\n1,x\n", {"charset": "utf-7"}),
        ("a,b\n1,x\n", {"charset": "klingon"}),
        ("a,b\n1,x\n", {"charset": "base64"}),
        ("a,b\n1,x\n", {"separator": "::"}),
        ("a,b\n1,x\n", {"decimal": ";"}),
        ("a,b\n1,x\n", {"missing": ("median",)}),
        ("a,b\n1,x\n", {"missing": ("a=",)}),
    ],
)
def test_what_does_not_fit_is_refused_with_the_cure(tmp_path, content, reading, snapshot):
    (tmp_path / "a.csv").write_bytes(content.encode("latin-1"))
    with pytest.raises(TrainingError) as told:
        read_table(tmp_path / "a.csv", reading=Reading(**reading))
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    ("content", "reading"),
    [
        ("age,ill\n3,no\n,yes\n5,no\n", {}),
        ("age,ill\n3,no\nNA,yes\n5,no\n", {}),
        ("dose,ill\n1,no\n'1,5',yes\n2,no\n", {}),
        ("age,ill\n3,no\n,yes\n5,no\n", {"missing": ("ages=drop",)}),
        ("dose,ill\n'1,5',no\nNA,yes\n'2,5',no\n", {"missing": ("mark",)}),
        ("dose,ill\n'1,5',no\n<0,yes\n'2,5',no\n", {}),
        ("dose,ill\n1.5,no\n'2,5',yes\n2.5,no\n", {}),
        ("dose,ill\n'1,200',no\n950,yes\n'2,000',no\n", {}),
        ("dose,ill\n1,no\nNA,yes\nlow,no\n2,no\n3,yes\n4,no\n", {"missing": ("drop",)}),
        ("dose,age,ill\n,1,no\n,2,yes\nNA,3,no\n", {"missing": ("drop",)}),
        ("age,age missing,ill\n3,4,no\n,5,yes\n5,6,no\n", {"missing": ("mark",)}),
        ("age,ill\n3,no\n,yes\n", {"missing": ("drop",)}),
        ("age,ill\n3,no\n3,\n4,yes\n", {"missing": ("mark",)}),
    ],
)
def test_gaps_are_refused_with_the_option_that_fills_them(tmp_path, content, reading, snapshot):
    path = tmp_path / "a.csv"
    path.write_text(content.replace("'", '"'))
    with pytest.raises(TrainingError) as told:
        read_data(path, "ill", reading=Reading(**reading))
    assert str(told.value) == snapshot


NUMBERS = st.sampled_from(["", "NA", "?", "1", "-2.5", "40"])
CLINICS = st.sampled_from(["", "North", "East", "None"])
LABELS = st.sampled_from(["yes", "no", "", "NA"])
MODES = st.sampled_from([("drop",), ("mark",), ("mark", "age=drop"), ("drop", "clinic=mark")])


@given(rows=st.lists(st.tuples(NUMBERS, CLINICS, LABELS), min_size=2, max_size=12), modes=MODES)
def test_a_row_with_gaps_is_encoded_later_as_it_was_in_training(tmp_path_factory, rows, modes):
    path = tmp_path_factory.mktemp("t") / "a.csv"
    path.write_text("age,clinic,ill\n" + "".join(",".join(row) + "\n" for row in rows))
    reading = Reading(missing=modes)
    try:
        data = read_data(path, "ill", reading=reading)
    except TrainingError:
        return
    assert data.encoding is not None
    kept = [int(name.split()[1]) - 2 for name in data.ids] if data.ids else list(range(len(rows)))
    named = [dict(zip(("age", "clinic"), rows[at], strict=False)) for at in kept]
    assert np.array_equal(encode_rows(data.encoding, named), data.X)
    assert [data.labels[at] for at in data.y] == [rows[at][2] for at in kept]
    left_out = set(range(len(rows))) - set(kept)
    none = {"", "NA", "?"} if {row[0] for row in rows} & {"1", "-2.5", "40"} else {""}
    for at, (age, clinic, label) in enumerate(rows):
        drops = (
            (age in none and reading.missing_mode("age") == "drop")
            or (not clinic and reading.missing_mode("clinic") == "drop")
            or (label in {"", "NA"} and reading.missing_mode("ill") == "drop")
        )
        assert (at in left_out) == drops
    # What is marked stays apart from what is there.
    for at, row in zip(kept, data.X, strict=True):
        found = dict(zip(data.features, row.tolist(), strict=True))
        if data.encoding.fills.get("age") is not None:
            lacks = rows[at][0] in none
            assert found[f"{indicator_name('age')}={INDICATED[lacks]}"] == 1
        if "clinic" in data.encoding.fills:
            assert found[f"clinic={rows[at][1] or MISSING}"] == 1


def test_null_and_nan_are_missing_too(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age,clinic,ill\n3,East,no\n,North,yes\n5,,no\n")
    encoding = read_data(path, "ill", reading=Reading(missing=("mark",))).encoding
    assert encoding is not None
    rows = [
        {"age": age, "clinic": clinic}
        for age, clinic in [("", ""), (None, None), (float("nan"), float("nan"))]
    ]
    first, *others = encode_rows(encoding, rows)
    assert all(np.array_equal(first, each) for each in others)


@pytest.mark.parametrize("value", [None, float("nan")])
@pytest.mark.parametrize("column", ["age", "clinic"])
def test_what_no_training_row_lacked_may_not_be_missing_later(tmp_path, column, value, snapshot):
    path = tmp_path / "a.csv"
    path.write_text("age,clinic,ill\n3,East,no\n4,North,yes\n5,None,no\n6,nan,no\n")
    encoding = read_data(path, "ill").encoding
    assert encoding is not None
    row = {"age": 3, "clinic": "East", column: value}
    with pytest.raises(TrainingError) as told:
        encode_rows(encoding, [row])
    assert str(told.value) == snapshot


@pytest.mark.parametrize("words", [("True", "False"), ("true", "false"), ("TRUE", "FALSE")])
def test_a_boolean_is_the_word_that_the_table_has_for_it(tmp_path, words):
    path = tmp_path / "a.csv"
    path.write_text(f"smokes,ill\n{words[0]},no\n{words[1]},yes\n{words[0]},no\n")
    data = read_data(path, "ill")
    assert data.encoding is not None
    found = encode_rows(data.encoding, [{"smokes": each} for each in (True, False, True)])
    assert np.array_equal(found, data.X)


def test_forests_fill_numbers_by_what_depends_on_no_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age,clinic,ill\n30,East,no\n,North,yes\n50,,no\n")
    data = read_forest_data(path, "ill", reading=Reading(missing=("mark",)))
    encoding = data.columns.encoding
    assert encoding is not None
    assert encoding.fills == {"age": 0.0, "clinic": None}
    rows = [{"age": "30", "clinic": "East"}, {"age": "", "clinic": "North"}]
    assert np.array_equal(encode_values(encoding, rows), data.X[:2])


def test_forests_name_rows_by_their_number_in_the_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("name,age,ill\nAnn,30,no\nBob,,yes\nEve,50,yes\n")
    reading = Reading(missing=("drop",))
    data = read_forest_data(path, "ill", reading=Reading(missing=("drop",), drop=("name",)))
    assert data.rows.names.tolist() == [0, 2]
    data = read_forest_data(path, "ill", "name", reading=reading)
    assert data.columns.ids == {0: "Ann", 1: "Eve"}


def test_what_looks_like_a_mistake_is_said(tmp_path, snapshot):
    path = tmp_path / "a.csv"
    header = "number,site,outcome,age,ill\n"
    rows = [
        f"{100 + at},A,{'died' if at % 3 else 'left'},{at % 7},{at % 3 > 0}" for at in range(30)
    ]
    path.write_text(header + "\n".join([*rows, "131,A,died,,True"]) + "\n")
    data = read_data(path, "ill", reading=Reading(missing=("drop",)))
    assert "\n".join(data.cautions) == snapshot
    path.write_text("age,dose\n" + "\n".join(f"{at % 7},{at % 25}" for at in range(50)) + "\n")
    assert "\n".join(read_data(path, "dose").cautions) == snapshot
