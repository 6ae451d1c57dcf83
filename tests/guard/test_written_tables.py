"""Guards of models trained on tables as people write them."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.models.forest.classifier import DareForestClassifier
from leaveout.models.forest.folders import add_rows, delete_rows, train_forest
from leaveout.models.reading import Reading
from leaveout.verifier.cli import run
from leaveout.verifier.guard import Guard

from support.served import Asker, in_thread

HEADER = "name;dose;ward;smokes;ill"
ROWS = [
    f"P{i};{'' if i % 7 == 3 else f'{i * 37 % 100 / 8:g}'.replace('.', ',')};"
    f"{'' if i % 9 == 5 else ['Nord', 'Süd', 'West'][i % 3]};{i % 2 == 0};"
    f"{'yes' if i * 37 % 100 > 50 else 'no'}"
    for i in range(40)
]
OPTIONS = ["--decimal", ",", "--charset", "cp1252", "--missing", "mark"]


def write(path, rows, header=HEADER):
    path.write_bytes("\n".join([header, *rows, ""]).encode("cp1252"))
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "t.csv", ROWS)


def test_a_forest_answers_rows_as_its_table_has_them(table, tmp_path, capsys):
    folder = tmp_path / "clinic"
    words = ["forest", "train", str(table), "--label", "ill", "--id", "name", *OPTIONS]
    assert run([*words, "--trees", "7", "--test-share", "0", "-o", str(folder)]) == 0
    capsys.readouterr()
    assert run(["guard", str(folder), str(table), "--epsilon", "0.2"]) == 0
    label, *found = capsys.readouterr().out.split()
    assert label == "label" and len(found) == len(ROWS)
    forest = DareForestClassifier.load(folder / "forest.npz")
    with Guard.load(folder, 0.2) as guard, in_thread(guard) as port:
        assert guard.encoding is not None
        plain = [row.replace(",", ".").split(";") for row in ROWS]
        rows = [dict(zip(HEADER.split(";"), cells, strict=True)) for cells in plain]
        X = guard.encode(rows)
        assert np.array_equal(X, forest.ensemble().X)
        # Over HTTP a gap is null, and a boolean is one.
        asker = Asker(port)
        names = [each["name"] for each in asker.get("/about").said["columns"]]
        assert names == ["dose", "ward", "smokes"]
        for row, name in zip(rows, found, strict=True):
            dose, ward = row["dose"], row["ward"]
            asked = {
                "dose": float(dose) if dose else None,
                "ward": ward or None,
                "smokes": row["smokes"] == "True",
            }
            assert asker.ask({"row": asked}).said["name"] == name
        asked.pop("ward")
        assert asker.ask({"row": asked}).status == 422
        asker.close()


def test_rows_that_come_later_are_written_the_same_way(table, tmp_path):
    reading = Reading(decimal=",", charset="cp1252", missing=("mark",))
    settings = DareForestClassifier(5, max_depth=4, random_state=1)
    folder, other = tmp_path / "a", tmp_path / "b"
    shared = {"label": "ill", "identity": "name", "reading": reading, "test_share": 0}
    train_forest(table, folder, forest=settings, **shared)
    train_forest(write(tmp_path / "u.csv", ROWS[:30]), other, forest=settings, **shared)
    add_rows(other, write(tmp_path / "v.csv", ROWS[30:]))
    delete_rows(folder, [row.split(";")[0] for row in ROWS[30:]])
    delete_rows(other, [row.split(";")[0] for row in ROWS[30:]])
    found, again = (DareForestClassifier.load(each / "forest.npz") for each in (folder, other))
    assert np.array_equal(found.ensemble().X, again.ensemble().X)
    assert np.array_equal(found.predict(again.ensemble().X), again.predict(again.ensemble().X))


def test_a_family_answers_rows_as_its_table_has_them(table, tmp_path, capsys, snapshot):
    folder = tmp_path / "family"
    words = ["train", str(table), "--label", "ill", "--id", "name", *OPTIONS, "--members", "3"]
    assert run([*words, "--layers", "3", "--epochs", "2", "--batch", "8", "-o", str(folder)]) == 0
    capsys.readouterr()
    bounds = folder / "bounds.npz"
    spec = (folder / "idp.spec").read_text()
    assert "dose missing" in spec
    assert run(["verify", str(folder / "idp.spec"), "--bounds", str(bounds), "--data", str(table),
                "--time", "60"]) in {0, 3}  # fmt: skip
    capsys.readouterr()
    assert run(["guard", str(folder), str(table), "--epsilon", "0.2"]) == 0
    assert len(capsys.readouterr().out.split()) == 1 + len(ROWS)
    for row in ("P1;2.5;Nord;True;no", "P1;2,5;Nord;;no", "P1;2,5;Ost;True;no"):
        given = write(tmp_path / "w.csv", [row])
        assert run(["guard", str(folder), str(given), "--epsilon", "0.2"]) == 2
        assert capsys.readouterr().err.strip() == snapshot
