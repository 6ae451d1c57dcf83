"""Numbers round to the side that loses no counter-example."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from leaveout.specs.vnnlib.formula import Place
from leaveout.specs.vnnlib.rounding import above, below, relax_coefficients

SPOTS = [Place(True, 0, i) for i in range(3)]
NUMBERS = st.one_of(
    st.fractions(max_denominator=10**30),
    st.floats(allow_nan=False, allow_infinity=False).map(Fraction),
    st.decimals(allow_nan=False, allow_infinity=False, places=20).map(Fraction),
    st.integers(-(10**320), 10**320).map(Fraction),
)


@given(NUMBERS)
def test_neighbours(value):
    low, high = below(value), above(value)
    assert low == -math.inf or Fraction(low) <= value
    assert high == math.inf or value <= Fraction(high)
    if math.isfinite(low) and math.isfinite(high):
        assert (low == high) == (Fraction(low) == value)
        assert low == high or math.nextafter(low, math.inf) == high


@given(
    st.lists(NUMBERS.filter(bool), min_size=1, max_size=3),
    NUMBERS,
    st.lists(st.fractions(-1000, 1000), min_size=3, max_size=3),
)
def test_relaxed_forms_lose_nothing(coefficients, constant, point):
    terms = dict(zip(SPOTS, coefficients))
    rounded, moved = relax_coefficients(terms, constant, lambda spot: Fraction(1000))
    exact = constant + sum(c * x for c, x in zip(coefficients, point))
    if math.isinf(moved):
        return
    found = Fraction(moved) + sum(Fraction(rounded[s]) * x for s, x in zip(terms, point))
    if exact >= 0:
        assert found >= 0
    if exact > 0:
        assert found > 0


@given(st.lists(st.floats(-1e9, 1e9).filter(bool), min_size=1, max_size=3), st.floats(-1e9, 1e9))
def test_what_float64_holds_is_left_as_it_is(coefficients, constant):
    terms = {spot: Fraction(c) for spot, c in zip(SPOTS, coefficients)}

    def never(spot):
        raise AssertionError

    rounded, moved = relax_coefficients(terms, Fraction(constant), never)
    assert list(rounded.values()) == coefficients
    assert moved == constant
