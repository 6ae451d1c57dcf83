"""A guard of a forest that was trained on a table: rows in the table's own units, by name."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from leaveout.errors import GuardError, LeaveoutError
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.folders import ForestFolder, delete_rows, train_forest
from leaveout.models.reading import Reading
from leaveout.verifier.cli import run
from leaveout.verifier.guard import Guard

from support.served import Asker, in_thread

ROWS = [
    {"patient": f"P-{i}", "age": str(20 + 7 * i % 50), "dose": f"{i * 0.37 % 1:.2f}",
     "ward": "abc"[i % 3], "ill": "yes" if i * 37 % 100 > 50 else "no"}
    for i in range(40)
]  # fmt: skip
FILES = ("forest.npz", "forest.json", "forest.spec")


@pytest.fixture
def folder(tmp_path):
    with (tmp_path / "t.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ROWS[0])
        writer.writeheader()
        writer.writerows(ROWS)
    settings = DareForestClassifier(7, max_depth=4, random_state=3)
    train_forest(
        tmp_path / "t.csv", tmp_path / "clinic", label="ill", identity="patient", forest=settings,
        test_share=0,
    )  # fmt: skip
    return tmp_path / "clinic"


def test_rows_are_read_by_their_columns(folder, snapshot):
    with Guard.load(folder, 0.2, seed=1) as guard:
        assert guard.names == ("no", "yes")
        assert guard.features == ("age", "dose", "ward=a", "ward=b", "ward=c")
        X = guard.encode(ROWS)
        forest = DareForestClassifier.load(folder / "forest.npz")
        # No number is scaled or rounded on its way to the forest.
        assert X.dtype == np.float64 and np.array_equal(X, forest.ensemble().X)
        found = guard.inspect(X)
        own = [guard.names[label] for label in found.labels]
        assert own == forest.predict(X).tolist()
        with pytest.raises(GuardError) as told:
            guard.encode([ROWS[0] | {"ward": "z"}])
        assert str(told.value) == snapshot
        with pytest.raises(GuardError) as told:
            guard.encode([{"age": 3, "ward": "a"}])
        assert str(told.value) == snapshot


def test_a_table_is_answered_and_its_numbers_are_not_told(folder, tmp_path, capsys):
    given = ["guard", str(folder), str(tmp_path / "t.csv"), "--epsilon", "0.2"]
    assert run(given) == 0
    first = capsys.readouterr().out
    assert len(first.split()) == 41 and set(first.split()) == {"label", "no", "yes"}
    assert run(given) == 0
    assert capsys.readouterr().out == first
    with Guard.load(folder, 0.2) as guard, in_thread(guard) as port:
        asker = Asker(port)
        about = asker.get("/about").said
        assert about["columns"] == [
            {"name": "age", "kind": "number"},
            {"name": "dose", "kind": "number"},
            {"name": "ward", "kind": "category", "categories": ["a", "b", "c"]},
        ]
        assert about["box"] is None
        row = {name: ROWS[3][name] for name in ("age", "dose", "ward")}
        assert asker.ask({"row": row}).said["name"] == first.split()[4]
        asker.close()


def test_deletions_change_the_folder_as_a_whole(folder, tmp_path):
    """By a guard or by the command: the same files in the end."""
    with Guard.load(folder, 0.2, seed=1) as guard:
        guard.delete([3, 5])
        assert guard.members == 38
        mine = {name: (folder / name).read_bytes() for name in FILES}
        assert '"P-3"' not in mine["forest.json"].decode()
        assert (folder / "family.npz").exists()
        (name,) = guard.add(guard.encode([ROWS[3]]), [ROWS[3]["ill"]])
        assert name == 40 and guard.members == 39
        # Rows may go by the command meanwhile.
        delete_rows(folder, ["P-7"])
        assert not (folder / "family.npz").exists()
        guard.reload()
        assert guard.members == 38
        rows = ForestFolder.read(folder).forest.rows_
        assert 7 not in rows and 40 in rows
    other = tmp_path / "other"
    train_forest(
        tmp_path / "t.csv", other, label="ill", identity="patient", test_share=0,
        forest=DareForestClassifier(7, max_depth=4, random_state=3),
    )  # fmt: skip
    delete_rows(other, ["P-3", "P-5"])
    assert {name: (other / name).read_bytes() for name in FILES} == mine


def test_columns_of_another_forest_are_refused(folder, wooded, snapshot):
    wooded.forest.save(folder / "forest.npz")
    with pytest.raises(LeaveoutError) as told:
        Guard.load(folder, 0.2)
    assert str(told.value) == snapshot


def test_rows_of_a_group_are_added_and_deleted_together(tmp_path):
    with (tmp_path / "t.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ROWS[0])
        writer.writeheader()
        writer.writerows({**row, "patient": f"P-{i % 9}"} for i, row in enumerate(ROWS))
    settings = DareForestClassifier(7, max_depth=4, random_state=3)
    train_forest(
        tmp_path / "t.csv", tmp_path / "clinic", label="ill", reading=Reading(group="patient"),
        forest=settings, test_share=0,
    )  # fmt: skip
    with Guard.load(tmp_path / "clinic", 0.2, seed=1) as guard:
        assert guard.members == 9
        X = guard.encode(ROWS[:2])
        with pytest.raises(LeaveoutError, match="groups="):
            guard.add(X, ["yes", "no"])
        names = guard.add(X, ["yes", "no"], groups=["P-3", "P-77"])
        assert names.tolist() == [40, 41] and guard.members == 10
        forest = ForestFolder.read(tmp_path / "clinic").forest
        guard.delete(forest.rows_of("P-3"))
        assert guard.members == 9
