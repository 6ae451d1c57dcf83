"""The folder of a forest is a function of the rows it holds, and changes whole or not at all."""

from __future__ import annotations

import csv
import tempfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.errors import ForestError, LeaveoutError, TrainingError
from leaveout.files import PARTIALS
from leaveout.models.forest import DareForestClassifier, PlainTree, first_difference
from leaveout.models.forest.folders import (
    ForestFolder,
    add_rows,
    delete_rows,
    rows_of_table,
    train_forest,
)
from leaveout.models.forest.folders.training import read_forest_data
from leaveout.models.train import CategoryColumn
from leaveout.models.train.folder import open_for_change
from leaveout.models.train.receipts import RECEIPTS, SALT
from leaveout.specs import parse
from leaveout.verifier.points.inputs import InputReader
from leaveout.verifier.resolve_names import read_spec

from support.depth import rounds

ROWS = [
    {"patient": f"P-{i}", "age": str(20 + 7 * i % 50), "dose": f"{i * 0.37 % 1:.2f}",
     "ward": "abc"[i % 3], "ill": "yes" if i * 37 % 100 > 50 else "no"}
    for i in range(24)
]  # fmt: skip
FILES = ("forest.npz", "forest.json", "forest.spec")
SETTINGS = DareForestClassifier(5, max_depth=4, random_state=3)


def write(folder, rows=ROWS, name="t.csv"):
    with (folder / name).open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return folder / name


def train(folder, rows=ROWS, identity="patient", name="clinic", **options):
    options = {"forest": SETTINGS, "test_share": 0, "label": "ill", **options}
    train_forest(write(folder, rows), folder / name, identity=identity, **options)
    return folder / name


def contents(folder):
    return {name: (folder / name).read_bytes() for name in FILES}


def same_trees(one, other):
    """Whether two forests are the same whatever their rows are called."""
    a, b = one.ensemble(), other.ensemble()
    assert np.array_equal(a.X, b.X)
    assert np.array_equal(a.classes[a.y], b.classes[b.y])
    for mine, others in zip(a.trees, b.trees, strict=True):
        for each in fields(PlainTree):
            assert np.array_equal(getattr(mine, each.name), getattr(others, each.name))


def test_a_forest_reads_a_table_in_its_own_units(tmp_path):
    folder = ForestFolder.read(train(tmp_path))
    ensemble = folder.forest.ensemble()
    expected = [
        [float(row["age"]), float(row["dose"]), *(float(row["ward"] == each) for each in "abc")]
        for row in ROWS
    ]
    assert np.array_equal(ensemble.X, np.array(expected))
    assert folder.columns.features == ("age", "dose", "ward=a", "ward=b", "ward=c")
    assert ensemble.classes.tolist() == ["no", "yes"]
    assert np.array_equal(folder.columns.encode(ROWS), ensemble.X)
    anew = DareForestClassifier(**SETTINGS.get_params()).fit(expected, [row["ill"] for row in ROWS])
    assert first_difference(folder.forest, anew) is None


def test_rows_have_the_names_of_the_table(tmp_path):
    folder = ForestFolder.read(train(tmp_path))
    assert [folder.columns.name_of(row) for row in folder.forest.rows_.tolist()] == [
        row["patient"] for row in ROWS
    ]
    unnamed = ForestFolder.read(train(tmp_path, identity=None, name="u", rows=without("patient")))
    assert unnamed.columns.name_of(3) == "3"


def without(column):
    return [{name: cell for name, cell in row.items() if name != column} for row in ROWS]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(["1", "0", "2"], "i"), (["10", "9", "-1"], "i"), (["1", "01"], "U"), (["1", "x"], "U")],
)
def test_labels_are_whole_numbers_or_words(tmp_path, labels, kind):
    rows = [{**row, "ill": labels[i % len(labels)]} for i, row in enumerate(ROWS)]
    forest = ForestFolder.read(train(tmp_path, rows)).forest
    assert forest.classes_.dtype.kind == kind
    assert {str(label) for label in forest.classes_.tolist()} == set(labels)


def test_the_same_table_gives_the_same_bytes(tmp_path):
    one, other = (train(tmp_path, name=name) for name in ("one", "other"))
    assert contents(one) == contents(other)


