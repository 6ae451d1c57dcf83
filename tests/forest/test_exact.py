"""After any script of deletions and additions a forest is the one trained on what is left."""

from __future__ import annotations

import copy
import io

import numpy as np
import pytest

from leaveout.models.forest import DareForestClassifier, caches_sound, first_difference, trees_of

from support.depth import rounds
from support.forest_scripts import new_rows, random_data, random_forest, some_rows

SCRIPTS = rounds(1000)


def run(rng, forest, X, folder):
    """Delete, add, save and load at random; fewer rows each time."""
    labels = np.unique(forest.classes_)
    for _ in range(int(rng.integers(1, 8))):
        turn = rng.random()
        if turn < 0.25:
            forest.add(*new_rows(rng, X, labels))
        elif turn < 0.35 and len(forest.rows_) > 3:
            forest.delete(forest.rows_[rng.random(len(forest.rows_)) < 0.4][:-1])
        elif len(forest.rows_) > 1:
            forest.delete(some_rows(rng, forest))
        if rng.random() < 0.1:
            forest.save(folder / "forest.npz")
            lazy = forest.lazy
            forest = DareForestClassifier.load(folder / "forest.npz").set_params(lazy=lazy)
        elif rng.random() < 0.1:
            forest = copy.deepcopy(forest)
        elif rng.random() < 0.1:
            forest.deletion_cost(int(rng.choice(forest.rows_)))
        elif rng.random() < 0.5:
            forest.predict(X[rng.integers(0, len(X), int(rng.integers(1, 4)))])
        elif rng.random() < 0.1:
            forest.settle()
    return forest


@pytest.mark.parametrize("block", range(10))
def test_random_scripts_end_at_the_forest_trained_on_what_is_left(block, tmp_path):
    for seed in range(block * SCRIPTS // 10, (block + 1) * SCRIPTS // 10):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng)
        forest = run(rng, random_forest(rng, X.shape[1]).fit(X, y), X, tmp_path)
        anew = forest.retrain()
        one = X[:1]
        assert np.array_equal(forest.predict_proba(one), anew.predict_proba(one)), f"script {seed}"
        found = first_difference(forest, anew)
        assert found is None, f"script {seed}: {found}"
        if seed % 10 == 0:
            assert caches_sound(forest) is None


def test_deletion_down_to_one_row_and_one_label():
    for seed in range(rounds(20)):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, sizes=(30, 90))
        forest = random_forest(rng, X.shape[1]).fit(X, y)
        for row in rng.permutation(len(X))[:-1]:
            forest.delete(int(row))
        assert forest == forest.retrain()
        assert len(forest.rows_) == len(forest.classes_) == 1


def test_a_batch_is_as_good_as_one_by_one_in_any_order():
    for seed in range(rounds(60)):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, sizes=(40, 130, 300))
        whole = random_forest(rng, X.shape[1]).fit(X, y)
        rows = some_rows(rng, whole, most=30)
        single, reverse = copy.deepcopy(whole), copy.deepcopy(whole)
        for row in rows:
            single.delete(int(row))
        for row in rows[::-1]:
            reverse.delete([row])
        assert whole.delete(rows) == single == reverse


def test_what_is_added_and_deleted_again_leaves_no_trace(tmp_path):
    for seed in range(rounds(40)):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, sizes=(8, 130, 300))
        forest = random_forest(rng, X.shape[1]).fit(X, y)
        before = copy.deepcopy(forest)
        names = forest.add(*new_rows(rng, X, np.unique(y)))
        assert first_difference(forest, before) is not None
        assert first_difference(forest.delete(names), before) is None


def test_the_order_of_the_rows_does_not_matter():
    for seed in range(rounds(30)):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, sizes=(40, 300))
        forest, shuffle = random_forest(rng, X.shape[1]), rng.permutation(len(X))
        one = trees_of(forest.fit(X, y))
        for tree, other in zip(one, trees_of(forest.fit(X[shuffle], y[shuffle]))):
            for part in ("feature", "threshold", "counts", "cached_values", "cached_counts"):
                assert np.array_equal(getattr(tree, part), getattr(other, part))


