"""Intervals of counts against their definition, in rational numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from leaveout.verifier.audits.intervals import clopper_pearson, refutation_level
from leaveout.verifier.certify.audits import lower_end

from support.depth import rounds

COUNTS = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def _at_least(count: int, trials: int, chance: float | Fraction) -> Fraction:
    """Return the exact chance of so many events."""
    p = Fraction(chance)
    return sum(
        (math.comb(trials, i) * p**i * (1 - p) ** (trials - i) for i in range(count, trials + 1)),
        Fraction(0),
    )


@settings(deadline=None, max_examples=rounds(150))
@given(COUNTS, st.sampled_from(["0.5", "0.9", "0.95", "0.99", "0.999999", "0.000001"]))
def test_each_end_fails_no_more_often_than_it_may_exactly(counts, confidence):
    count, trials = counts
    low, high = clopper_pearson(count, trials, float(confidence))
    each = (1 - Fraction(confidence)) / 2
    assert 0 <= low <= high <= 1
    assert low == 0 if not count else _at_least(count, trials, low) <= each
    assert high == 1 or _at_least(trials - count, trials, 1 - Fraction(high)) <= each
    # No end is farther out than it must be.
    assert not count or _at_least(count, trials, Fraction(low) * (1 + Fraction(1, 10**6))) > each
    near = 1 - Fraction(high) + Fraction(1, 10**6) * (1 - Fraction(high))
    assert count == trials or _at_least(trials - count, trials, near) > each


@settings(deadline=None, max_examples=rounds(60))
@given(st.integers(1, 40), st.integers(0, 40), st.integers(1, 330))
@example(2, 1, 308)
def test_tiny_levels_are_held_exactly_too(count, more, exponent):
    level = 10.0**-exponent
    found = lower_end(count, count + more, level)
    assert found > 0 or exponent > 102
    assert _at_least(count, count + more, found) <= Fraction(level)


@settings(deadline=None, max_examples=rounds(60))
@given(COUNTS)
def test_it_is_the_interval_of_scipy(counts):
    count, trials = counts
    known = binomtest(count, trials).proportion_ci(0.95, method="exact")
    assert clopper_pearson(count, trials, 0.95) == pytest.approx(tuple(known), abs=1e-9)


@pytest.mark.parametrize("trials", [10**4, 10**6, 10**9])
def test_many_trials(trials):
    for count in (0, 1, trials // 3, trials - 1, trials):
        low, high = clopper_pearson(count, trials, 0.99)
        assert low <= count / trials <= high
        assert high - low < 5.2 / math.sqrt(trials)


@settings(deadline=None, max_examples=rounds(40))
@given(COUNTS, COUNTS, st.floats(0, 2), st.floats(0, 0.2))
def test_a_level_refutes_by_exact_chances(unlearned, retrained, alpha, beta):
    level = refutation_level(*unlearned, *retrained, alpha, beta)
    assert 1e-100 <= level <= 1
    if level == 1:
        return
    # Somewhere between the two chances, which half of the level each allows, the claim breaks.
    half = Fraction(level) / 2
    least = lower_end(*unlearned, level / 2)
    most = 1 - Fraction(lower_end(retrained[1] - retrained[0], retrained[1], level / 2))
    assert _at_least(*unlearned, least) <= half
    assert _at_least(retrained[1] - retrained[0], retrained[1], 1 - most) <= half
    assert least - beta > math.exp(alpha) * float(most) * (1 - 1e-9)
