"""Specifications over forests: deletions, cached statistics, equal answers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from leaveout.errors import LeaveoutError
from leaveout.models.forest import DareForestClassifier, from_sklearn
from leaveout.verifier.run import verify


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (60, 3)) / 5
    y = ((X[:, 0] + X[:, 1] > 1) ^ (rng.random(60) < 0.1)).astype(int)
    forest = DareForestClassifier(3, k=3, d_rmax=1, max_depth=5, random_state=1).fit(X, y)
    forest.save(tmp_path / "forest.npz")
    forest.unlearn([4, 9]).save(tmp_path / "smaller.npz")
    (tmp_path / "deletions.csv").write_text("row\n3\n0 17 5\n59\n")
    return tmp_path


def result(folder, claim, **options):
    (folder / "a.spec").write_text(
        f'let T = forest("forest.npz") let U = forest("smaller.npz") guarantee g: {claim}'
    )
    (found,) = verify(folder / "a.spec", **options).results
    return found


DELETIONS = 'forall z in points("deletions.csv"): unlearn(T, z) == retrain(T, z)'


def test_what_is_unlearned_is_what_training_anew_gives(folder):
    assert result(folder, DELETIONS).verdict == "proved"
    assert result(folder, "caches_sound(T) and caches_sound(U)").verdict == "proved"


def test_a_forest_that_did_not_forget_is_refuted_with_the_place(folder, monkeypatch, snapshot):
    monkeypatch.setattr(DareForestClassifier, "delete", lambda self, rows, part=False: self)
    found = result(folder, DELETIONS)
    assert found.verdict == "refuted"
    assert "number 0" in found.example.words
    found = result(folder, "T == U")
    assert found.verdict == "refuted"
    assert found.example.words == snapshot


def test_rows_outside_the_box_of_a_claim_are_counted(folder):
    held = DareForestClassifier.load(folder / "forest.npz").ensemble().X
    for low, high in ((-1e6, 1e6), (0, 0.5)):
        claim = f"same_function(T, T, box({low}, {high}))"
        outside = 2 * int((~((held >= low) & (held <= high)).all(axis=1)).sum())
        note = f"{outside:,} of the {2 * len(held):,} rows of the two forests lie outside"
        (folder / "b.spec").write_text(f'let T = forest("forest.npz") guarantee g: {claim}')
        report = verify(folder / "b.spec")
        assert report.results[0].verdict == "proved"
        assert any(note in each for each in report.notes) is (outside > 0)


def test_equal_answers_in_a_box(folder):
    assert result(folder, "same_function(T, T, box(0, 1))").verdict == "proved"
    found = result(folder, "same_function(T, U, box(0, 1))")
    one, other = (
        DareForestClassifier.load(folder / name) for name in ("forest.npz", "smaller.npz")
    )
    grid = np.stack(np.meshgrid(*[np.arange(0, 1.001, 0.1)] * 3), axis=-1).reshape(-1, 3)
    differ = bool((one.predict(grid) != other.predict(grid)).any())
    assert found.verdict == ("refuted" if differ else "proved")
    if differ:
        x = np.array(eval(found.example.facts["x"]))
        labels = [str(each.predict(x[None])[0]) for each in (one, other)]
        assert labels == [found.example.facts["one"], found.example.facts["other"]]
        assert labels[0] != labels[1]


@pytest.mark.parametrize(
    "table",
    [
        "rows\n3\n",
        "row\n3,4\n",
        "row,row\n3,4\n",
        "row\n1_0\n",
        "row\n",
        "row\nx\n",
        "row\n-1\n",
        "row\n60\n",
        "row\n3 3\n",
    ],
)
def test_one_clear_error_for_deletions_that_cannot_be(folder, table, snapshot):
    (folder / "deletions.csv").write_text(table)
    with pytest.raises(LeaveoutError) as caught:
        result(folder, DELETIONS)
    assert str(caught.value).splitlines()[0] == snapshot


def test_one_clear_error_for_a_damaged_forest(folder):
    whole = (folder / "forest.npz").read_bytes()
    (folder / "forest.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LeaveoutError, match=r"forest\.npz"):
        result(folder, "caches_sound(T)")


def test_labels_that_floats_do_not_tell_apart_stay_apart(tmp_path):
    big = 2**53
    X = np.array([[0.0], [1.0], [0.2], [0.9]])
    for name, labels in (
        ("forest.npz", np.array([big, big + 1, big, big + 1], np.int64)),
        ("smaller.npz", np.array([big + 1, big, big + 1, big], np.uint64)),
    ):
        DareForestClassifier(1, k=3, random_state=0).fit(X, labels).save(tmp_path / name)
    assert result(tmp_path, "same_function(T, U, box(0, 1))").verdict == "refuted"


def test_a_forest_of_other_settings_than_it_was_trained_with_is_refuted(folder, monkeypatch):
    other = DareForestClassifier.load(folder / "smaller.npz")
    monkeypatch.setattr(DareForestClassifier, "retrain", lambda self, rows=(): other)
    assert result(folder, "caches_sound(T)").verdict == "refuted"


@pytest.mark.parametrize("make", [RandomForestClassifier, ExtraTreesClassifier])
def test_forests_of_scikit_learn_are_compared(tmp_path, make, snapshot):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.array(["no", "yes"])[(X.sum(axis=1) > 0).astype(int)]
    one, other = (make(3, max_depth=3, random_state=seed).fit(X, y) for seed in range(2))
    from_sklearn(one).save(tmp_path / "forest.npz")
    from_sklearn(other).save(tmp_path / "smaller.npz")
    assert result(tmp_path, "same_function(T, T, box(-1, 1))").verdict == "proved"
    assert result(tmp_path, "T == T").verdict == "proved"
    found = result(tmp_path, "T == U")
    assert found.verdict == "refuted"
    assert found.example.words == snapshot
    found = result(tmp_path, "same_function(T, U, box(-1, 1))")
    assert found.verdict == "refuted"
    x = np.array(eval(found.example.facts["x"]))
    labels = [each.predict(x[None])[0] for each in (one, other)]
    assert labels == [found.example.facts["one"], found.example.facts["other"]]


def test_an_exact_forest_is_compared_with_one_of_scikit_learn(tmp_path):
    X, y = np.array([[0.0], [0.25], [0.75], [1.0]]), np.array([0, 0, 1, 1])
    DareForestClassifier(2, k=3, random_state=0).fit(X, y).save(tmp_path / "forest.npz")
    from_sklearn(DecisionTreeClassifier().fit(X, y)).save(tmp_path / "smaller.npz")
    assert result(tmp_path, "same_function(T, U, box(0, 0.5))").verdict == "proved"
    found = result(tmp_path, "same_function(T, U, box(0.5, 1))")
    # Both split at 0.5, but what is next above it is 0.5 in float32.
    assert found.verdict == "refuted"
    assert 0.5 < float(found.example.facts["x"].strip("()")) <= 0.5 + 2.0**-25
    assert result(tmp_path, "same_function(T, U, box(0.5000001, 1))").verdict == "proved"
    assert result(tmp_path, "T == U").verdict == "refuted"
    assert result(tmp_path, "U == T").verdict == "refuted"


@pytest.mark.parametrize("claim", ["caches_sound(T)", DELETIONS])
def test_a_forest_of_scikit_learn_forgets_nothing(tmp_path, claim, snapshot):
    X, y = np.arange(8.0).reshape(4, 2), [0, 1, 0, 1]
    from_sklearn(RandomForestClassifier(2).fit(X, y)).save(tmp_path / "forest.npz")
    from_sklearn(RandomForestClassifier(2).fit(X, y)).save(tmp_path / "smaller.npz")
    (tmp_path / "deletions.csv").write_text("row\n3\n")
    with pytest.raises(LeaveoutError) as caught:
        result(tmp_path, claim)
    assert str(caught.value) == snapshot
    assert "RandomForestClassifier" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1 or str(caught.value).count("^")
