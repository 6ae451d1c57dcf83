"""Data frames and NPZ files for a guard: answered as the same rows of a CSV are."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.errors import GuardError
from leaveout.models import load_family, load_network
from leaveout.verifier.cli.app import run
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.classifier import GuardedClassifier

from support.clinic import write_clinic
from support.guards import make_folder

ROWS = [(30, "a"), (40.5, "b"), (95, "c"), (20, "c")]
X = np.array([[1 / 6, 1, 0, 0], [20.5 / 60, 0, 1, 0], [1.25, 0, 0, 1], [0, 0, 0, 1]], np.float32)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """Return a folder with a family of a table, and bounds of the whole box."""
    folder = tmp_path_factory.mktemp("served")
    write_clinic(folder)
    network = load_network(folder / "full.onnx")
    family = load_family(folder / "family.npz", network)
    make_folder(folder, network.model, family=family, seconds=2.0)
    return folder


@pytest.fixture
def guard(served, tmp_path):
    with Guard.load(served, 0.2, memory=tmp_path / "m.sqlite", seed=1) as opened:
        yield opened


def frame(rows=ROWS, **columns):
    pandas = pytest.importorskip("pandas")
    made = pandas.DataFrame(rows, columns=["age", "ward"]).assign(note="x")
    return made.assign(**columns)


def test_a_data_frame_is_answered_as_its_rows_are(guard):
    assert np.array_equal(guard.encode(frame()), X)
    answers = guard.answers(frame())
    assert answers[2] == -1
    assert np.array_equal(answers, guard.answers(X))
    inside = frame().drop(index=2)
    assert np.array_equal(guard.labels(inside), answers[[0, 1, 3]])
    seen, known = guard.inspect(frame()), guard.inspect(X)
    assert np.array_equal(seen.tiers, known.tiers) and seen.outside == known.outside


def test_the_owner_is_told_where_a_row_leaves_the_box_in_its_own_units(guard, snapshot):
    outside = guard.inspect(X).outside
    assert [*map(bool, outside)] == [False, False, True, False]
    assert "age = 95 years" in outside[2] and "80 years" in outside[2]
    assert outside[2] == snapshot
    with pytest.raises(GuardError) as caught:
        guard.labels(frame())
    # Who asks is told no range of the training data.
    assert "80" not in str(caught.value)


def test_frames_that_do_not_fit_are_refused_by_row_and_column(guard, snapshot):
    for made in (
        frame(age=[1, None, 3, 4]),
        frame(ward=["a", "b", "z", "c"]),
        frame().drop(columns="age"),
        frame().rename(columns={"note": "age"}),
        frame(age=[[1]] * 4),
    ):
        with pytest.raises(GuardError) as caught:
            guard.answers(made)
        assert str(caught.value) == snapshot
        assert "\n" not in str(caught.value)


def ask(served, rows, capsys, *options):
    memory = rows.parent / "answers.sqlite"
    words = ["guard", str(served), str(rows), "--epsilon", "0.2", "--memory", str(memory)]
    code = run([*words, *options])
    return code, *capsys.readouterr()


def test_an_npz_is_answered_as_the_csv_is(served, tmp_path, capsys, snapshot):
    lines = ["age,ward", *(f"{age},{ward}" for age, ward in ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    np.savez(tmp_path / "rows.npz", X=X)
    first = ask(served, tmp_path / "rows.csv", capsys)
    second = ask(served, tmp_path / "rows.npz", capsys)
    assert first[:2] == second[:2]
    assert first[0] == 3
    assert first[2] == snapshot
    assert second[2] == snapshot


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"Z": X}, "has neither an array 'X_test' nor 'X'"),
        ({"X": X[:, :3]}, "a point has 3 features"),
        ({"X": np.full((2, 4), np.nan)}, "row 0 contains a value that is not a finite float32"),
    ],
)
def test_an_npz_that_does_not_fit_is_refused_in_a_line(served, tmp_path, capsys, arrays, said):
    np.savez(tmp_path / "rows.npz", **arrays)
    code, _, err = ask(served, tmp_path / "rows.npz", capsys, "-o", str(tmp_path / "out.csv"))
    assert code == 2

    assert said in err and err.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


def test_a_row_of_a_data_frame_is_answered_as_the_frame_is(guard):
    made = frame().drop(index=2)
    assert [guard.label(made.iloc[at]) for at in range(3)] == guard.labels(made).tolist()
    assert guard.label(made.iloc[0].loc[["ward", "age"]]) == guard.label(X[0])
    with pytest.raises(GuardError, match="'age' is missing"):
        guard.label(made.iloc[0].drop("age"))


def test_a_guarded_classifier_predicts_the_names_of_what_the_guard_answers(guard):
    base = pytest.importorskip("sklearn.base")
    classifier = GuardedClassifier(guard)
    assert classifier.classes_.tolist() == ["no", "yes"]
    inside = frame().drop(index=2)
    names = np.array(["no", "yes"])[guard.labels(inside)]
    assert np.array_equal(classifier.predict(inside), names)
    assert classifier.fit(inside, names).score(inside, names) == 1
    assert base.clone(classifier).guard is guard
    with pytest.raises(GuardError):
        classifier.predict(frame())
