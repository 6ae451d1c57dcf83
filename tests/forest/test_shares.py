"""Each row is in its share of the trees; copies are told apart by rank."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from leaveout.models.forest import DareForestClassifier, ForestError, caches_sound, chance, trees_of

from support.depth import rounds
from support.forest_definition import defined, nested


def holders(forest):
    """In which trees each row is, by name."""
    names = forest.rows_
    return {
        int(name): {i for i, tree in enumerate(trees_of(forest)) if place in tree.rows}
        for place, name in enumerate(names)
    }


def test_a_row_is_in_its_share_of_the_trees_rounded_up():
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2
    for q, trees, many in ((0.1, 50, 5), (0.07, 100, 7), (0.1, 7, 1), (0.5, 7, 4), (1.0, 7, 7)):
        forest = DareForestClassifier(trees, q=q, random_state=0).fit(X, y)
        assert {len(held) for held in holders(forest).values()} == {many}


def test_rows_are_spread_over_the_trees_evenly():
    X, y = np.random.default_rng(0).normal(size=(4000, 2)), np.arange(4000) % 2
    forest = DareForestClassifier(20, q=0.3, max_depth=1, random_state=3).fit(X, y)
    sizes = np.array([len(tree.rows) for tree in trees_of(forest)])
    assert sizes.sum() == 6 * 4000
    # Variance of each is 4000 * 0.3 * 0.7; 19 degrees of freedom.
    assert np.sum((sizes - 1200.0) ** 2) / (4000 * 0.3 * 0.7 * 0.95) < 45


def test_a_row_keeps_its_trees_whoever_else_is_held():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    forest = DareForestClassifier(10, q=0.3, random_state=5).fit(X, y)
    before = holders(forest)
    after = holders(forest.unlearn(range(30)))
    assert after == {name: before[name] for name in range(30, 60)}


def test_of_copies_the_ranks_that_stay_are_the_first():
    X = np.array([[0.0], [1.0], [1.0], [2.0], [1.0], [1.0]] * 2)
    y = np.array([0, 1, 1, 0, 1, 0] * 2)
    for seed in range(rounds(20)):
        forest = DareForestClassifier(8, q=0.2, random_state=seed).fit(X, y)
        ranks = [holders(forest)[name] for name in (1, 2, 4, 7, 8, 10)]
        forest.delete([2, 7])
        held = holders(forest)
        assert [held[name] for name in (1, 4, 8, 10)] == ranks[:4]
        assert forest.add([[1.0], [1.0]], [1, 1]).tolist() == [12, 13]
        held = holders(forest)
        assert [held[name] for name in (1, 4, 8, 10, 12, 13)] == ranks
        assert forest.rows_.tolist() == [0, 1, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13]
        assert forest == forest.retrain()


def test_contents_whose_hashes_are_equal_are_no_copies(monkeypatch):
    monkeypatch.setattr(chance, "_content", lambda X, y, own, seed: np.zeros(len(X), np.uint64))
    rng = np.random.default_rng(2)
    X, y = rng.integers(0, 2, (40, 2)).astype(float), rng.integers(0, 2, 40)
    forest = DareForestClassifier(6, q=0.4, random_state=1).fit(X, y)
    for row in rng.permutation(40)[:20]:
        forest.delete(int(row))
        held = forest.ensemble()
        assert np.array_equal(held.X, X[held.names])
        assert np.array_equal(held.classes[held.y], y[held.names])
        assert forest == forest.retrain()


def test_a_tree_without_rows_gives_every_label_the_same_share():
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array(["a", "b", "b"])
    forest = DareForestClassifier(12, q=0.05, random_state=0).fit(X, y)
    sizes = [len(tree.rows) for tree in trees_of(forest)]
    assert sizes.count(0) >= 9
    for tree in trees_of(forest):
        if not len(tree.rows):
            assert tree.feature.tolist() == [-1]
            assert tree.probabilities.tolist() == [[0.5, 0.5]]
    shares_ = forest.predict_proba(X)
    assert np.allclose(shares_.sum(axis=1), 1.0)
    assert caches_sound(forest) is None
    assert forest.delete(1) == forest.retrain()
    added = forest.add([[1.0], [3.0]], ["b", "a"])
    assert forest.delete(added) == forest.retrain()


def test_labels_that_are_equal_choose_alike_whatever_their_type(tmp_path):
    X, codes = np.arange(30.0)[:, None], np.arange(30) % 2
    one = DareForestClassifier(9, q=0.3, random_state=4).fit(X, codes)
    for labels in (codes.astype(float), codes.astype(bool), codes.astype(np.uint8)):
        assert holders(DareForestClassifier(9, q=0.3, random_state=4).fit(X, labels)) == holders(
            one
        )
    words = np.array(["no", "yes"])[codes]
    other = DareForestClassifier(9, q=0.3, random_state=4).fit(X, words)
    assert holders(other) == holders(
        DareForestClassifier(9, q=0.3, random_state=4).fit(X, words.astype(object))
    )
    other.save(tmp_path / "forest.npz")
    assert DareForestClassifier.load(tmp_path / "forest.npz") == other


def test_files_of_shared_rows_are_read_and_checked(tmp_path):
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(90, 3)).round(1), rng.integers(0, 3, 90)
    forest = DareForestClassifier(5, q=0.4, random_state=2).fit(X, y)
    forest.delete([1, 2]).save(tmp_path / "forest.npz")
    again = DareForestClassifier.load(tmp_path / "forest.npz")
    assert again == forest
    assert again.q == 0.4
    assert again.delete(5) == forest.retrain(5)
    assert copy.deepcopy(forest) == forest


def test_a_row_in_a_tree_that_should_not_hold_it_is_named(snapshot):
    X, y = np.random.default_rng(3).normal(size=(50, 2)), np.arange(50) % 2
    forest = DareForestClassifier(4, q=0.5, random_state=1).fit(X, y)
    tree = forest.state_.trees[0]
    place = int(tree.where[tree.where >= 0][0])
    stranger = int(np.flatnonzero(tree.where < 0)[0])
    tree.where[tree.rows[place]] = -1
    tree.rows[place], tree.where[stranger] = stranger, place
    assert str(caches_sound(forest)) == snapshot


@pytest.mark.parametrize("q", [0, -0.1, 1.5, True, "half", None, float("nan")])
def test_shares_without_a_meaning_are_refused(q, snapshot):
    with pytest.raises(ForestError) as told:
        DareForestClassifier(2, q=q).fit([[0.0], [1.0]], [0, 1])
    assert str(told.value) == snapshot


def test_shared_trees_are_those_of_the_definition_with_copies_and_missing_values():
    rng = np.random.default_rng(9)
    X, y = rng.integers(0, 3, (80, 2)).astype(float), rng.integers(0, 4, 80)
    X[rng.random(X.shape) < 0.2] = np.nan
    for q in (0.1, 0.5, 0.9, 1.0):
        forest = DareForestClassifier(5, q=q, max_features=1, random_state=7).fit(X, y)
        assert [nested(tree) for tree in trees_of(forest)] == defined(forest, X, y)
