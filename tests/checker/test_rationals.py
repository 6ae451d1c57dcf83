"""Rational enclosures hold the truth, tightly, and binomial tails are those of enumeration."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta

from leaveout.verifier.checker.rationals import (
    EXACT_TRIALS,
    at_least,
    down,
    exp,
    least_probability,
    log,
    most_probability,
    power,
    sqrt,
    up,
    upwards,
)

SHARP = Fraction(1, 2**120)
POSITIVE = st.builds(
    lambda top, bottom, scale: Fraction(top, bottom) * Fraction(2) ** scale,
    st.integers(1, 10**30),
    st.integers(1, 10**30),
    st.integers(-300, 300),
)


def real(value):
    return mpmath.mpf(value.numerator) / value.denominator


def holds(found, truth):
    """Whether the ends enclose a number that was computed to many more digits, and closely."""
    low, high = map(real, found)
    return low <= truth <= high and high - low <= abs(truth) * real(SHARP) + mpmath.mpf(2) ** -150


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workprec(4000):
        yield


@given(st.fractions(), st.integers(2, 200))
def test_rounding_is_outwards_and_leaves_few_digits(value, bits):
    low, high = down(value, bits), up(value, bits)
    assert low <= value <= high
    assert high - low <= abs(value) / 2 ** (bits - 2)
    for end in (low, high):
        short = end.numerator
        while short and not short % 2:
            short //= 2
        assert abs(short).bit_length() <= bits + 1
        assert end.denominator & (end.denominator - 1) == 0


@given(POSITIVE)
@example(Fraction(1))
@example(Fraction(1, 4))
@example(Fraction(10**40))
def test_a_root_is_enclosed(value):
    low, high = sqrt(value)
    assert low**2 <= value <= high**2
    assert holds((low, high), mpmath.sqrt(real(value)))


@given(POSITIVE)
@example(Fraction(1))
@example(Fraction(4, 3))
@example(Fraction(2, 3))
@example(1 + Fraction(1, 2**200))
def test_a_logarithm_is_enclosed(value):
    assert holds(log(value), mpmath.log(real(value)))


@given(st.fractions(-300, 300))
@example(Fraction(0))
@example(Fraction(1, 16))
@example(Fraction(-1, 10**60))
@example(Fraction(65536))
@example(Fraction(-65536))
def test_an_exponential_is_enclosed(value):
    assert holds(exp(value), mpmath.exp(real(value)))


@given(st.fractions(0, 3), st.integers(0, 3000))
def test_a_power_is_enclosed(base, exponent):
    low, high = power(base, exponent)
    assert low <= high
    if exponent < 60:
        assert low <= base**exponent <= high
    assert holds((low, high), real(base) ** exponent)


def test_what_has_no_value_is_refused(snapshot):
    for function, value in ((sqrt, -1), (log, 0), (log, -2), (exp, 70000), (exp, -70000)):
        with pytest.raises(ValueError) as told:
            function(Fraction(value))
        assert str(told.value) == snapshot
    with pytest.raises(ValueError) as told:
        power(Fraction(-1), 2)
    assert str(told.value) == snapshot


@given(st.fractions(Fraction(1, 10**12), 10**12))
def test_four_digits_are_no_smaller(value):
    shown = Fraction(upwards(value))
    assert value <= shown <= value * Fraction(1002, 1000)


@given(st.integers(0, 40), st.data())
def test_a_tail_is_that_of_enumeration(trials, data):
    count = data.draw(st.integers(-1, trials + 1))
    chance = data.draw(st.fractions(0, 1, max_denominator=10**6))
    truth = sum(
        math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
        for k in range(max(0, count), trials + 1)
    )
    low, high = at_least(count, trials, chance)
    assert 0 <= low <= truth <= high <= 1
    assert high - low <= SHARP


@pytest.mark.parametrize(
    ("count", "trials", "chance"),
    [(60, 400, 0.1), (1, 3000, 1e-4), (2000, 3000, 0.6), (300, 300, 0.9), (1500, 3000, 0.5)],
)
def test_a_long_tail_is_that_of_the_beta_integral(count, trials, chance):
    exactly = Fraction(chance)
    # The tail is an incomplete beta function.
    truth = mpmath.betainc(count, trials - count + 1, 0, real(exactly), regularized=True)
    assert holds(at_least(count, trials, exactly), truth)


def test_of_more_trials_than_are_summed_nothing_is_said():
    with pytest.raises(ValueError, match="trials"):
        at_least(1, EXACT_TRIALS + 1, Fraction(1, 2))
    with pytest.raises(ValueError, match="probability"):
        at_least(1, 3, Fraction(3, 2))


@given(st.integers(1, 60), st.data())
def test_an_end_of_clopper_and_pearson_is_the_largest_that_enumeration_allows(trials, data):
    count = data.draw(st.integers(0, trials))
    level = data.draw(st.fractions(Fraction(1, 10**9), Fraction(1, 2), max_denominator=10**9))
    low, high = least_probability(count, trials, level), most_probability(count, trials, level)

    def chance_of(events, chance):
        return sum(math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in events)

    assert chance_of(range(count, trials + 1), low) <= level or not count
    assert chance_of(range(count + 1), high) <= level or count == trials
    if count:
        assert chance_of(range(count, trials + 1), low * (1 + Fraction(1, 10**12))) > level
    if count < trials:
        closer = 1 - (1 - high) * (1 + Fraction(1, 10**12))
        assert chance_of(range(count + 1), closer) > level


@pytest.mark.parametrize("trials", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("level", [Fraction(1, 20), Fraction(1, 1000)])
def test_an_end_fails_no_more_often_than_it_says(trials, level):
    """By enumeration: at every chance of a grid, those counts whose end lies above it."""
    ends = [least_probability(count, trials, level) for count in range(trials + 1)]
    for chance in (Fraction(i, 200) for i in range(201)):
        wrong = sum(
            math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
            for k, end in enumerate(ends)
            if end > chance
        )
        assert wrong <= level


@pytest.mark.parametrize("trials", [EXACT_TRIALS, EXACT_TRIALS + 1, 10**7, 2**62])
def test_of_very_many_trials_an_end_is_a_little_wider(trials):
    level = Fraction(1, 1000)
    for count in (3, trials // 1000, trials - 3):
        found = float(least_probability(count, trials, level))
        sharp = beta.ppf(float(level), count, trials - count + 1)
        spread = 5 * np.sqrt(count * (1 - count / trials)) / trials
        assert sharp - spread - 1e-12 <= found <= sharp * (1 + 1e-9)


def test_counts_that_are_none_are_refused(snapshot):
    for count, trials in ((-1, 3), (4, 3), (0, 0)):
        with pytest.raises(ValueError) as told:
            least_probability(count, trials, Fraction(1, 2))
        assert str(told.value) == snapshot
    with pytest.raises(ValueError, match="level"):
        least_probability(1, 2, Fraction(0))
