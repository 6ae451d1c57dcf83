"""Columns that are written oddly, and files that are not tables: the message says the cure."""

from __future__ import annotations

import zipfile

import pytest

from leaveout.errors import TrainingError
from leaveout.models.reading import odd_notation
from leaveout.models.train.data import read_data

ROWS = 30


def table(folder, **columns):
    """Write a table whose label alternates, with these columns."""
    path = folder / "t.csv"
    names = [*columns, "ill"]
    lines = [
        ",".join([*(each(at) for each in columns.values()), "ny"[at % 2]]) for at in range(ROWS)
    ]
    path.write_text("\n".join([",".join(names), *lines, ""]))
    return path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["12 %", "3.5%"], "remove the % signs"),
        (["2024-03-01", "2024-03-02"], "is a date"),
        (["01.03.2024", "2.3.24"], "is a date"),
        (["950", "3.061"], "may separate thousands"),
        (["1.234.567", "2.345"], "may separate thousands"),
        (["00123", "00124"], "put a letter before them"),
        (["0.061", "3.061"], ""),
        (["3.06", "3.061"], ""),
        (["0", "10"], ""),
        (["nurse", "clerk"], ""),
        ([], ""),
    ],
)
def test_odd_numbers_are_told_from_ordinary_ones(words, said):
    found = odd_notation(words)
    assert said in found
    assert bool(found) == bool(said)


@pytest.mark.parametrize("cell", ["{} %", "2024-03-{:02d}"])
def test_columns_of_odd_numbers_are_refused_with_the_cure(tmp_path, cell):
    path = table(tmp_path, odd=lambda at: cell.format(at + 1))
    with pytest.raises(TrainingError, match=r"column 'odd': .*(% signs|is a date)"):
        read_data(path, "ill")


def test_codes_and_thousands_are_noted(tmp_path):
    path = table(tmp_path, code=lambda at: f"00{at}", pay=lambda at: f"{at % 7 + 1}.061")
    said = " ".join(read_data(path, "ill").cautions)
    assert "column 'code'" in said
    assert "column 'pay'" in said


def test_all_refused_columns_are_told_at_once(tmp_path):
    path = table(tmp_path, name=lambda at: f"A{at}", street=lambda at: f"S{at}")
    with pytest.raises(TrainingError, match=r"column 'name'.*column 'street'"):
        read_data(path, "ill")


@pytest.mark.parametrize("start", [b"PAR1", b"ARROW1\0\0", b"FEA1"])
def test_columnar_files_are_told_to_be_saved_as_csv(tmp_path, start):
    path = tmp_path / "t.parquet"
    path.write_bytes(start + b"\x15\x04" * 40)
    with pytest.raises(TrainingError, match="save it as CSV"):
        read_data(path, "ill")


@pytest.mark.parametrize("inside", ["xl/workbook.xml", "data/readme", "table.csv"])
def test_workbooks_and_zip_files_are_told_to_be_saved_as_csv(tmp_path, inside):
    path = tmp_path / "t.xlsx"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(inside, "x")
    with pytest.raises(TrainingError, match="save the table as CSV"):
        read_data(path, "ill")


@pytest.mark.parametrize("count", [1, 3, 25])
def test_constant_columns_are_one_note(tmp_path, count):
    constant = {f"c{at}": lambda at: "7" for at in range(count)}
    path = table(tmp_path, **constant, age=lambda at: str(at * at))
    (note,) = read_data(path, "ill").cautions
    assert note.count("'c") == min(count, 20)
    assert ("and 5 more" in note) == (count == 25)
    assert "--drop" in note


def test_names_of_columns_in_options_are_quoted_for_the_shell(tmp_path):
    path = table(tmp_path, **{"full name": lambda at: f"A{at}"})
    with pytest.raises(TrainingError, match=r"--drop 'full name' or --id 'full name'"):
        read_data(path, "ill")