def test_files_of_unlearned_and_retrained_forests_are_the_same_bytes(tmp_path):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 5)).round(1), rng.integers(0, 2, 300)
    forest = DareForestClassifier(3, random_state=1).fit(X, y)
    rows = rng.choice(300, 12, replace=False)
    forest.unlearn(rows).save(tmp_path / "unlearned.npz")
    forest.retrain(rows).save(tmp_path / "retrained.npz")
    assert (tmp_path / "unlearned.npz").read_bytes() == (tmp_path / "retrained.npz").read_bytes()


def test_the_three_rows_on_which_the_published_program_is_not_exact():
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1])
    for seed in range(rounds(50)):
        forest = DareForestClassifier(1, k=1, random_state=seed).fit(X, y)
        unlearned, retrained = forest.unlearn(1), forest.retrain(1)
        assert unlearned == retrained
        assert unlearned.predict_proba([[0.5]]).tolist() == [[1.0, 0.0]]
        assert trees_of(unlearned)[0].threshold[0] == 1.0


def test_thresholds_after_a_deletion_are_distributed_as_in_retraining():
    X, y = np.arange(4.0)[:, None], np.array([0, 0, 1, 0])
    between = []
    for seed in range(600):
        forest = DareForestClassifier(1, k=1, max_depth=1, random_state=seed).fit(X, y)
        unlearned = forest.unlearn(1)
        assert first_difference(unlearned, forest.retrain(1)) is None
        between.append(trees_of(unlearned)[0].threshold[0])
    assert set(between) == {1.0, 2.5}
    # One half, within five standard deviations; refilling invalid thresholds only gives 1/4.
    assert abs(between.count(1.0) - 300) < 5 * np.sqrt(600 / 4)


def test_thresholds_do_not_depend_on_deleted_values():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    outliers = np.array([[1e9, -1e9, 0.5], [-1e9, 1e9, 0.5001], [1e-9, 0.0, -0.0]])
    rows, labels = np.concatenate((X, outliers)), np.concatenate((y, [0, 1, 1]))
    for d_rmax in (0, 3):
        forest = DareForestClassifier(3, d_rmax=d_rmax, random_state=7)
        never = trees_of(forest.fit(X, y))
        gone = trees_of(forest.fit(rows, labels).delete([200, 201, 202]))
        for a, b in zip(never, gone):
            assert np.array_equal(a.threshold, b.threshold)
            assert np.array_equal(a.cached_values, b.cached_values)


def test_random_thresholds_are_uniform_between_the_least_and_the_greatest_value():
    X, y = np.array([[-0.3], [1.7], [0.2]]), np.array([0, 1, 0])
    drawn = [
        trees_of(DareForestClassifier(1, d_rmax=1, random_state=seed).fit(X, y))[0].threshold[0]
        for seed in range(800)
    ]
    counts = np.histogram(drawn, bins=8, range=(-0.3, 1.7))[0]
    assert counts.sum() == 800
    assert np.sum((counts - 100.0) ** 2 / 100.0) < 30.0  # chi squared, 7 degrees of freedom


def test_deleting_an_extreme_seldom_moves_a_random_threshold():
    moved = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(100, 1)), rng.integers(0, 2, 100)
        forest = DareForestClassifier(1, d_rmax=1, max_depth=1, random_state=seed).fit(X, y)
        before = trees_of(forest)[0].threshold[0]
        forest.delete(int(X[:, 0].argmax()))
        moved += trees_of(forest)[0].threshold[0] != before
    assert moved < 40


def test_nothing_of_a_deleted_row_is_left_in_a_pickle_or_a_file(tmp_path):
    import pickle

    X, y = np.arange(60.0)[:, None] + 0.123456, np.arange(60) % 2
    forest = DareForestClassifier(2, random_state=0).fit(X, y)
    gone = X[17, 0].tobytes()
    assert gone in pickle.dumps(forest)
    forest.delete(17)
    assert gone not in pickle.dumps(forest)
    stream = io.BytesIO()
    np.save(stream, forest.ensemble().X)
    assert gone not in stream.getvalue()
