"""Bounds within half-spaces: never below the truth, and those that the search finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from leaveout.bab.native.kernels import pair_bounds
from leaveout.verifier.checker.arithmetic import EXACT, FLOATS, Exact
from leaveout.verifier.checker.blocks import HalfSpaces, contract, largest_within
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.pairs import Forms, largest

SEEDS = st.integers(0, 2**32 - 1)
BOTH = pytest.mark.parametrize("numbers", [FLOATS, EXACT], ids=["floats", "exact"])


def draw(seed, nodes=3):
    """Return boxes, half-spaces (node, rows, shift) and forms (node, slopes, constant)."""
    rng = np.random.default_rng(seed)
    n, some = int(rng.integers(1, 7)), int(rng.integers(0, 8))
    lower = rng.uniform(-1.0, 1.0, (nodes, n))
    upper = lower + rng.uniform(0.0, 1.0, (nodes, n)) * (rng.random((nodes, n)) < 0.9)
    of = np.sort(rng.integers(0, nodes, some))
    rows, slopes = rng.normal(size=(some, n)), rng.normal(size=(2 * nodes, n))
    if seed % 3 == 0:
        # Steps that are equal, slopes that are 0.
        rows, slopes = np.round(2.0 * rows) / 2.0, np.round(2.0 * slopes) / 2.0
    inside = rng.uniform(lower, upper)
    shift = -(rows * inside[of]).sum(axis=1)
    # Most hold of a point inside; some of none in the box.
    shift += rng.choice([0.0, 0.1, 0.3, -0.05], some)
    owners = np.sort(rng.integers(0, nodes, 2 * nodes))
    return (lower, upper), (of, rows, shift), (owners, slopes, rng.normal(size=2 * nodes))


def spaces(boxes, halves, numbers):
    (lower, upper), (of, rows, shift) = boxes, halves
    made = HalfSpaces.none(len(lower), len(of) + 1, lower.shape[1], numbers)
    made.add(of, Forms(rows, shift), np.zeros(len(of)), lower, upper)
    return made


def true_largest(slopes, constant, lower, upper, rows, shift):
    """Largest value by a solver; minus infinity where nothing is inside."""
    found = linprog(
        -slopes, A_ub=-rows if len(rows) else None, b_ub=shift if len(rows) else None,
        bounds=list(zip(lower, upper, strict=True)), method="highs",
    )  # fmt: skip
    return -np.inf if found.status == 2 else constant - found.fun


@BOTH
@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_bounds_are_never_below_the_truth_nor_above_the_box(numbers, seed):
    boxes, halves, (owner, slopes, constant) = draw(seed)
    (lower, upper), (of, rows, shift) = boxes, halves
    low, high = lower[owner], upper[owner]
    forms = Forms(slopes, constant)
    found, empty = largest_within(forms, owner, lower, upper, spaces(boxes, halves, numbers))
    assert (found <= largest(forms, low, high, numbers)).all()
    for i, node in enumerate(owner):
        own = of == node
        true = true_largest(slopes[i], constant[i], low[i], high[i], rows[own], shift[own])
        # The solver allows a violation of 1e-7.
        assert found[i] >= true - 1e-5
        if empty[i]:
            each = (rows[own] * np.where(rows[own] > 0, high[i], low[i])).sum(axis=1) + shift[own]
            assert (each < 0.0).any()


@BOTH
@pytest.mark.parametrize("start", range(0, 1200, 300))
def test_bounds_are_those_of_the_search(numbers, start):
    compared = better = 0
    for seed in range(start, start + 300):
        boxes, halves, (owner, slopes, constant) = draw(seed)
        (lower, upper), (of, rows, shift) = boxes, halves
        made = spaces(boxes, halves, numbers)
        forms = Forms(slopes, constant)
        found, empty = largest_within(forms, owner, lower, upper, made)
        over = largest(forms, lower[owner], upper[owner], numbers)
        for i, node in enumerate(owner):
            own = pair_bounds.no_cuts(len(of) + 1, lower.shape[1])
            for k in np.flatnonzero(of == node):
                pair_bounds.add_cut(own, rows[k], shift[k], 0.0, lower[node], upper[node])
            if own.count[0] != made.count[node]:
                continue
            value = pair_bounds.largest(slopes[i], constant[i], lower[node], upper[node], own)
            compared += 1
            better += value < over[i] - 1e-3
            assert (value == -np.inf and empty[i]) or abs(value - found[i]) < 1e-9, (seed, i)
    assert compared > 1700
    assert better > 300


@BOTH
def test_several_half_spaces_do_more_than_each(numbers):
    lower, upper = np.zeros((1, 2)), np.ones((1, 2))
    # x + y over x <= 1/4 and y <= 1/2.
    rows, shift = np.array([[-1.0, 0.0], [0.0, -1.0]]), np.array([0.25, 0.5])
    made = spaces((lower, upper), (np.zeros(2, np.int64), rows, shift), numbers)
    form = Forms(np.ones((1, 2)), np.zeros(1))
    found, _ = largest_within(form, np.zeros(1, np.int64), lower, upper, made)
    assert found[0] == pytest.approx(0.75, abs=1e-12)
    assert found[0] >= 0.75


def test_half_spaces_that_hold_the_box_or_are_out_of_range_are_not_kept():
    lower, upper = np.zeros((2, 1)), np.ones((2, 1))
    of = np.array([0, 0, 0, 1, 1, 1])
    rows = np.array([[1.0], [-1.0], [np.inf], [1.0], [-1.0], [-1.0]])
    shift = np.array([0.0, 0.5, 1.0, np.nan, -np.inf, 0.25])
    made = HalfSpaces.none(2, 3, 1, FLOATS)
    made.add(of, Forms(rows, shift), np.zeros(6), lower, upper)
    assert made.count.tolist() == [1, 1]
    assert made.rows[:, 0, 0].tolist() == [-1.0, -1.0]
    assert made.shift[:, 0] == pytest.approx([0.5, 0.25])
    # The room for rounding is on the safe side.
    assert (made.shift[:, 0] >= [0.5, 0.25]).all()


@BOTH
@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-150, 1e150, 1e300])
def test_extreme_numbers_bound_nothing_falsely(numbers, size):
    """Multipliers overflow, or underflow; x = 1/2 is always inside."""
    lower, upper = np.zeros((1, 2)), np.ones((1, 2))
    rows, shift = size * np.array([[-2.0, 0.0], [0.0, -2.0]]), size * np.ones(2)
    made = spaces((lower, upper), (np.zeros(2, np.int64), rows, shift), numbers)
    for scale in (1e-310, 1.0, 1e300):
        form = Forms(scale * np.array([[1.0, 2.0]]), np.zeros(1))
        found, empty = largest_within(form, np.zeros(1, np.int64), lower, upper, made)
        assert found[0] >= 0.5 * form.slopes.sum()
        assert not empty.any()


@BOTH
@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_contraction_keeps_every_point_of_a_half_space(numbers, seed):
    boxes, (of, rows, shift), _ = draw(seed)
    lower, upper = boxes[0][of], boxes[1][of]
    low, high, empty = contract(Forms(rows, shift), np.zeros(len(of)), lower, upper, numbers)
    rng = np.random.default_rng(seed)
    for i in range(len(of)):
        points = rng.uniform(lower[i], upper[i], (200, lower.shape[1]))
        inside = points[Exact.of(points) @ rows[i] + shift[i] >= 0.0]
        assert not (len(inside) and empty[i])
        assert empty[i] or ((inside >= low[i]) & (inside <= high[i])).all()


def test_bounds_that_cannot_be_told_are_refused():
    lower, upper = np.zeros((1, 1)), np.ones((1, 1))
    made = HalfSpaces.none(1, 1, 1, FLOATS)
    with pytest.raises(RejectedError):
        largest_within(
            Forms(np.full((1, 1), np.nan), np.zeros(1)), np.zeros(1, np.int64), lower, upper, made
        )
