"""Rational enclosures hold the truth, tightly, and binomial tails are those of enumeration."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta, hypergeom

from leaveout.kernel.numbers import Rejected
from leaveout.kernel.tails import (
    MOST_TRIALS,
    at_least,
    band,
    down,
    exceeds,
    exp,
    few_drawn,
    hypergeometric,
    is_rare,
    log,
    lower_ends,
    means_above,
    power,
    sqrt,
    up,
    upwards,
)
from leaveout.verifier.certify.audits import answer, lower_end

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
@example(Fraction(1, 10**400))
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
        with pytest.raises(Rejected) as told:
            function(Fraction(value))
        assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
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
    with pytest.raises(Rejected, match="summed"):
        at_least(1, MOST_TRIALS + 1, Fraction(1, 2))
    with pytest.raises(Rejected, match="summed"):
        at_least(1, 3, Fraction(3, 2))


def end(count, trials, level):
    """Return the end that is hinted and confirmed."""
    (found,) = lower_ends([(count, trials)], level, answer)
    return found


def tail_of(count, trials, chance):
    return sum(
        math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
        for k in range(count, trials + 1)
    )


@given(st.integers(1, 60), st.data())
def test_an_end_of_clopper_and_pearson_is_the_largest_that_enumeration_allows(trials, data):
    count = data.draw(st.integers(0, trials))
    level = data.draw(st.fractions(Fraction(1, 10**9), Fraction(1, 2), max_denominator=10**9))
    low = end(count, trials, level)
    assert tail_of(count, trials, low) <= level or not count
    if count:
        assert tail_of(count, trials, low * (1 + Fraction(1, 10**12))) > level


@given(st.integers(1, 40), st.data())
def test_events_are_rare_just_where_enumeration_says(trials, data):
    count = data.draw(st.integers(0, trials))
    chance = data.draw(st.fractions(0, 1, max_denominator=1000))
    truth = tail_of(count, trials, chance)
    assert is_rare(count, trials, chance, truth * (1 + Fraction(1, 2**100)))
    if truth:
        assert not is_rare(count, trials, chance, truth * (1 - Fraction(1, 2**100)))


def test_rounding_never_makes_events_rare():
    low, high = at_least(60, 400, Fraction(0.1))
    assert low < high
    assert is_rare(60, 400, Fraction(0.1), high)
    assert not is_rare(60, 400, Fraction(0.1), low)


@given(st.integers(1, 60), st.data())
def test_chernoff_never_says_more_than_enumeration(trials, data):
    count = data.draw(st.integers(0, trials))
    chance = data.draw(st.fractions(0, 1, max_denominator=1000))
    level = data.draw(st.fractions(0, 1, max_denominator=10**6))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("leaveout.kernel.tails.MOST_TRIALS", 0)
        rare = is_rare(count, trials, chance, level)
    assert not rare or tail_of(count, trials, chance) <= level


@pytest.mark.parametrize("trials", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("level", [Fraction(1, 20), Fraction(1, 1000)])
def test_an_end_fails_no_more_often_than_it_says(trials, level):
    """By enumeration: at every chance of a grid, those counts whose end lies above it."""
    ends = [end(count, trials, level) for count in range(trials + 1)]
    for chance in (Fraction(i, 200) for i in range(201)):
        wrong = sum(
            math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
            for k, each in enumerate(ends)
            if each > chance
        )
        assert wrong <= level


@pytest.mark.parametrize("trials", [MOST_TRIALS, MOST_TRIALS + 1, 10**7, 2**62])
def test_of_very_many_trials_an_end_is_a_little_wider(trials):
    for count in (3, trials // 1000, trials - 3):
        found = float(end(count, trials, Fraction(1, 1000)))
        sharp = beta.ppf(1e-3, count, trials - count + 1)
        spread = 5 * np.sqrt(count * (1 - count / trials)) / trials
        assert sharp - spread - 1e-12 <= found <= sharp * (1 + 1e-9)


def test_counts_that_are_none_are_refused(snapshot):
    for count, trials in ((-1, 3), (4, 3), (0, 0)):
        with pytest.raises(Rejected) as told:
            end(count, trials, Fraction(1, 2))
        assert str(told.value) == snapshot


def hinting(what, *values):
    """Return what answers every question with these values."""
    return lambda asked, known: {what: np.array(*values)}


BAD = [
    (),
    [[0.1]],
    [0.1, 0.1],
    [np.nan],
    [np.inf],
    [-1e-300],
    [1.5],
    [2],
    [True],
    ["0.1"],
]


@pytest.mark.parametrize("values", BAD)
def test_hints_that_are_no_ends_are_refused(values):
    with pytest.raises(Rejected):
        lower_ends([(3, 9)], Fraction(1, 20), hinting("lower_ends", values))
    with pytest.raises(Rejected):
        means_above(np.full((9, 1), 0.5), Fraction(1, 20), hinting("means_above", values))


def test_no_answer_and_answers_of_another_type_are_refused():
    draws, level = np.full((9, 1), 0.5), Fraction(1, 20)
    for answers in ({}, {"ends": np.zeros(1)}, {"lower_ends": [0.0]}, {"lower_ends": None}):
        with pytest.raises(Rejected):
            lower_ends([(3, 9)], level, lambda what, known, said=answers: said)
    for dtype in (np.float32, np.int64, object, np.complex128):
        with pytest.raises(Rejected):
            means_above(draws, level, hinting("means_above", [0], dtype))


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30)), min_size=1, max_size=5), st.data()
)
def test_whatever_is_hinted_no_end_fails_more_often_than_it_says(counts, data):
    counts = [(min(one), max(one)) for one in counts]
    level = data.draw(st.sampled_from([Fraction(1, 3), Fraction(1, 100), Fraction(1, 10**9)]))
    hints = data.draw(st.lists(st.floats(0, 1), min_size=len(counts), max_size=len(counts)))
    exact = [lower_end(*one, float(level)) for one in counts]
    hints = data.draw(st.sampled_from([hints, exact, exact[::-1], [x * 1.000001 for x in exact]]))
    try:
        found = lower_ends(counts, level, hinting("lower_ends", hints, np.float64))
    except Rejected:
        return
    for (count, trials), low in zip(counts, found):
        assert low == 0 or tail_of(count, trials, low) <= level


def test_a_mean_hinted_too_high_is_refused_and_a_low_one_is_not():
    draws = np.random.default_rng(0).uniform(0, 1, (40, 3))
    level = Fraction(1, 20)
    known = {"draws": draws, "level": np.array(0.05)}
    best = answer("means_above", known)["means_above"]
    assert means_above(draws, level, hinting("means_above", best)) == [Fraction(x) for x in best]
    for place in range(3):
        wrong = best.copy()
        wrong[place] *= 1 + 1e-8
        with pytest.raises(Rejected):
            means_above(draws, level, hinting("means_above", wrong))
        assert means_above(draws, level, hinting("means_above", best * 0.9))[place] < best[place]
    with pytest.raises(Rejected):
        means_above(draws, level, hinting("means_above", best[::-1] + 0.1))


def test_a_mean_so_small_that_products_overflow_is_refused():
    with pytest.raises(Rejected):
        means_above(np.full((9, 1), 0.5), Fraction(1, 20), hinting("means_above", [2.0**-70]))


@pytest.mark.parametrize("draw", [-0.1, 1.1, np.nan, 1e-300])
def test_what_is_no_draw_is_refused(draw):
    with pytest.raises(Rejected):
        exceeds(np.array([[0.5], [draw]]), np.array([0.1]), Fraction(1, 20))


@pytest.mark.parametrize("error", [Fraction(1, 2), Fraction(1, 10)])
def test_a_mean_fails_no_more_often_than_it_says_by_enumeration(error):
    """All outcomes of four draws of three values, at laws of a grid."""
    values = np.array([0.0, 0.5, 1.0])
    outcomes = np.array(np.meshgrid(*[range(3)] * 4)).reshape(4, -1)
    found = means_above(values[outcomes], error, answer)
    for a, b in [(i / 10, j / 10) for i in range(11) for j in range(11 - i)]:
        chance = np.array([1 - a - b, a, b])
        weight = chance[outcomes].prod(axis=0)
        mean = float(chance @ values)
        assert weight[[each > mean for each in found]].sum() <= error + 1e-9


def test_a_band_is_that_of_massart():
    for trials, error in ((1, 0.5), (267, 1e-4), (10**6, 1e-9)):
        found = band(trials, Fraction(error))
        assert math.isclose(found, math.sqrt(math.log(2 / error) / (2 * trials)), rel_tol=1e-12)
        assert 2 * math.exp(-2 * trials * found**2) <= error * (1 + 1e-9)


def test_drawn_rows_are_those_of_all_samples_there_are():
    for rows in range(1, 12):
        for size in range(rows + 1):
            for marked in range(rows + 1):
                chances, whole = hypergeometric(rows, size, marked)
                assert len(chances) == min(size, marked) + 1
                for count, chance in enumerate(chances):
                    ways = math.comb(marked, count) * math.comb(rows - marked, size - count)
                    truth = Fraction(ways, math.comb(rows, size))
                    assert truth <= Fraction(chance, whole) <= truth * (1 + Fraction(1, 2**100))
                assert few_drawn(rows, size, marked, size) == 1
                assert few_drawn(rows, size, marked, -1) == 0
    for rows, size, marked in ((5, 6, 1), (5, 1, 6), (5, -1, 2), (2**22, 2**21, 2**21)):
        with pytest.raises(Rejected):
            hypergeometric(rows, size, marked)


def test_of_many_rows_few_drawn_are_those_of_scipy():
    for rows, size, marked, most in (
        (10**6, 3000, 1001, 3),
        (32561, 3000, 326, 14),
        (50, 30, 40, 22),
    ):
        truth = hypergeom.cdf(most, rows, marked, size)
        assert float(few_drawn(rows, size, marked, most)) == pytest.approx(truth, rel=1e-9)
