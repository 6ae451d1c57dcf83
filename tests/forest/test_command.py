"""The command ``leaveout forest``: flags in, a folder and a table out."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.models.forest.folders import ForestFolder
from leaveout.verifier.cli import run

TABLE = "patient,age,ward,ill\n" + "".join(
    f"P-{i},{20 + 7 * i % 50},{'abc'[i % 3]},{'ny'[i * 37 % 100 > 50]}\n" for i in range(24)
)
SMALL = ["--label", "ill", "--id", "patient", "--trees", "4", "--depth", "3"]


@pytest.fixture
def table(tmp_path):
    (tmp_path / "t.csv").write_text(TABLE)
    return tmp_path / "t.csv"


@pytest.fixture
def folder(table, tmp_path, capsys):
    assert run(["forest", "train", str(table), *SMALL, "-o", str(tmp_path / "clinic")]) == 0
    capsys.readouterr()
    return tmp_path / "clinic"


def told(capsys):
    text = capsys.readouterr().out
    return dict(line.split(maxsplit=1) for line in text.splitlines() if line[0] != " "), text


def test_it_trains_and_says_what_comes_next(table, tmp_path, capsys, snapshot):
    out = tmp_path / "clinic"
    words = [*SMALL, "--unit", "age=years", "--test-share", "0.25", "--seed", "7"]
    assert run(["forest", "train", str(table), *words, "-o", str(out)]) == 0
    lines, text = told(capsys)
    assert (lines["rows"], lines["features"], lines["labels"]) == ("24", "4", "2")
    assert lines["trees"] == snapshot
    assert lines["test"] == snapshot
    assert lines["next"] == snapshot
    assert str(out / "forest.json") in text
    folder = ForestFolder.read(out)
    assert folder.columns.units == {"age": "years"}
    assert folder.forest.seed_ == 7


def test_it_deletes_and_adds(folder, table, tmp_path, capsys, snapshot):
    assert run(["forget", str(folder), "P-3", "P-5", "--check"]) == 0
    lines, _ = told(capsys)
    assert lines["forgotten"] == "P-3, P-5"
    assert lines["rows"] == "left       22"
    assert lines["equal"] == snapshot
    (tmp_path / "gone.csv").write_text("patient\nP-7\nP-8\n")
    assert run(["forget", str(folder), "--from", str(tmp_path / "gone.csv")]) == 0
    lines, _ = told(capsys)
    assert lines["forgotten"] == "P-7, P-8"
    assert lines["equal"] == snapshot
    (tmp_path / "new.csv").write_text("".join(TABLE.splitlines(True)[i] for i in (0, 4, 6, 8, 9)))
    assert run(["forest", "add", str(folder), str(tmp_path / "new.csv")]) == 0
    lines, _ = told(capsys)
    assert (lines["added"], lines["rows"]) == ("P-3, P-5, P-7, P-8", "24")
    rows = ForestFolder.read(folder).forest.rows_
    assert np.array_equal(rows, [*sorted(set(range(24)) - {3, 5, 7, 8}), 24, 25, 26, 27])


def test_a_specification_that_is_kept_is_told(folder, capsys, snapshot):
    (folder / "forest.spec").write_text("# mine\n")
    assert run(["forget", str(folder), "P-3"]) == 0
    said = capsys.readouterr().err
    assert said == snapshot


def test_files_of_others_that_name_a_row_are_told(folder, capsys, snapshot):
    (folder / "results").mkdir()
    (folder / "results" / "r.json").write_text('{"row": "P-3"}')
    (folder / "other.json").write_text('{"rows": ["P-33", "XP-3", "P-3-b"]}')
    assert run(["forget", str(folder), "P-3"]) == 0
    said = capsys.readouterr().err
    assert said == snapshot


@pytest.mark.parametrize(
    "words",
    [
        ["forget", "DIR"],
        ["forget", "DIR", "P-77"],
        ["forget", "nowhere", "P-3"],
        ["forget", "DIR", "--from", "none.csv"],
        ["add", "DIR", "none.csv"],
        ["train", "CSV", "-o", "new"],
        ["train", "CSV", "--label", "il", "-o", "new"],
        ["train", "CSV", *SMALL, "-o", "DIR"],
        ["train", "CSV", *SMALL, "--trees", "0", "-o", "new"],
        ["train", "CSV", *SMALL, "--test-share", "1", "-o", "new"],
        ["train", "CSV", *SMALL, "--unit", "age", "-o", "new"],
        ["train", "CSV", *SMALL, "--unit", "aeg=y", "-o", "new"],
        ["train", "none.csv", *SMALL, "-o", "new"],
        ["ad"],
    ],
)
def test_errors_are_one_line(folder, table, tmp_path, capsys, monkeypatch, words, snapshot):
    monkeypatch.chdir(tmp_path)
    names = {"DIR": str(folder), "CSV": str(table)}
    command = [] if words[0] == "forget" else ["forest"]
    assert run([*command, *(names.get(word, word) for word in words)]) == 2
    told = capsys.readouterr()
    assert told.err == snapshot
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("words", [[], ["train"], ["add"]])
def test_help_teaches(words, capsys):
    assert run(["forest", *words, "--help"]) == 0
    long = capsys.readouterr().out
    assert run(["forest", *words, "-h"]) == 0
    assert capsys.readouterr().out == long
    assert "exactly" in long
