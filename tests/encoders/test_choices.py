"""Listed values: what lies in the set, what is nearest, what is greatest."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.encoders import Box, Choices
from leaveout.errors import SpecError

NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.0, 0.1, 6.1232343e-17]), st.floats(-2, 2, width=32)
)


@st.composite
def sets(draw, dimension=5):
    """Draw a box of five features with up to three tables, of one to three features each."""
    order = draw(st.permutations(range(dimension)))
    widths = draw(st.sampled_from([(), (1,), (2,), (3,), (1, 1), (1, 2), (2, 2), (3, 1, 1)]))
    tables, start = [], 0
    for width in widths:
        row = st.lists(NUMBERS, min_size=width, max_size=width)
        rows = draw(st.lists(row, min_size=1, max_size=9))
        tables.append(Choices(np.asarray(order[start : start + width]), np.asarray(rows, float)))
        start += width
    return Box(np.full(dimension, -2.0), np.full(dimension, 2.0), tuple(tables))


def rows_of(box):
    """Return what each feature or group may take: (columns, rows) a table."""
    return [(each.columns, each.values) for each in box.choices]


def member(box, point):
    """Whether a point is in the set, one comparison at a time."""
    inside = all(box.lower[i] <= v <= box.upper[i] for i, v in enumerate(point))
    return inside and all(
        any(all(point[c] == v for c, v in zip(columns, row)) for row in rows)
        for columns, rows in rows_of(box)
    )


def points_near(box, seed, count=40):
    """Return points of the set, points between, and points a last bit away."""
    rng = np.random.default_rng(seed)
    inside = box.sample(rng, count)
    between = rng.uniform(-2.5, 2.5, (count, box.dimension))
    mixed = np.where(rng.random(inside.shape) < 0.8, inside, between)
    return np.concatenate([inside, between, mixed, np.nextafter(inside, 9.0)])


@settings(deadline=None)
@given(sets(), st.integers(0, 2**32 - 1))
def test_contains_is_a_row_of_every_table_and_a_point_of_the_box(box, seed):
    points = points_near(box, seed)
    assert box.contains(points).tolist() == [member(box, point) for point in points]


@settings(deadline=None)
@given(sets(), st.integers(0, 2**32 - 1))
def test_samples_lie_in_the_set(box, seed):
    points = box.sample(np.random.default_rng(seed), 50)
    assert box.contains(points).all()
    for columns, rows in rows_of(box):
        drawn = np.unique(box.sample(np.random.default_rng(seed), 500)[:, columns], axis=0)
        np.testing.assert_array_equal(drawn, rows)


@settings(deadline=None)
@given(sets(), st.integers(0, 2**32 - 1))
def test_the_nearest_point_is_in_the_set_and_none_is_nearer(box, seed):
    points = points_near(box, seed)
    found = box.nearest(points)
    assert found.shape == points.shape
    assert box.contains(found).all()
    others = box.sample(np.random.default_rng(seed), 30)
    for columns, rows in rows_of(box):
        for point, own in zip(points[:, columns], found[:, columns]):
            away = [sum((a - b) ** 2 for a, b in zip(point, row)) for row in rows]
            assert sum((a - b) ** 2 for a, b in zip(point, own)) == pytest.approx(min(away))
    for point, own in zip(points, found):
        assert np.linalg.norm(point - own) <= np.linalg.norm(point - others, axis=1).min() + 1e-9
    assert box.nearest(points[0]).tolist() == found[0].tolist()
    assert ((box.clip(points) >= box.lower) & (box.clip(points) <= box.upper)).all()


@settings(deadline=None)
@given(sets(), st.integers(0, 2**32 - 1))
def test_a_point_rounded_to_float32_is_in_the_set(box, seed):
    for point in points_near(box, seed, 5):
        x = box.float32(point)
        assert x.dtype == np.float32
        assert box.contains(x.astype(np.float64)[None]).all()


@settings(deadline=None)
@given(sets(), st.integers(0, 2**32 - 1))
def test_the_greatest_value_of_a_linear_function_is_met_and_not_exceeded(box, seed):
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(4, box.dimension)) * (rng.random((4, box.dimension)) < 0.8)
    found = box.greatest(slopes)
    continuous = np.setdiff1d(np.arange(box.dimension), box.discrete)
    tables = [rows for _, rows in rows_of(box)]
    for slope, most in zip(slopes, found):
        ends = np.where(slope > 0, box.upper, box.lower)
        values = [
            sum(slope[c] @ row for (c, _), row in zip(rows_of(box), rows))
            for rows in itertools.product(*tables)
        ]
        expected = max(values) + slope[continuous] @ ends[continuous]
        assert most == pytest.approx(expected, abs=1e-12)


def test_values_become_float32_once_sorted_and_without_duplicates():
    box = Box(
        np.zeros(2), np.ones(2), (Choices(np.asarray([1]), np.asarray([0.1, 1, 0.1, -0.0, 0])),)
    )
    values = box.choices[0].values
    assert values.tolist() == [[0.0], [float(np.float32(0.1))], [1.0]]
    assert not np.signbit(values).any()
    assert box.discrete.tolist() == [1]
    assert Box(np.zeros(2), np.ones(2)).discrete.tolist() == []


def test_a_value_equal_to_a_bound_stays_whatever_float32_makes_of_it():
    for bound in (0.1, 0.9, -0.1, 1 / 3):
        sides = np.sort([bound, 0.0])
        box = Box(sides[:1], sides[1:], (Choices(np.asarray([0]), np.asarray([bound])),))
        assert box.lower == box.upper == np.float32(bound)


def test_rows_outside_the_box_are_dropped_and_the_box_shrinks_to_the_rest():
    table = Choices(np.asarray([2, 0]), np.asarray([[0, 0], [0.5, 1], [2, 0], [1, 0.25]]))
    box = Box(np.zeros(3), np.asarray([0.5, 3, 1]), (table,))
    assert box.choices[0].values.tolist() == [[0, 0], [1, 0.25]]
    assert box.lower.tolist() == [0, 0, 0]
    assert box.upper.tolist() == [0.25, 3, 1]


@settings(deadline=None)
@given(sets(), st.integers(-100, 300))
def test_scaling_by_a_power_of_two_rounds_nothing(box, power):
    factors = np.full(box.dimension, 2.0**power)
    scaled = box.scale_by(factors)
    np.testing.assert_array_equal(scaled.lower * factors, box.lower)
    np.testing.assert_array_equal(scaled.upper * factors, box.upper)
    for own, other in zip(box.choices, scaled.choices):
        np.testing.assert_array_equal(other.values * factors[0], own.values)


def listed(columns, values):
    return Choices(np.asarray(columns), np.asarray(values, float))


@pytest.mark.parametrize(
    "make",
    [
        lambda: listed([5], [0]),
        lambda: listed([-1], [0]),
        lambda: listed([0.5], [0]),
        lambda: listed([0, 0], [[0, 1]]),
        lambda: listed([], []),
        lambda: listed([0], []),
        lambda: listed([0], [np.nan]),
        lambda: listed([0], [1e39]),
        lambda: listed([0, 1], [[0, 1, 2]]),
        lambda: listed([0, 1], [0, 1]),
        lambda: listed([0], [[2], [3]]),
        lambda: listed([1], np.zeros(1_000_001)),
    ],
)
def test_what_cannot_be_listed_is_refused_in_a_line(make, snapshot):
    with pytest.raises(SpecError) as caught:
        Box(np.zeros(3), np.ones(3), (make(),))
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


def test_a_feature_in_two_tables_is_refused(snapshot):
    with pytest.raises(SpecError) as told:
        Box(np.zeros(3), np.ones(3), (listed([0, 1], [[0, 1]]), listed([1], [0, 1])))
    assert str(told.value) == snapshot
