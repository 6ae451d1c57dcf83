"""Wrong statistics are found and named; differences are said with tree, path and statistic."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from leaveout.models.forest import DareForestClassifier, caches_sound, first_difference


@pytest.fixture
def forest():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)).round(1), rng.integers(0, 2, 400)
    return DareForestClassifier(2, random_state=1, d_rmax=1, max_depth=4).fit(X, y)


def test_a_sound_forest_is_sound_before_and_after(forest):
    assert caches_sound(forest) is None
    forest.delete([5, 6, 7])
    forest.add([[0.0, 0.1, 0.2]], [1])
    assert caches_sound(forest) is None


def test_every_cached_count_is_checked(forest):
    tree, labels, changed = forest.state_.trees[1], 2, 0
    for node in np.flatnonzero(tree.nodes["record"][: tree.used[0]] > 0):
        # One attribute a node: how many, which, how many thresholds; codes come before counts.
        record = int(tree.nodes["record"][node])
        for i in range(int(tree.arena[record + 2])):
            for word in range(2, 2 + 3 * labels):
                at = record + 3 + i * (2 + 3 * labels) + word
                tree.arena[at] += 1
                assert caches_sound(forest) is not None
                tree.arena[at] -= 1
                changed += 1
    assert changed > 100
    assert caches_sound(forest) is None


def test_a_wrong_count_is_named(forest, snapshot):
    tree = forest.state_.trees[1]
    record = tree.nodes["record"][tree.nodes["left"][0]]
    assert tree.arena[record + 2] > 0
    tree.arena[record + 5] += 1  # attributes, attribute, thresholds, two codes; then the counts
    found = caches_sound(forest)
    assert found is not None
    assert found == snapshot


def test_a_wrong_range_of_a_random_node_is_named(forest, snapshot):
    tree = forest.state_.trees[0]
    tree.arena[tree.nodes["record"][0]] += 1
    assert str(caches_sound(forest)) == snapshot


def test_a_wrong_count_of_a_leaf_is_named(forest, snapshot):
    tree = forest.state_.trees[0]
    leaf = int(np.flatnonzero(tree.nodes["feature"][: tree.used[0]] < 0)[0])
    tree.counts[leaf] += np.array([1, -1], np.int32)
    assert str(caches_sound(forest)) == snapshot


def test_a_row_in_the_wrong_leaf_is_named(forest, snapshot):
    tree = forest.state_.trees[0]
    tree.rows[[0, 399]] = tree.rows[[399, 0]]
    assert str(caches_sound(forest)) == snapshot


def test_differences_are_said_in_a_sentence(forest, snapshot):
    def after(change):
        other = copy.deepcopy(forest)
        change(other.state_)
        assert first_difference(forest, other) == first_difference(forest, other)
        return str(first_difference(forest, other))

    def threshold(state):
        state.trees[1].nodes["threshold"][state.trees[1].nodes["left"][0]] += 1e-9

    def counts(state):
        state.trees[0].counts[0, 0] += 1

    def cached(state):
        tree = state.trees[1]
        tree.arena[tree.nodes["record"][tree.nodes["left"][0]] + 5] += 1

    def listed(state):
        state.trees[0].rows[[0, 399]] = state.trees[0].rows[[399, 0]]

    assert after(threshold) == snapshot
    assert after(counts) == snapshot
    assert after(cached) == snapshot
    assert after(listed) == snapshot
    assert after(lambda state: state.forget([3])) == snapshot
    assert (
        after(lambda g: g._held.table.labels.__setitem__(0, 1 - g._held.table.labels[0]))
        == snapshot
    )
    assert first_difference(forest, copy.deepcopy(forest)) is None
    other = DareForestClassifier(3).fit([[0.0], [1.0]], [0, 1])
    assert first_difference(forest, other) == snapshot
