"""A guard of a forest noises exactly where some row's deletion changes the label."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.forests.leaks import ForestLeakTest, nodes_of

from support.depth import enough, rounds
from support.forest_families import member_by_deleting
from support.guarded_forests import cells, forest_folder, random_forest

MOST = 400


@pytest.mark.parametrize("part", range(4))
def test_in_every_cell_of_hundreds_of_small_forests(part):
    seen = {"leak": 0, "clear": 0, "looked": 0}
    for seed in range(75 * part, 75 * part + rounds(75)):
        forest, rng = random_forest(seed)
        family = leave_one_out(forest.ensemble())
        members = [member_by_deleting(forest, row) for row in forest.rows_.tolist()]
        points = cells([family.whole, *members], forest.n_features_in_)
        points = points[rng.permutation(len(points))[:MOST]]
        labels = forest.predict_proba(points).argmax(axis=1)
        others = np.array([each.probabilities(points).argmax(axis=1) for each in members])
        leaks = (others != labels).any(axis=0)
        test = ForestLeakTest(family)
        for x, label, leak in zip(points, labels.tolist(), leaks.tolist()):
            found = test.find(x)
            assert (found.label, found.leak) == (label, leak), (seed, x)
            assert test.label(x) == label
            seen["leak" if leak else "clear" if found.tier == 1 else "looked"] += 1
    assert min(seen.values()) > enough(200), seen


def test_an_equal_label_is_no_leak_though_shares_tie():
    """Of exact ties the first label is the answer, of the forest and of each member."""
    ties = 0
    for seed in range(300, 340):
        forest, _ = random_forest(seed)
        family = leave_one_out(forest.ensemble())
        points = cells([family.whole], forest.n_features_in_)[:MOST]
        shares = [each.probabilities(points) for each in map(family.member, range(len(family)))]
        answers = np.array([each.argmax(axis=1) for each in shares])
        own = forest.predict_proba(points).argmax(axis=1)
        tied = np.array([(each == each.max(axis=1, keepdims=True)).sum(1) > 1 for each in shares])
        alike = (answers == own).all(axis=0) & tied.any(axis=0)
        ties += int(alike.sum())
        test = ForestLeakTest(family)
        assert not any(test.find(x).leak for x in points[alike])
    assert ties > 100


def test_more_work_is_rehearsed_than_any_input_is(wooded, grid):
    family = leave_one_out(wooded.forest.ensemble())
    test, nodes = ForestLeakTest(family), nodes_of(family.whole)
    at_node = np.diff(test._lookup.start)
    most = 0
    for t, tree in enumerate(family.whole.trees):
        on_path = at_node[nodes.first[t] : nodes.first[t + 1]].copy()
        for node in np.flatnonzero(tree.feature >= 0):
            on_path[[tree.left[node], tree.right[node]]] += on_path[node]
        leaves = np.flatnonzero(tree.feature < 0)
        busiest = test._lookup.busiest[t] - nodes.first[t]
        assert busiest in leaves and on_path[busiest] == on_path[leaves].max()
        most += on_path[busiest]
    assert most > len(family)
    # Whatever was rehearsed leaves no trace.
    before = [test.find(x) for x in grid.astype(float)]
    for x in grid[:20].astype(float):
        test.ask_all(x)
    assert [test.find(x) for x in grid.astype(float)] == before


def test_right_up_to_the_last_float(tmp_path):
    """On both sides of every threshold, and on it."""
    served = forest_folder(tmp_path, seed=9, trees=4)
    cuts = [
        np.concatenate([tree.threshold[tree.feature == at] for tree in served.members[0].trees])
        for at in range(2)
    ]
    rng = np.random.default_rng(0)
    points = np.stack([rng.choice(cut, 400) for cut in cuts], axis=1)
    steps = rng.integers(-1, 2, points.shape)
    points = np.where(steps, np.nextafter(points, 9.0 * steps), points)
    labels, leaks = served.truth(points)
    with Guard.load(tmp_path, 0.2) as guard:
        found = guard.inspect(points)
    assert (found.labels == labels).all() and (found.leaks == leaks).all()
    assert 20 < leaks.sum() < 380
