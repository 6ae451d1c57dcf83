"""Listed values in shifted regions: no row is lost, however small beside the shift."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.bab.native.space import Listed
from leaveout.encoders import Box, Choices
from leaveout.encoders import box as choices

DIMENSION = 5
TINY = st.sampled_from([0.0, 1e-30, 1e-12, -1e-12, 1e-9, 1e-7, 6.1232343e-17])
NUMBERS = st.one_of(TINY, st.sampled_from([0.1, 0.5, 1.0, -1.0]), st.floats(-2, 2, width=32))


@st.composite
def sets(draw):
    """Draw a box of five features, far below 0 or not, with up to three tables."""
    low = draw(st.sampled_from([-2.0, -1000.0, -3e30]))
    order = draw(st.permutations(range(DIMENSION)))
    widths = draw(st.sampled_from([(1,), (2,), (3,), (1, 1), (1, 2), (2, 2), (3, 1, 1)]))
    tables, start = [], 0
    for width in widths:
        row = st.lists(NUMBERS, min_size=width, max_size=width)
        rows = [[low] * width] * draw(st.booleans()) + draw(st.lists(row, min_size=1, max_size=9))
        tables.append(Choices(np.asarray(order[start : start + width]), np.asarray(rows, float)))
        start += width
    return Box(np.full(DIMENSION, low), np.full(DIMENSION, 2.0), tuple(tables))


def regions_of(box, origin, seed, count=25):
    """Return shifted regions: halves, random ones, rows themselves, and some upside down."""
    rng = np.random.default_rng(seed)
    one, two = box.sample(rng, count) - origin, box.sample(rng, count) - origin
    far = rng.uniform(0.0, 2.5, (count, DIMENSION)) * (box.upper - box.lower)
    two = np.where(rng.random(two.shape) < 0.5, two, far)
    lower, upper = np.minimum(one, two), np.maximum(one, two)
    whole = rng.random(lower.shape) < 0.5
    lower = np.where(whole, box.lower - origin, lower)
    upper = np.where(whole, box.upper - origin, upper)
    one, two = np.nextafter(one, 9e30), np.nextafter(one, -9e30)
    return (
        np.concatenate([lower, one, two, np.maximum(one, lower)]),
        np.concatenate([upper, one, two, np.maximum(one, upper)]),
    )


def rows_inside(table, origin, lower, upper):
    """Shifted rows, as exact numbers, that lie in a region, looked at one by one."""
    shifted = [
        [Fraction(v) - Fraction(origin[c]) for c, v in zip(table.columns, row)]
        for row in table.values.tolist()
    ]
    # Floats of Python compare with fractions exactly; those of numpy round them first.
    low, high = lower[table.columns].tolist(), upper[table.columns].tolist()
    return [row for row in shifted if all(a <= y <= b for a, y, b in zip(low, row, high))]


def widened(lower, upper):
    """Return a region a float larger on every side."""
    return np.nextafter(lower, -np.inf), np.nextafter(upper, np.inf)


@settings(deadline=None)
@given(
    sets(), st.integers(0, 2**32 - 1), st.sampled_from([1, 7, 2**22]), st.sampled_from([-1, 1, 8])
)
def test_shrinking_loses_no_row_and_keeps_only_their_hull(box, seed, at_once, wide):
    origin = np.minimum(box.lower, 0.0)
    lower, upper = regions_of(box, origin, seed)
    before = lower.copy(), upper.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choices, "_AT_ONCE", at_once)
        if wide < 0:
            patch.setattr(Choices, "_is_wide", True)
        patch.setattr(choices, "WIDE", wide)
        low, high, empty = Listed.of(box, origin).shrink(lower, upper)
    np.testing.assert_array_equal(lower, before[0])
    np.testing.assert_array_equal(upper, before[1])
    for i in range(len(lower)):
        upside_down = bool((lower[i] > upper[i]).any())
        found = [rows_inside(table, origin, lower[i], upper[i]) for table in box.choices]
        assert not empty[i] or upside_down or not all(found)
        assert empty[i] or not upside_down
        if empty[i]:
            continue
        free = np.setdiff1d(np.arange(DIMENSION), box.discrete)
        np.testing.assert_array_equal(low[i, free], lower[i, free])
        np.testing.assert_array_equal(high[i, free], upper[i, free])
        assert (low[i] >= lower[i]).all() and (high[i] <= upper[i]).all()
        for table, rows in zip(box.choices, found):
            for k, c in enumerate(table.columns.tolist()):
                values, least, most = [row[k] for row in rows], float(low[i, c]), float(high[i, c])
                assert all(least <= y <= most for y in values)
                near = [row[k] for row in rows_inside(table, origin, *widened(lower[i], upper[i]))]
                assert min(near) <= Fraction(np.nextafter(np.nextafter(least, 9e30), 9e30))
                assert max(near) >= Fraction(np.nextafter(np.nextafter(most, -9e30), -9e30))


@pytest.mark.parametrize("value", [1e-12, 1e-9, 3e-5, 1.0])
@pytest.mark.parametrize("lowest", [-1.0, -1e3, -1e30])
def test_a_region_cut_down_step_by_step_still_holds_a_small_value(value, lowest):
    box = Box(
        np.array([lowest]), np.array([1.0]), (Choices(np.array([0]), np.array([lowest, value])),)
    )
    origin = box.lower
    target = Fraction(float(np.float32(value))) - Fraction(float(origin[0]))
    listed = Listed.of(box, origin)
    lower, upper = widened(box.lower[None] - origin, box.upper[None] - origin)
    for _ in range(200):
        lower, upper, empty = listed.shrink(lower, upper)
        assert not empty.any()
        assert float(lower[0, 0]) <= target <= float(upper[0, 0])
        middle = (lower + upper) / 2
        if not (lower < middle).all() or not (middle < upper).all():
            break
        lower, upper = (middle, upper) if target >= float(middle[0, 0]) else (lower, middle)
