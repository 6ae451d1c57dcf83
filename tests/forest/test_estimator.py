"""The classifier behaves as scikit-learn's do, and says clearly what it refuses."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from leaveout.errors import LeaveoutError
from leaveout.models.forest import DareForestClassifier, ForestError, first_difference, trees_of

from support.forest_scripts import random_data, random_forest


@pytest.fixture
def forest():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 4)), rng.integers(0, 3, 120)
    return DareForestClassifier(3, random_state=5).fit(X, np.array(["a", "b", "c"])[y])


@parametrize_with_checks([DareForestClassifier(5), DareForestClassifier(5, d_rmax=2, k=3)])
def test_scikit_learn_finds_nothing_to_complain_of(estimator, check):
    check(estimator)


def test_weights_are_refused_with_a_reason(forest, snapshot):
    with pytest.raises(ForestError) as told:
        forest.fit([[0.0], [1.0]], [0, 1], sample_weight=[1.0, 2.0])
    assert str(told.value) == snapshot


def test_weights_of_classes_are_refused_with_the_same_reason(forest, snapshot):
    for refused in (
        lambda: forest.set_params(class_weight=None),
        lambda: forest.fit([[0.0], [1.0]], [0, 1], class_weight={0: 2}),
    ):
        with pytest.raises(ForestError) as told:
            refused()
        assert str(told.value) == snapshot
    with pytest.raises(TypeError) as told:
        DareForestClassifier(trees=3)
    assert str(told.value) == snapshot
    with pytest.raises(ValueError) as told:
        forest.set_params(trees=3)
    assert str(told.value) == snapshot


def test_parameters_set_after_fitting_are_those_of_the_next_fit(forest, tmp_path):
    before, X = copy.deepcopy(forest), forest.ensemble().X
    y = forest.classes_[forest.ensemble().y]
    forest.set_params(
        n_estimators=7, max_depth=2, k=1, d_rmax=3, max_features=1, criterion="entropy",
        min_samples_split=9, random_state=8, q=0.5,
    )  # fmt: skip
    assert "n_estimators=7" in repr(forest)
    assert first_difference(forest, before) is None
    assert np.array_equal(forest.predict_proba(X), before.predict_proba(X))
    assert forest.unlearn(3) == before.unlearn(3)
    assert forest.retrain(3) == before.retrain(3)
    assert forest.unlearn(3).n_estimators == 7
    assert pickle.loads(pickle.dumps(forest)) == before
    forest.save(tmp_path / "forest.npz")
    assert DareForestClassifier.load(tmp_path / "forest.npz").n_estimators == 3
    assert forest.delete(5) == before.delete(5)
    assert forest.add(X[:1], y[:1]) == before.add(X[:1], y[:1])
    assert forest == before
    again = clone(forest).fit(X, y)
    assert forest.fit(X, y) == again
    assert len(trees_of(forest)) == 7


def test_threads_and_laziness_take_effect_at_once(forest):
    forest.set_params(n_jobs=2, lazy=True).delete(3)
    assert (forest.state_.jobs, forest.state_.lazy) == (2, True)
    assert forest.set_params(lazy=False) == forest.retrain()


def test_negative_numbers_of_threads_leave_cores_free(monkeypatch):
    from leaveout.models.forest import classifier

    monkeypatch.setattr(classifier, "cores", lambda: 8)
    for jobs, many in ((None, 1), (3, 3), (-1, 8), (-2, 7), (-8, 1), (-20, 1)):
        assert classifier.threads(jobs) == many


def test_missing_values_are_below_all_others(tmp_path):
    X = np.array([[np.nan], [np.nan], [-5.0], [7.0]])
    for d_rmax in (0, 2):
        forest = DareForestClassifier(3, d_rmax=d_rmax, random_state=1).fit(X, [0, 0, 1, 1])
        assert forest.predict([[np.nan], [-1e300], [1e300]]).tolist() == [0, 1, 1]
        assert {float(tree.threshold[0]) for tree in trees_of(forest)} == {-np.inf}
        assert np.array_equal(forest.ensemble().X, X, equal_nan=True)
        forest.save(tmp_path / "forest.npz")
        assert DareForestClassifier.load(tmp_path / "forest.npz") == forest
        assert forest.delete(1) == forest.retrain()
        assert forest.add([[np.nan], [3.0]], [1, 0]).tolist() == [4, 5]
        assert forest == forest.retrain()
        assert np.isnan(forest.ensemble().X[:, 0]).tolist() == [True, False, False, True, False]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinities_are_refused_everywhere(forest, value):
    row = [[value, 0.0, 0.0, 0.0]]
    for refused in (
        lambda: forest.predict(np.array(row)),
        lambda: forest.add(row, ["a"]),
        lambda: DareForestClassifier(2).fit(np.array([*row, [0.0] * 4]), [0, 1]),
    ):
        with pytest.raises(ValueError, match="infinity"):
            refused()


@pytest.mark.parametrize(
    "rows",
    [
        [3, 120],
        [3, -1],
        [4, 7],
        [4, 4],
        [4.5],
        list(range(7)) + list(range(8, 120)),
    ],
)
def test_a_refused_deletion_changes_nothing(forest, rows, snapshot):
    forest.delete(7)
    before = copy.deepcopy(forest)
    with pytest.raises(ForestError) as told:
        forest.delete(rows)
    assert str(told.value) == snapshot
    assert forest == before


def test_errors_are_of_the_one_family():
    assert issubclass(ForestError, LeaveoutError)
    assert issubclass(ForestError, ValueError)


@pytest.mark.parametrize("change", ["delete", "add"])
def test_an_interrupted_change_leaves_the_forest_as_it_was(forest, monkeypatch, change):
    from leaveout.models.forest import trees

    before = copy.deepcopy(forest)
    name = {"delete": "forget", "add": "learn"}[change]
    work = getattr(trees, name)
    rows = forest.ensemble().X[:2]

    def interrupted(*arguments, lazy):
        # All trees but the last are changed already.
        if change == "delete":
            *others, end = arguments
            work(*others, end - 1, lazy=lazy)
        elif arguments[-1] < 2:
            work(*arguments, lazy=lazy)
            return
        raise KeyboardInterrupt

    monkeypatch.setattr(trees, name, interrupted)
    with pytest.raises(KeyboardInterrupt):
        if change == "delete":
            forest.delete([1, 2, 3])
        else:
            forest.add(rows, forest.classes_[:2])
    monkeypatch.undo()
    assert first_difference(forest, before) is None
    # The next row is called what it would have been.
    assert forest.add(rows, forest.classes_[:2])[0] == len(forest.ensemble().X) - 2


def test_names_never_shift_and_are_never_used_again(forest, snapshot):
    forest.delete([0, 119])
    assert forest.add(np.zeros((2, 4)), ["a", "b"]).tolist() == [120, 121]
    forest.delete(121)
    assert forest.add(np.ones((1, 4)), ["c"]).tolist() == [122]
    assert forest.rows_.tolist() == [*range(1, 119), 120, 122]
    assert first_difference(forest, forest.retrain()) is None
    with pytest.raises(ForestError) as told:
        forest.delete(121)
    assert str(told.value) == snapshot


def test_labels_come_and_go_with_their_rows():
    X, y = np.arange(6.0)[:, None], np.array(["x", "x", "y", "y", "z", "z"])
    forest = DareForestClassifier(2, random_state=0).fit(X, y)
    assert forest.delete([4, 5]).classes_.tolist() == ["x", "y"]
    assert forest.predict_proba([[9.0]]).shape == (1, 2)
    forest.add([[7.0]], ["a label that is longer"])
    assert forest.classes_.tolist() == ["a label that is longer", "x", "y"]
    assert forest == forest.retrain()
    forest.delete(6)
    assert forest.ensemble().classes.dtype == y.dtype


@pytest.mark.parametrize(
    "settings",
    [
        {"n_estimators": 0}, {"max_depth": 0}, {"k": 0}, {"k": True}, {"d_rmax": -1},
        {"max_features": 0}, {"max_features": 1.5}, {"max_features": "all"}, {"criterion": "mse"},
        {"min_samples_split": 1}, {"random_state": -1}, {"n_jobs": 0},
    ],
)  # fmt: skip
def test_settings_without_a_meaning_are_refused(settings):
    with pytest.raises(ForestError, match=next(iter(settings))):
        DareForestClassifier(**settings).fit([[0.0], [1.0]], [0, 1])


def test_values_whose_differences_overflow_are_refused(snapshot):
    with pytest.raises(ForestError) as told:
        DareForestClassifier(1).fit([[-1.7e308], [1.7e308]], [0, 1])
    assert str(told.value) == snapshot


def test_threads_do_not_change_the_forest():
    rng = np.random.default_rng(8)
    X, y = random_data(rng, sizes=(300,))
    one = random_forest(rng, X.shape[1], n_estimators=5)
    two = clone(one).set_params(n_jobs=2)
    assert one.fit(X, y) == two.fit(X, y)
    assert one.delete(range(10)) == two.delete(range(10))


def test_a_pickle_is_the_same_forest(forest):
    forest.delete(range(5))
    again = pickle.loads(pickle.dumps(forest))
    assert again == forest
    assert again.delete(9) == forest.delete(9)


def test_forests_of_different_seeds_differ(forest):
    other = clone(forest).set_params(random_state=6)
    held = forest.ensemble()
    assert other.fit(held.X, held.classes[held.y]) != forest
    assert clone(forest) != forest


def test_predictions_are_as_good_as_a_random_forests():
    X, y = make_classification(1500, 12, n_informative=6, random_state=1)
    ours = DareForestClassifier(40, random_state=1).fit(X[:1000], y[:1000])
    theirs = RandomForestClassifier(40, random_state=1).fit(X[:1000], y[:1000])
    assert ours.score(X[1000:], y[1000:]) > theirs.score(X[1000:], y[1000:]) - 0.03


def test_probabilities_are_the_means_of_the_leaves(forest):
    X = np.random.default_rng(1).normal(size=(20, 4))
    means = []
    for x in X:
        shares = []
        for tree in trees_of(forest):
            node = 0
            while tree.feature[node] >= 0:
                side = tree.left if x[tree.feature[node]] <= tree.threshold[node] else tree.right
                node = side[node]
            shares.append(tree.probabilities[node])
        means.append(np.mean(shares, axis=0))
    assert np.allclose(forest.predict_proba(X), means, rtol=0, atol=1e-15)


def test_the_cost_of_a_deletion_is_what_is_regrown_and_changes_nothing():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(200, 3)).round(1), rng.integers(0, 2, 200)
    forest = DareForestClassifier(1, random_state=2).fit(X, y)
    before, costs = copy.deepcopy(forest), [forest.deletion_cost(row) for row in range(200)]
    assert first_difference(forest, before) is None
    assert 0 in costs
    assert max(costs) > 20
    for row in (int(np.argmin(costs)), int(np.argmax(costs))):
        a, b = trees_of(before)[0], trees_of(forest.unlearn(row))[0]
        same = len(a.feature) == len(b.feature) and np.array_equal(a.feature, b.feature)
        assert same == (costs[row] == 0)
