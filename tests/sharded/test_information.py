"""What transcripts tell of seeds, by exact enumeration, never exceeds the formulas."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from leaveout.kernel.services import Service, moments, near_mean
from leaveout.models.sharded.accounting import (
    any_transcript,
    best_order,
    near_bound,
    on_average,
    round_up,
)
from leaveout.models.sharded.aggregation import chances

from support.depth import enough, rounds

TAILS = (0.3, 0.05, 1e-3, 1e-6)


def service(epsilon, seeds, count=1, mechanism="exponential", labels=None):
    inclusion = Fraction(1, seeds), Fraction(1, seeds)
    return Service(seeds, 1000, mechanism, inclusion, Fraction(epsilon), count, labels)


def max_information(epsilon, seeds, tail):
    """Return the first bound of ``docs/sharded.md``, on any transcript."""
    spread = seeds * epsilon**2 / 8 + epsilon * math.sqrt(seeds * math.log(1 / tail) / 2)
    return min(epsilon * seeds, spread) * (1 + 1e-12)


def least_information(epsilon, seeds, excess):
    return round_up(any_transcript(service(epsilon, seeds), excess).alpha)


def composed_information(epsilon, count, seeds, mechanism, tail, labels):
    return round_up(on_average(service(epsilon, seeds, count, mechanism, labels), 1.0, tail).alpha)


def mechanisms(rng, many):
    """Yield prior of a seed, seed vectors, and Pr[y | seeds] of private mechanisms of all kinds."""
    for _ in range(many):
        seeds, values = int(rng.integers(1, 7)), int(rng.integers(2, 4))
        prior = rng.dirichlet(np.full(values, 2.0))
        vectors = np.array(list(itertools.product(range(values), repeat=seeds)))
        sharp = 10 ** rng.uniform(-2, 0.5)
        kind = rng.integers(3)
        if kind == 0:  # an exponential mechanism of scores that add up over seeds
            scores = rng.uniform(-1, 1, (int(rng.integers(2, 6)), seeds, values))
            logits = sharp * scores[:, np.arange(seeds), vectors].sum(axis=2).T
            likely = np.exp(logits)
        elif kind == 1:  # anything at all
            likely = np.exp(rng.uniform(-sharp, sharp, (len(vectors), int(rng.integers(2, 6)))))
        else:  # randomised response to one bit of each seed
            answers = np.array(list(itertools.product((0, 1), repeat=seeds)))
            agree = (vectors[:, None, :] % 2 == answers[None]).sum(axis=2)
            likely = np.exp(sharp * agree)
        yield prior, vectors, likely / likely.sum(axis=1, keepdims=True)


def privacy(vectors, likely):
    """Return the exact epsilon with respect to one seed."""
    near = (vectors[:, None] != vectors[None]).sum(axis=2) == 1
    logs = np.log(likely)
    return float(np.abs(logs[:, None] - logs[None])[near].max())


def told(prior, vectors, likely):
    """Return ln(posterior / prior) and the posterior, seeds by transcripts."""
    before = prior[vectors].prod(axis=1)
    marginal = before @ likely
    return np.log(likely / marginal), before[:, None] * likely / marginal


def test_no_transcript_tells_more_than_the_formula_and_the_formula_is_reached_up_to_a_factor():
    rng = np.random.default_rng(0)
    nearest = dict.fromkeys(TAILS, 0.0)
    for prior, vectors, likely in mechanisms(rng, 250):
        epsilon, seeds = privacy(vectors, likely), vectors.shape[1]
        ratio, posterior = told(prior, vectors, likely)
        assert ratio.max() <= least_information(epsilon, seeds, 0.0) * (1 + 1e-12)
        for tail in TAILS:
            bound = max_information(epsilon, seeds, tail)
            beyond = np.where(ratio > bound, posterior, 0).sum(axis=0)
            assert beyond.max() <= tail
            exact = np.array([quantile(*one, tail) for one in zip(ratio.T, posterior.T)]).max()
            nearest[tail] = max(nearest[tail], exact / bound)
    assert min(nearest.values()) > 0.4
    assert max(nearest.values()) <= 1


def quantile(ratio, weight, tail):
    """Return the least k that all but a share ``tail`` of the weight stays below."""
    order = np.argsort(-ratio)
    within = np.cumsum(weight[order]) <= tail
    return ratio[order][min(int(within.sum()), len(order) - 1)]


def excess(ratio, posterior, k):
    """Return the most any set of seeds exceeds e^k times its prior by, by transcript."""
    return (posterior * np.maximum(0, -np.expm1(np.minimum(0, k - ratio)))).sum(axis=0)


def test_no_set_of_seeds_exceeds_the_moment_bound_which_is_sharper():
    rng = np.random.default_rng(1)
    closest = 0.0
    for prior, vectors, likely in mechanisms(rng, 250):
        epsilon, seeds = privacy(vectors, likely), vectors.shape[1]
        ratio, posterior = told(prior, vectors, likely)
        for tail in TAILS:
            bound = least_information(epsilon, seeds, tail)
            assert bound <= max_information(epsilon, seeds, tail)
            assert excess(ratio, posterior, bound).max() <= tail
            if excess(ratio, posterior, 0.5 * bound).max() > tail:
                closest = 1.0
    assert closest  # half the bound is too small for some


def test_a_smaller_constant_would_be_wrong():
    """With eps sqrt(m ln(1/b) / 8) for / 2 the enumeration finds a mechanism that exceeds it."""
    seeds, epsilon, tail = 400, 0.1, 1e-6
    agree = np.arange(seeds + 1)  # randomised response: all answers are alike by symmetry
    keep = expit(epsilon)
    ratio = agree * math.log(2 * keep) + (seeds - agree) * math.log(2 * (1 - keep))
    weight = binom.pmf(agree, seeds, keep)
    exact = quantile(ratio, weight, tail)
    right = max_information(epsilon, seeds, tail)
    wrong = seeds * epsilon**2 / 8 + epsilon * math.sqrt(seeds * math.log(1 / tail) / 8)
    assert wrong < exact <= right < 1.2 * exact


@pytest.mark.parametrize("mechanism", ["exponential", "noisy_max"])
def test_adaptive_predictions_tell_no_more_than_their_composition(mechanism):
    rng = np.random.default_rng(2)
    for _ in range(12):
        seeds, count, labels = int(rng.integers(2, 7)), int(rng.integers(1, 5)), 2
        epsilon = 10 ** rng.uniform(-1.5, 0.3)
        prior = rng.dirichlet(np.full(2, 2.0))
        vectors = np.array(list(itertools.product((0, 1), repeat=seeds)))
        table = np.array(
            [
                [float(each) for each in chances((seeds - ones, ones), mechanism, epsilon)]
                for ones in range(seeds + 1)
            ]
        )
        likely = np.ones((len(vectors), 1))
        for _ in range(count):  # each transcript goes on with a question of its own
            asked = rng.integers(0, 2, (likely.shape[1], seeds, 2))
            votes = asked[:, np.arange(seeds), vectors].sum(axis=2).T
            likely = (likely[:, :, None] * table[votes]).reshape(len(vectors), -1)
        ratio, posterior = told(prior, vectors, likely)
        joint = posterior * (prior[vectors].prod(axis=1) @ likely)
        for tail in TAILS:
            for known in (None, labels):
                bound = composed_information(epsilon, count, seeds, mechanism, tail, known)
                assert joint[ratio > bound].sum() <= tail


def test_many_predictions_of_many_shards_tell_nearly_as_much_as_their_composition_allows():
    seeds, epsilon, tail = 200, 0.002, 1e-6
    ones = np.arange(seeds + 1)
    share = expit(epsilon * (2 * ones - seeds) / 2)
    before = binom.pmf(ones, seeds, 0.5)
    for count in (100, 1000):
        answered = np.arange(count + 1)
        likely = binom.pmf(answered[None], count, share[:, None])
        marginal = before @ likely
        ratio = np.log(np.maximum(likely, 1e-300)) - np.log(np.maximum(marginal, 1e-300))
        joint = before[:, None] * likely
        order = np.argsort(-ratio, axis=None)
        gone = np.cumsum(joint.ravel()[order]) <= tail
        exact = ratio.ravel()[order][int(gone.sum())]
        bound = composed_information(epsilon, count, seeds, "exponential", tail, 2)
        assert exact <= bound < 8 * exact
        assert bound < max_information(count * epsilon, seeds, tail)


def test_a_rare_value_of_one_seed_shows_within_a_factor_what_answers_to_it_tell():
    epsilon, tail, rare = 0.5, 1e-4, 0.01
    for count in (5, 20, 60):
        answered = np.arange(count + 1)
        likely = binom.pmf(answered, count, expit(epsilon * np.array([[-0.5], [0.5]])))
        before = np.array([[1 - rare], [rare]])
        ratio = np.log(likely / (before * likely).sum(axis=0))
        exact = quantile(ratio.ravel(), (before * likely).ravel(), tail)
        bound = composed_information(epsilon, count, 1, "exponential", tail, None)
        assert exact <= bound < 3 * exact


def test_nothing_published_tells_nothing_and_too_much_is_not_bounded():
    assert any_transcript(service(0.1, 10, 0), 1e-3).alpha == 0
    assert on_average(service(0.1, 10, 5, labels=2), 1e-3, 0.0) is None
    assert composed_information(1.0, 10**6, 10**4, "exponential", 1e-6, 2) > 50


@pytest.mark.parametrize("beta", [0.5, 1e-3, 1e-9])
def test_no_order_of_moments_shows_less_than_the_one_chosen(beta):
    rng = np.random.default_rng(3)
    for _ in range(rounds(40)):
        found = service(10 ** rng.uniform(-4, 0), int(10 ** rng.uniform(0, 4)))
        best = moments(found, Fraction(beta), Fraction(best_order(found, beta)))
        for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
            order = Fraction(best_order(found, beta) * factor)
            assert best <= moments(found, Fraction(beta), order) * (1 + Fraction(1, 10**9))


def test_no_smaller_bound_is_confirmed_than_the_one_chosen():
    rng = np.random.default_rng(4)
    seen = 0
    for _ in range(rounds(200)):
        found = service(
            10 ** rng.uniform(-6, -2), int(10 ** rng.uniform(0, 4)), int(10 ** rng.uniform(0, 4)),
            labels=int(rng.integers(2, 9)),
        )  # fmt: skip
        bound, numbers = near_bound(found, 1e-6), (Fraction(1, 1000), Fraction(1, 1000))
        if bound is not None:
            seen += 1
            half = Fraction(1, 2)
            assert near_mean(found, *numbers, Fraction(bound), half) is not None
            assert near_mean(found, *numbers, Fraction(bound * (1 - 1e-6)), half) is None
    assert seen > enough(50)