@st.composite
def deletions(draw):
    rows = draw(st.integers(4, 20))
    numbers = st.one_of(st.integers(-5, 5).map(str), st.floats(-9, 9).map(repr))
    table = [
        {"patient": f"P-{i}", "a": draw(numbers), "b": draw(st.integers(0, 3).map(str)),
         "w": draw(st.sampled_from("xyz")), "ill": "ny"[i % 2]}
        for i in range(rows)
    ]  # fmt: skip
    gone = draw(st.lists(st.integers(2, rows - 1), min_size=1, max_size=rows - 3, unique=True))
    return table, gone


@given(deletions())
@settings(max_examples=rounds(25), deadline=None)
def test_after_a_deletion_the_folder_is_that_of_the_rows_left(drawn):
    table, gone = drawn
    left = [row for i, row in enumerate(table) if i not in gone]
    half = len(gone) // 2
    with tempfile.TemporaryDirectory() as name:
        folder = train(Path(name), table)
        before = ForestFolder.read(folder).columns.encoding
        for part in filter(None, (gone[:half], gone[half:])):
            delete_rows(folder, [f"P-{row}" for row in part], check=True)
        deleted = ForestFolder.read(folder)
        X = deleted.columns.encode(left)
        anew = DareForestClassifier(**SETTINGS.get_params()).fit(X, [row["ill"] for row in left])
        expected = read_forest_data(write(Path(name), left), "ill", "patient").columns
        text = (folder / "forest.json").read_text()
    same_trees(deleted.forest, anew)
    words = [isinstance(column, CategoryColumn) for column in before.columns]
    for now, then, fresh, is_words in zip(
        deleted.columns.encoding.columns, before.columns, expected.encoding.columns, words
    ):
        assert now == (then if is_words else fresh)
    assert list(deleted.columns.ids.values()) == list(expected.ids.values())
    assert not [row for row in gone if f'"P-{row}"' in text]


def test_rows_are_deleted_together_or_not_at_all(tmp_path, snapshot):
    folder = train(tmp_path)
    before = contents(folder)
    for rows in (
        ["P-3", "P-99"],
        ["P-3", "P-4", "P-3"],
        [f"P-{i}" for i in range(24)],
        [],
        ["3"],
    ):
        with pytest.raises(ForestError) as told:
            delete_rows(folder, rows)
        assert str(told.value) == snapshot
        assert contents(folder) == before
    done = delete_rows(folder, ["P-3", "P-20"], check=True)
    assert (done.rows, done.left, done.kept) == (("P-3", "P-20"), 22, None)
    assert done.retraining is not None
    with pytest.raises(ForestError) as told:
        delete_rows(folder, ["P-3"])
    assert str(told.value) == snapshot


def test_rows_without_names_keep_their_numbers(tmp_path):
    folder = train(tmp_path, without("patient"), identity=None)
    delete_rows(folder, ["3"])
    delete_rows(folder, ["4"])
    assert ForestFolder.read(folder).forest.rows_.tolist() == [0, 1, 2, *range(5, 24)]


def test_rows_to_delete_come_from_a_table(tmp_path, snapshot):
    folder = train(tmp_path)
    (tmp_path / "gone.csv").write_text("when,patient\ntoday,P-7\nnow,P-2\n")
    assert rows_of_table(tmp_path / "gone.csv", folder) == ("P-7", "P-2")
    (tmp_path / "gone.csv").write_text("row\nP-7\n")
    with pytest.raises(TrainingError) as told:
        rows_of_table(tmp_path / "gone.csv", folder)
    assert str(told.value) == snapshot


def test_what_cannot_be_written_leaves_the_folder_as_it_was(tmp_path, monkeypatch, snapshot):
    folder = train(tmp_path)
    before = contents(folder)

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DareForestClassifier, "save", fails)
    with pytest.raises(ForestError) as told:
        delete_rows(folder, ["P-3"])
    assert str(told.value) == snapshot
    assert contents(folder) == before
    assert sorted(each.name for each in folder.iterdir()) == sorted([*FILES, RECEIPTS, SALT])


def test_two_programs_do_not_change_a_folder_at_once(tmp_path, snapshot):
    folder = train(tmp_path)
    with open_for_change(ForestFolder, folder), pytest.raises(ForestError) as told:
        delete_rows(folder, ["P-3"])
    assert str(told.value) == snapshot
    assert delete_rows(folder, ["P-3"]).left == 23


