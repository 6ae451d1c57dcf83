"""Bounds of means and distributions fail no more often than they say."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from leaveout.kernel.tails import band
from leaveout.verifier.audits.membership.advantage import mean_upper, sign_test
from leaveout.verifier.certify.audits import means_above


@pytest.mark.parametrize("trials", [1, 4, 13])
@pytest.mark.parametrize("error", [0.3, 0.05])
def test_bounds_of_a_coin_fail_with_at_most_their_error_by_enumeration(trials, error):
    outcomes = np.arange(trials + 1)
    tosses = (np.arange(trials)[:, None] < outcomes).astype(float)
    lower, upper = means_above(tosses, error), mean_upper(tosses, error)
    assert ((lower <= tosses.mean(axis=0)) & (tosses.mean(axis=0) <= upper)).all()
    for chance in np.linspace(0.01, 0.99, 99):
        weight = binom.pmf(outcomes, trials, chance)
        assert weight[lower > chance].sum() <= error
        assert weight[upper < chance].sum() <= error


def test_bounds_of_a_skewed_mean_hold():
    rng = np.random.default_rng(0)
    draws = rng.beta(0.3, 1.2, size=(15, 4000))
    missed = int((means_above(draws, 0.1) > 0.2).sum())
    assert binomtest(missed, 4000, 0.1, alternative="greater").pvalue > 1e-4


def test_bounds_close_in_on_a_mean_that_hardly_varies():
    draws = np.random.default_rng(1).uniform(0.48, 0.52, size=(60, 1))
    assert 0.42 < means_above(draws, 0.05)[0] < 0.5 < mean_upper(draws, 0.05)[0] < 0.58


def test_all_zeros_and_all_ones():
    assert means_above(np.zeros((9, 1)), 0.05)[0] == 0
    assert mean_upper(np.ones((9, 1)), 0.05)[0] == 1
    assert mean_upper(np.zeros((40, 1)), 0.05)[0] < 0.2


def test_no_distribution_function_is_further_off_than_the_margin():
    rng = np.random.default_rng(2)
    draws = np.sort(rng.random((3000, 12)), axis=1)
    steps = np.arange(13) / 12
    off = np.maximum(steps[1:] - draws, draws - steps[:-1]).max(axis=1)
    missed = int((off > float(band(12, Fraction(1, 10)))).sum())
    assert binomtest(missed, 3000, 0.1, alternative="greater").pvalue > 1e-4


def test_the_sign_test_counts_pairs():
    assert sign_test(0, 0) == 1
    assert sign_test(10, 0) == pytest.approx(2 / 2**10)
    assert sign_test(3, 1) == sign_test(1, 3)
