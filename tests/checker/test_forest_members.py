"""The kernel's forests without a row are, node for node, those that are trained without it."""

from __future__ import annotations

import numpy as np

from leaveout.kernel.forest_members import Inputs, cells_of_members, members

from support.depth import enough, rounds
from support.forest_scripts import random_data, random_forest
from support.kernel_forests import preorder, read, unlike


def leaf(forests, node, x):
    while forests.feature[node] >= 0:
        right = x[forests.feature[node]] > forests.threshold[node]
        node = int((forests.right if right else forests.left)[node])
    return node


def mean(forests, roots, x, remains=None):
    total = 0.0
    for root in roots.tolist():
        node = leaf(forests, root, x)
        empty = forests.empty[node] and remains is not None
        total = total + (remains if empty else forests.shares[node])
    return total / len(roots)


def inputs(rng, X, count=12):
    """Inputs at, between and beside the values of rows, none of them missing."""
    known = np.nan_to_num(X)
    picked = known[rng.integers(0, len(X), (count, X.shape[1])), np.arange(X.shape[1])]
    return picked + rng.choice([0.0, 0.0, 0.05, -0.05, 0.5], picked.shape)


def test_members_answer_as_forests_trained_without_the_row(tmp_path):
    changed = 0
    for seed in range(rounds(60)):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, (2, 3, 8, 40, 130))
        forest = random_forest(rng, X.shape[1], lazy=False).fit(X, y)
        forest.save(tmp_path / "forest.npz")
        (found,) = members(read(tmp_path / "forest.npz"))
        asked = inputs(rng, X)
        whole = np.array([mean(found, found.whole, x) for x in asked])
        assert (whole == forest.predict_proba(asked)).all(), seed
        for row in rng.choice(len(X), min(len(X), 12), replace=False):
            left = forest.retrain([int(row)])
            place = np.searchsorted(forest.classes_, left.classes_)
            for x, expected in zip(asked, left.predict_proba(asked), strict=True):
                got = mean(found, found.others[row], x, found.remains[row])
                assert (got[place] == expected).all(), (seed, row)
                assert got.sum() == got[place].sum()
            changed += (found.others[row] != found.whole).any()
    assert changed > enough(100)


def test_members_are_node_for_node_what_training_without_the_row_gives(tmp_path):
    changed = 0
    for seed in range(rounds(100)):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, (2, 3, 8, 40, 130))
        forest = random_forest(rng, X.shape[1], lazy=False).fit(X, y)
        forest.save(tmp_path / "forest.npz")
        rows = rng.choice(len(X), min(len(X), 25), replace=False)
        found, wrong = unlike(read(tmp_path / "forest.npz"), set(rows.tolist()))
        assert not wrong, seed
        changed += found
    assert changed > enough(800)


def test_the_trees_of_no_row_are_those_of_the_file(tmp_path):
    rng = np.random.default_rng(4)
    X, y = random_data(rng, (130,))
    random_forest(rng, X.shape[1], lazy=False).fit(X, y).save(tmp_path / "forest.npz")
    held = read(tmp_path / "forest.npz")
    (found,) = members(held)
    for root, tree in zip(found.whole, held.trees, strict=True):
        for got, part in zip(preorder(found, root), ("feature", "threshold", "left", "right")):
            assert np.array_equal(got, getattr(tree, part))


def test_every_input_is_in_one_cell_of_each_tree(tmp_path):
    seen = 0
    for seed in range(rounds(25)):
        rng = np.random.default_rng(seed)
        X, y = random_data(rng, (8, 40))
        random_forest(rng, X.shape[1], lazy=False).fit(X, y).save(tmp_path / "forest.npz")
        asked = inputs(rng, X, 30)
        low, high = asked.min(axis=0), asked.max(axis=0)
        if not np.isfinite(high - low).all() or (np.abs(asked) > 1e30).any():
            continue
        (found,) = members(read(tmp_path / "forest.npz"))
        listed = Inputs(low, high, ((np.arange(len(low)), asked),) if seed % 2 else ())
        for number, cells in enumerate(cells_of_members(found, listed)):
            inside = ((asked[:, None] > cells.low) & (asked[:, None] <= cells.high)).all(axis=2)
            for x, own in zip(asked, inside, strict=True):
                assert cells.tree[own].tolist() == list(range(len(found.whole)))
                roots = zip(found.whole, found.others[number], strict=True)
                expected = [(leaf(found, a, x), leaf(found, b, x)) for a, b in roots]
                got = zip(cells.one[own].tolist(), cells.other[own].tolist(), strict=True)
                assert list(got) == expected
                seen += any(a != b for a, b in expected)
    assert seen > enough(1000)