def test_what_was_made_of_the_forest_before_is_removed(tmp_path):
    folder = train(tmp_path)
    (folder / "family.npz").write_bytes(b"all deletions")
    delete_rows(folder, ["P-3"])
    assert sorted(each.name for each in folder.iterdir()) == sorted([*FILES, RECEIPTS, SALT])


def test_what_a_killed_program_left_half_written_is_removed(tmp_path):
    folder = train(tmp_path)
    (folder / PARTIALS.replace("*", "abc")).write_bytes(b"a row")
    delete_rows(folder, ["P-3"])
    assert sorted(each.name for each in folder.iterdir()) == sorted([*FILES, RECEIPTS, SALT])


def test_a_specification_of_the_users_own_is_kept(tmp_path):
    folder = train(tmp_path)
    own = folder / "forest.spec"
    mine = own.read_text() + "# mine\n"
    own.write_text(mine)
    assert delete_rows(folder, ["P-3"]).kept == own
    assert own.read_text() == mine
    own.unlink()
    assert delete_rows(folder, ["P-4"]).kept is None
    assert own.exists()


def test_what_the_users_own_specification_says_of_the_rows_follows_them(tmp_path):
    rows = [*ROWS, {"patient": "Zeno", "age": "97", "dose": "0.5", "ward": "a", "ill": "no"}]
    folder = train(tmp_path, rows)
    own = folder / "forest.spec"
    generated, mine = own.read_text(), "# mine\nguarantee g: forall x in X: feature(x, 0) >= 0\n"
    own.write_text(generated.partition("find")[0] + mine)
    assert delete_rows(folder, ["Zeno"]).kept is None
    assert "97" not in own.read_text()
    assert own.read_text() == ForestFolder.read(folder).spec().partition("find")[0] + mine
    own.write_text("# 69 is written by hand\n")
    assert delete_rows(folder, ["P-7"]).kept == own


def test_no_name_but_those_asked_for_is_said(tmp_path):
    folder = train(tmp_path)
    for rows in (["P-99"], ["P-33", "P-1"], ["p-3"], ["3"]):
        with pytest.raises(ForestError) as raised:
            delete_rows(folder, rows)
        said = str(raised.value).replace("'patient'", "")
        assert not [row["patient"] for row in ROWS if repr(row["patient"]) in said]
        assert "mean" not in said


def test_rows_are_added_again(tmp_path):
    folder = train(tmp_path)
    whole = ForestFolder.read(folder).forest
    delete_rows(folder, ["P-3"])
    done = add_rows(folder, write(tmp_path, [ROWS[3]], "new.csv"))
    assert (done.rows, done.held) == (("P-3",), 24)
    added = ForestFolder.read(folder)
    assert added.columns.ids[24] == "P-3"
    points = whole.ensemble().X
    assert np.array_equal(added.forest.predict_proba(points), whole.predict_proba(points))
    assert first_difference(added.forest, added.forest.retrain()) is None


@pytest.mark.parametrize(
    "row",
    [
        {"patient": "P-4"},
        {"ward": "d"},
        {"age": "old"},
        {"dose": ""},
    ],
)
def test_rows_that_cannot_be_added(tmp_path, row, snapshot):
    folder = train(tmp_path)
    before = contents(folder)
    new = write(tmp_path, [{**ROWS[0], "patient": "P-77", **row}], "new.csv")
    with pytest.raises(LeaveoutError) as raised:
        add_rows(folder, new)
    assert str(raised.value) == snapshot
    assert contents(folder) == before


def test_numbered_labels_are_added_as_numbers(tmp_path, snapshot):
    folder = train(tmp_path, [{**row, "ill": str(i % 2)} for i, row in enumerate(ROWS)])
    with pytest.raises(ForestError) as told:
        add_rows(folder, write(tmp_path, [{**ROWS[0], "patient": "P-77"}], "new.csv"))
    assert str(told.value) == snapshot
    new = write(tmp_path, [{**ROWS[0], "patient": "P-77", "ill": "2"}], "new.csv")
    add_rows(folder, new)
    assert ForestFolder.read(folder).forest.classes_.tolist() == [0, 1, 2]


