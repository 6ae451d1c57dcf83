"""Boxes: empty ones are refused, rounding to float32 stays inside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.encoders import Box
from leaveout.errors import SpecError


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.floats(0, 1)), min_size=1))
def test_a_point_rounded_to_float32_stays_in_the_box_where_a_float32_lies_in_it(sides):
    lower = np.asarray([a for a, _, _ in sides])
    upper = lower + np.asarray([w for _, w, _ in sides])
    box = Box(lower, upper)
    point = lower + np.asarray([s for _, _, s in sides]) * (upper - lower)
    x = box.float32(point)
    assert x.dtype == np.float32
    above = np.nextafter(lower.astype(np.float32), np.float32(np.inf)).astype(float)
    first = np.where(lower.astype(np.float32) >= lower, lower.astype(np.float32), above)
    possible = first <= upper
    inside = (x >= lower) & (x <= upper)
    assert inside[possible].all()


def test_an_empty_or_unbounded_box_is_refused(snapshot):
    with pytest.raises(SpecError) as told:
        Box(np.asarray([0.0, 1.0]), np.asarray([1.0, 0.0]))
    assert str(told.value) == snapshot
    with pytest.raises(SpecError, match="float32's range"):
        Box(np.asarray([0.0]), np.asarray([np.inf]))
    with pytest.raises(SpecError) as told:
        Box(np.zeros(2), np.zeros(1))
    assert str(told.value) == snapshot
