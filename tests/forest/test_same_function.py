"""Whether two forests answer alike in a box, against every combination of their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.bab.forests import compare_answers, leaves_within
from leaveout.models.forest import DareForestClassifier
from leaveout.solvers import Outcome, Status, find_solver

from support.forest_scripts import corners


def over(forest, classes, lower, upper):
    """Return the leaves of each tree of a forest in a box, over some labels."""
    ensemble = forest.ensemble()
    columns = np.searchsorted(classes, ensemble.classes)
    found = []
    for tree in ensemble.trees:
        shares = np.zeros((len(tree.feature), len(classes)))
        shares[:, columns] = tree.probabilities
        found.append(
            leaves_within(tree.feature, tree.threshold, tree.left, tree.right, shares, lower, upper)
        )
    return tuple(found)


@pytest.mark.parametrize("trees", [1, 2, 3])
def test_the_verdict_is_that_of_every_cell(trees):
    rng = np.random.default_rng(trees)
    verdicts = []
    for _ in range(25):
        X = rng.integers(0, 5, (20, 2)).astype(float)
        y = rng.integers(0, 3, 20)
        one = DareForestClassifier(trees, k=2, max_depth=3, random_state=0).fit(X, y)
        other = one.unlearned(rng.choice(20, rng.integers(0, 3), replace=False))
        lower, upper = np.full(2, 1.0), np.full(2, rng.choice([1.0, 1.5, 3.0, 5.0]))
        classes = np.union1d(one.classes_, other.classes_)
        found = compare_answers(
            over(one, classes, lower, upper),
            over(other, classes, lower, upper),
            lower,
            upper,
            find_solver("highs"),
        )
        cells = corners((one, other), lower, upper)
        alike = bool((one.predict(cells) == other.predict(cells)).all())
        verdicts.append(found.verdict)
        if found.verdict == "alike":
            assert alike
        elif found.verdict == "apart":
            assert not alike
            assert one.predict([found.x]) != other.predict([found.x])
            assert (lower <= found.x).all()
            assert (found.x <= upper).all()
        else:
            assert found.reason.startswith("numerical")
    assert verdicts.count("alike") > 3
    assert verdicts.count("apart") > 3
    assert verdicts.count("unknown") <= (0 if trees == 1 else 8)


def test_leaves_tile_the_box():
    rng = np.random.default_rng(0)
    X, y = rng.random((200, 3)), rng.integers(0, 2, 200)
    forest = DareForestClassifier(3, random_state=0).fit(X, y)
    lower, upper = np.full(3, 0.2), np.full(3, 0.7)
    inputs = rng.uniform(0.2, 0.7, (300, 3))
    total = np.zeros((300, 2))
    for tree in over(forest, np.arange(2), lower, upper):
        inside = ((tree.lower <= inputs[:, None]) & (inputs[:, None] <= tree.upper)).all(axis=2)
        assert (inside.sum(axis=1) == 1).all()
        total += tree.shares[inside.argmax(axis=1)]
    assert np.allclose(total / 3, forest.predict_proba(inputs))


def test_out_of_time_it_says_so():
    rng = np.random.default_rng(0)
    X, y = rng.random((100, 3)), rng.integers(0, 2, 100)
    one = DareForestClassifier(2, random_state=0).fit(X, y)
    sides = np.zeros(3), np.ones(3)
    leaves = [over(forest, np.arange(2), *sides) for forest in (one, one.unlearned([3]))]
    found = compare_answers(*leaves, *sides, find_solver("highs"), seconds=0)
    assert (found.verdict, found.reason[:4]) == ("unknown", "time")


def test_a_solver_that_calls_it_infeasible_proves_nothing():
    class Wrong:
        def solve(self, problem, settings=None):
            return Outcome(Status.INFEASIBLE, None, -np.inf)

    rng = np.random.default_rng(0)
    X, y = rng.random((100, 3)), rng.integers(0, 2, 100)
    one = DareForestClassifier(2, random_state=0).fit(X, y)
    sides = np.zeros(3), np.ones(3)
    leaves = [over(forest, np.arange(2), *sides) for forest in (one, one.unlearned([3]))]
    found = compare_answers(*leaves, *sides, Wrong())
    assert (found.verdict, found.reason[:6]) == ("unknown", "solver")
