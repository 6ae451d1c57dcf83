"""What a node asks: thresholds, categories, missing values, against one input at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.errors import TreesError
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.trees import Ensemble
from leaveout.models.trees.assemble import Sets, Tree, assemble, saturation_tie

VALUES = (
    -math.inf, -3.0, -1.0, math.nextafter(-1.0, 0.0), -0.5, -1e-46, -0.0, 0.0, 1e-46, 0.5, 1.0,
    math.nextafter(2.0, 0.0), 2.0, 2.5, 3.0, 1e9, 1e300, math.inf, math.nan,
)  # fmt: skip


def question(*, threshold=0.0, members=None, left=True, missing=False, **more):
    """Return an ensemble that asks once: 1 is left, 2 is right."""
    sets = Sets()
    asks = -1 if members is None else sets.add(members, left=left)
    tree = Tree(
        np.array([0, -1, -1]), np.array([threshold, 0.0, 0.0]), np.array([missing, False, False]),
        np.array([asks, -1, -1]), np.array([1, 0, 0]), np.array([2, 0, 0]),
        np.array([0.0, 1.0, 2.0]),
    )  # fmt: skip
    return Ensemble(assemble([tree], sets, 1, 1), np.zeros(1), (), 1, **more)


@given(
    value=st.sampled_from(VALUES),
    threshold=st.sampled_from([v for v in VALUES if not math.isnan(v)]),
    missing=st.booleans(),
)
def test_a_number_is_compared(value, threshold, missing):
    found = question(threshold=threshold, missing=missing).scores(np.array([[value]]))
    left = missing if math.isnan(value) else value <= threshold
    assert found == (1.0 if left else 2.0)


@given(
    value=st.sampled_from(VALUES),
    members=st.lists(st.integers(0, 4), unique=True),
    left=st.booleans(),
    missing=st.booleans(),
    least=st.sampled_from([0.0, math.nextafter(-1.0, 0.0)]),
    rounds=st.booleans(),
    whole=st.booleans(),
)
def test_a_category_is_looked_up(value, members, left, missing, least, rounds, whole):
    ensemble = question(
        threshold=least, members=members, left=left, missing=missing, rounds_inputs=rounds,
        whole_categories=whole,
    )  # fmt: skip
    found = ensemble.scores(np.array([[value]]))
    with np.errstate(over="ignore"):
        seen = float(np.float32(value)) if rounds else value
    if math.isnan(seen):
        goes = missing
    else:
        known = seen >= least and abs(seen) < 100 and (not whole or seen == int(seen))
        goes = left if known and int(seen) in members else not left
    assert found == (1.0 if goes else 2.0)


def test_trees_that_are_none_are_refused():
    for change in ({"right": [1, 0, 0]}, {"left": [7, 0, 0]}, {"right": [0, 0, 0]}):
        parts = {"left": [1, 0, 0], "right": [2, 0, 0], **change}
        tree = Tree(
            np.array([0, -1, -1]), np.zeros(3), np.zeros(3, bool), np.full(3, -1),
            np.array(parts["left"]), np.array(parts["right"]), np.zeros(3),
        )  # fmt: skip
        with pytest.raises(TreesError, match="tree 0"):
            assemble([tree], Sets(), 1, 1)


def test_categories_beyond_memory_are_refused():
    sets = Sets()
    for member in (1, 2**30):
        sets.add([member])
    with pytest.raises(Rejected, match="too many"):
        sets.table()


@pytest.mark.parametrize("slope", [0.5, 1.0, 4.0])
def test_sigmoids_differ_beyond_the_tie_of_saturation(slope):
    rng = np.random.default_rng(0)
    for most in (1.0, 5.0, 20.0):
        tree = Tree(
            np.array([-1]), np.zeros(1), np.zeros(1, bool), np.array([-1]), np.zeros(1, int),
            np.zeros(1, int), np.array([most]),
        )  # fmt: skip
        ensemble = Ensemble(assemble([tree], Sets(), 1, 1), np.zeros(1), (), 1)
        tie = saturation_tie(ensemble, slope)
        low = rng.uniform(-most, most, 1000)
        high = np.minimum(low + tie * 1.001, most)
        apart = high - low > tie
        with np.errstate(over="ignore"):
            below, above = (1 / (1 + np.exp(-slope * each)) for each in (low, high))
        assert (below < above)[apart].all()
