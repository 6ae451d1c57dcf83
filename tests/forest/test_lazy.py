"""Lazy forests are those that are grown at once, whatever is asked of them in between."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

from leaveout.models.forest import DareForestClassifier, caches_sound, first_difference, trees
from leaveout.models.forest.tree_arrays import PENDING

from support.depth import rounds
from support.forest_scripts import new_rows, random_data, random_forest, some_rows


def fitted(rows=400, **more):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(rows, 4)).round(2), rng.integers(0, 2, rows)
    settings = {"random_state": 1, "lazy": True} | more
    return DareForestClassifier(4, **settings).fit(X, y)


def ungrown(forest):
    """How many rows the nodes that are pending or open hold, over all trees."""
    held, found = forest.state_.trees, 0
    for tree in held:
        nodes, stack = tree.nodes, [0]
        while stack:
            node = nodes[stack.pop()]
            if node["feature"] <= PENDING:
                found += int(node["span"])
            elif node["feature"] >= 0:
                stack += [int(node["left"]), int(node["right"])]
    return found


def test_a_deletion_leaves_nodes_ungrown_and_settling_grows_them():
    forest = fitted()
    assert ungrown(forest) == 0
    forest.delete(range(20))
    assert ungrown(forest) > 0
    assert trees.pending_trees(forest.state_.trees)
    forest.settle()
    assert not trees.pending_trees(forest.state_.trees)
    assert forest == forest.retrain()


def test_a_prediction_grows_only_what_it_comes_to():
    forest = fitted().delete(range(20))
    asked = np.zeros((1, 4))
    many, shares = ungrown(forest), forest.predict_proba(asked)
    assert 0 < ungrown(forest) < many
    assert np.array_equal(shares, forest.retrain().predict_proba(asked))
    before = [tree.used.tolist() for tree in forest.state_.trees]
    forest.predict_proba(asked)
    assert [tree.used.tolist() for tree in forest.state_.trees] == before


def test_lazy_and_eager_forests_are_the_same_after_each_step():
    for seed in range(rounds(60)):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, sizes=(8, 130, 300, 700))
        eager = random_forest(rng, X.shape[1], lazy=False).fit(X, y)
        lazy = copy.deepcopy(eager).set_params(lazy=True)
        for _ in range(6):
            if len(eager.rows_) < 3:
                break
            if rng.random() < 0.3:
                rows, labels = new_rows(rng, X, eager.classes_)
                eager.add(rows, labels)
                lazy.add(rows, labels)
            else:
                rows = some_rows(rng, eager, most=20)
                eager.delete(rows)
                lazy.delete(rows)
            asked = X[rng.integers(0, len(X), 2)]
            assert np.array_equal(lazy.predict_proba(asked), eager.predict_proba(asked)), seed
            if rng.random() < 0.2:
                lazy.set_params(lazy=not lazy.lazy)
        assert first_difference(lazy, eager) is None, seed
        assert first_difference(eager, eager.retrain()) is None, seed


def test_files_and_pickles_of_lazy_forests_are_those_of_eager_ones(tmp_path):
    lazy, eager = fitted().delete(range(9)), fitted(lazy=False).delete(range(9))
    copies = pickle.loads(pickle.dumps(lazy)), copy.deepcopy(lazy)
    lazy.save(tmp_path / "lazy.npz")
    eager.save(tmp_path / "eager.npz")
    assert (tmp_path / "lazy.npz").read_bytes() == (tmp_path / "eager.npz").read_bytes()
    assert copies == (eager, eager)
    assert copies[0].lazy


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("q", [1.0, 0.4])
def test_batches_are_deleted_as_single_rows_are(lazy, q):
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(900, 4)).round(1), rng.integers(0, 3, 900)
    X[rng.random(X.shape) < 0.05] = np.nan
    forest = DareForestClassifier(3, q=q, lazy=lazy, d_rmax=1, random_state=3, k=4).fit(X, y)
    for many in (60, 50, 40, 30):
        rows = rng.choice(forest.rows_, many, replace=False)
        single = copy.deepcopy(forest)
        for row in rows:
            single.delete(int(row))
        assert forest.delete(rows) == single == forest.retrain()
        assert caches_sound(forest) is None


def test_the_last_row_of_a_label_is_deleted_lazily():
    forest = fitted(rows=60)
    last = forest.add([[0.0] * 4], [7])
    assert forest.predict_proba([[0.0] * 4]).shape == (1, 3)
    forest.delete(last)
    assert ungrown(forest) == 4 * 60
    assert forest.predict_proba([[0.0] * 4]).shape == (1, 2)
    assert forest == forest.retrain()


def test_settling_in_the_background_lets_others_take_their_turns():
    forest, done = fitted(rows=600), threading.Event()
    asked = np.random.default_rng(1).normal(size=(3, 4))

    def settle():
        while not done.is_set():
            forest.settle()

    thread = threading.Thread(target=settle)
    thread.start()
    alone = copy.deepcopy(forest)
    for row in range(40):
        forest.delete(row)
        alone.delete(row)
        assert np.array_equal(forest.predict_proba(asked), alone.predict_proba(asked))
    done.set()
    thread.join()
    assert forest == alone == forest.retrain()


def test_an_interrupted_settling_loses_nothing(monkeypatch):
    forest, calls, settle = fitted().delete(range(30)), [0], trees.settle
    held = forest.state_._held

    def interrupted(*arguments, **more):
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        return settle(*arguments, **more)

    monkeypatch.setattr(trees, "settle", interrupted)
    with pytest.raises(KeyboardInterrupt):
        forest.settle()
    monkeypatch.undo()
    assert not forest.state_._is_broken
    assert forest.state_._held.table is held.table
    assert forest == forest.retrain()
