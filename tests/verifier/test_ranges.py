"""Ranges hold every number they may stand for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.verifier.values.ranges import Range, compare

ENDS = st.tuples(st.integers(-5, 5), st.integers(-5, 5)).map(sorted)


@given(left=ENDS, right=ENDS, operator=st.sampled_from("+-*/"))
@settings(deadline=None)
def test_arithmetic_holds_every_result(left, right, operator):
    a, b = Range.between(*left), Range.between(*right)
    operations = {"+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__"}
    for x in range(left[0], left[1] + 1):
        for y in range(right[0], right[1] + 1):
            if operator == "/" and right[0] <= 0 <= right[1]:
                continue
            exact = getattr(Fraction(x), operations[operator])(Fraction(y))
            whole = getattr(a, operations[operator])(b)
            assert whole.lower <= exact <= whole.upper
            for compared in ("<", "<=", "==", "!=", ">", ">="):
                said = compare(a, compared, b)
                assert said in (None, {"<": x < y, "<=": x <= y, "==": x == y, "!=": x != y,
                                       ">": x > y, ">=": x >= y}[compared])  # fmt: skip


def test_ranges_are_rounded_outwards():
    third = Range.between(Fraction(1, 3), Fraction(1, 3))
    low, high = third.floats
    assert Fraction(low) < Fraction(1, 3) < Fraction(high)
    assert math.nextafter(low, 1) == high
    huge = Range.between(10**400, 10**400)
    assert huge.floats == (math.nextafter(math.inf, 0), None)
    product, exact = huge, 10**400
    for _ in range(6):
        product, exact = product * product, exact * exact
    assert product.lower <= exact <= product.upper
    assert product.reason


@pytest.mark.parametrize("value", [np.float64(0.5), np.float32(0.5), 1, Fraction(1, 2), True])
def test_any_number_can_be_a_bound(value):
    assert Range.between(value, value).lower == Fraction(float(value))