def test_the_specification_is_about_what_a_record_can_be(tmp_path):
    folder = train(tmp_path)
    delete_rows(folder, [row["patient"] for row in ROWS if row["ward"] == "b"])
    text = (folder / "forest.spec").read_text()
    assert parse(text).statements
    inputs = "".join(line for line in text.splitlines(True) if line.startswith(("let X", "#")))
    (folder / "inputs.spec").write_text(f"{inputs}guarantee g: forall x in X: feature(x, 0) >= 0\n")
    reading = read_spec(folder / "inputs.spec")
    columns = ForestFolder.read(folder).columns
    left = [row for row in ROWS if row["ward"] != "b"]
    reader = InputReader(reading.resolver(), len(columns.features))
    box = reader.read(reading.checked.lets["X"].value)
    assert reader.notes == []
    assert all(box.contains(x) for x in columns.encode(left))
    # A ward that no row has any more can be asked about; two at once, or half a year, cannot.
    assert box.contains(columns.encode([{**left[0], "ward": "b"}])[0])
    both = columns.encode(left)[0]
    both[2:] = 1
    assert not box.contains(both)
    assert not box.contains(columns.encode([{**left[0], "age": 40.5}])[0])


def test_arrays_are_used_as_they_are(tmp_path, snapshot):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.integers(0, 2, 30)
    np.savez(tmp_path / "d.npz", X_train=X, y_train=y, X_test=X[:8], y_test=1 - y[:8])
    report = train_forest(tmp_path / "d.npz", tmp_path / "f", forest=SETTINGS)
    folder = ForestFolder.read(tmp_path / "f")
    assert np.array_equal(folder.forest.ensemble().X, X)
    assert not report.held_out
    assert report.test_accuracy == np.mean(folder.forest.predict(X[:8]) != y[:8])
    assert delete_rows(tmp_path / "f", ["0", "29"]).left == 28
    with pytest.raises(TrainingError) as told:
        folder.columns.encode([{}])
    assert str(told.value) == snapshot
    with pytest.raises(ForestError) as told:
        add_rows(tmp_path / "f", write(tmp_path))
    assert str(told.value) == snapshot


def test_accuracy_is_that_of_a_forest_without_the_rows_it_is_tested_on(tmp_path):
    report = train_forest(
        write(tmp_path), tmp_path / "f", label="ill", identity="patient", forest=SETTINGS,
        test_share=0.25,
    )  # fmt: skip
    assert report.held_out
    assert report.tested == 6
    assert report.rows == 24 == len(ForestFolder.read(tmp_path / "f").forest.rows_)
    # Labels that are names of their rows are learnt by heart, and of no use for others.
    rows = [{"x": str(i), "ill": "ny"[i * 7919 % 13 % 2]} for i in range(200)]
    heart = train_forest(
        write(tmp_path, rows), tmp_path / "g", label="ill", test_share=0.5,
        forest=DareForestClassifier(5, max_depth=None, random_state=0),
    )  # fmt: skip
    forest = ForestFolder.read(tmp_path / "g").forest
    assert np.mean(forest.predict(forest.ensemble().X) == [row["ill"] for row in rows]) == 1
    assert heart.test_accuracy < 0.9


def test_no_forest_is_trained_over_another(tmp_path, snapshot):
    folder = train(tmp_path)
    with pytest.raises(ForestError) as told:
        train(tmp_path)
    assert str(told.value) == snapshot
    (folder / "forest.npz").rename(folder / "full.onnx")
    with pytest.raises(ForestError) as told:
        train(tmp_path)
    assert str(told.value) == snapshot
    with pytest.raises(ForestError) as told:
        train(tmp_path, name="t.csv")
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"format": "leaveout forest columns", "version": 2}',
        b'{"format": "leaveout forest columns", "version": 1, "columns": {}}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_columns_that_cannot_be_read(tmp_path, content, snapshot):
    folder = train(tmp_path)
    (folder / "forest.json").write_bytes(content)
    with pytest.raises(ForestError) as told:
        delete_rows(folder, ["P-3"])
    assert str(told.value) == snapshot


def test_columns_of_another_forest_are_refused(tmp_path, snapshot):
    one = train(tmp_path)
    two = train(tmp_path, without("ward"), name="two")
    (one / "forest.json").write_bytes((two / "forest.json").read_bytes())
    with pytest.raises(ForestError) as told:
        ForestFolder.read(one)
    assert str(told.value) == snapshot
    with pytest.raises(ForestError) as told:
        ForestFolder.read(tmp_path)
    assert str(told.value) == snapshot
