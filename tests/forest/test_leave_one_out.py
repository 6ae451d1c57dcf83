"""The leave-one-out family of a forest against really deleting every row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.errors import ForestError
from leaveout.models.forest import DareForestClassifier
from leaveout.models.forest.leave_one_out import leave_one_out

from support.depth import rounds
from support.forest_families import family_by_deleting, member_by_deleting


@settings(max_examples=rounds(60), deadline=None)
@given(
    st.integers(0, 2**32), st.integers(2, 40), st.integers(2, 4), st.integers(0, 2),
    st.sampled_from((0.2, 0.5, 1.0)),
)  # fmt: skip
def test_every_member_is_the_forest_without_its_row(
    seed: int, rows: int, labels: int, random: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    # Few values, so that some rows are copies of others.
    X = rng.integers(0, rng.integers(2, 8), (rows, 4)).astype(float)
    X[:, 0] = rng.integers(0, 2, rows)
    X[:, 1:3] = X[:, 1:3].clip(0, 1) if seed % 3 else X[:, 1:3]
    X[rng.random(X.shape) < 0.1 * (seed % 2)] = np.nan
    forest = DareForestClassifier(
        4, max_depth=[None, 2, 6][seed % 3], k=int(rng.integers(1, 6)), d_rmax=random,
        criterion=["gini", "entropy"][seed % 2], random_state=seed % 1000, q=share,
    ).fit(X, rng.integers(0, labels, rows))  # fmt: skip
    family = leave_one_out(forest.ensemble(), threads=2)
    assert family.removed.tolist() == forest.rows_.tolist()
    inputs = np.concatenate((X, rng.integers(0, 32, (200, 4)) / 4))
    assert np.array_equal(family.whole.probabilities(inputs), forest.predict_proba(inputs))
    for member, row in enumerate(family.removed.tolist()):
        expected = member_by_deleting(forest, row).probabilities(inputs)
        assert np.array_equal(family.member(member).probabilities(inputs), expected)


def test_trees_that_answer_alike_are_not_listed() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 6, (60, 4)).astype(float), rng.integers(0, 3, 60)
    forest = DareForestClassifier(6, max_depth=5, random_state=1).fit(X, y)
    slow, fast = family_by_deleting(forest).changes, leave_one_out(forest.ensemble()).changes
    assert np.array_equal(fast.start, slow.start)
    assert np.array_equal(fast.tree, slow.tree)
    assert len(fast.feature) < 1.5 * len(slow.feature)


def test_large_nodes_that_are_grown_anew() -> None:
    # Deletions near the root grow subtrees larger than any room made for them beforehand.
    rng = np.random.default_rng(5)
    X = rng.random((3000, 3))
    y = (X.sum(axis=1) + rng.normal(0, 0.3, 3000) > 1.5).astype(int)
    forest = DareForestClassifier(2, max_depth=9, k=3, random_state=2).fit(X, y)
    family = leave_one_out(forest.ensemble())
    sizes = np.diff(family.changes.start)
    for member in [*np.argsort(-sizes)[:2].tolist(), *rng.integers(0, 3000, 6).tolist()]:
        left = forest.unlearn([int(family.removed[member])])
        assert np.array_equal(family.member(member).probabilities(X), left.predict_proba(X))


def test_rows_that_are_not_held_are_refused(snapshot) -> None:
    forest = DareForestClassifier(2, random_state=1).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    with pytest.raises(ForestError) as told:
        leave_one_out(forest.ensemble(), np.array([1, 3]))
    assert str(told.value) == snapshot
    with pytest.raises(ForestError) as told:
        leave_one_out(forest.delete([0, 1]).ensemble())
    assert str(told.value) == snapshot


def test_ctrl_c_ends_it() -> None:
    rng = np.random.default_rng(4)
    forest = DareForestClassifier(8, random_state=1).fit(rng.random((50, 3)), np.arange(50) % 2)

    def stop(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave_one_out(forest.ensemble(), progress=stop)
    assert len(leave_one_out(forest.ensemble())) == 50
