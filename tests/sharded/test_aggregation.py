"""Private aggregation draws with the chances of its formula, and these are private."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from leaveout.models.sharded.aggregation import (
    chances,
    draw_exponential,
    draw_function,
    majority,
    operating_system,
)


def ballots(shards, labels):
    """Return all ways shards can vote."""
    return [
        votes
        for votes in itertools.product(range(shards + 1), repeat=labels)
        if sum(votes) == shards
    ]


@pytest.mark.parametrize("mechanism", ["exponential", "noisy_max"])
@pytest.mark.parametrize("epsilon", [0.01, 0.7, 3.0])
def test_one_shard_moves_no_chance_by_more_than_epsilon(mechanism, epsilon):
    for shards, labels in ((1, 2), (6, 2), (5, 3), (4, 4)):
        table = {votes: chances(votes, mechanism, epsilon) for votes in ballots(shards, labels)}
        worst = 0.0
        for votes, (a, b) in itertools.product(table, itertools.permutations(range(labels), 2)):
            if votes[a]:
                moved = list(votes)
                moved[a] -= 1
                moved[b] += 1
                pairs = zip(table[votes], table[tuple(moved)])
                worst = max(worst, *(abs(math.log(p / q)) for p, q in pairs))
        assert worst <= epsilon * (1 + 1e-12)
        assert worst > 0.4 * epsilon


def test_epsilon_is_approached_when_shards_agree():
    before, after = chances((30, 0), "exponential", 0.7), chances((29, 1), "exponential", 0.7)
    assert 0.999 * 0.7 < math.log(after[1] / before[1]) < 0.7


def test_the_exponential_mechanism_is_its_formula():
    for votes in ((3, 1, 2), (0, 9, 0), (40, 40, 1)):
        weights = np.exp(0.4 * np.array(votes) / 2)
        assert np.allclose(
            [float(each) for each in chances(votes, "exponential", 0.4)], weights / weights.sum()
        )


@pytest.mark.parametrize("mechanism", ["exponential", "noisy_max"])
def test_answers_are_as_frequent_as_the_formula_says(mechanism):
    votes, epsilon, drawn = (5, 3, 2, 4), 0.8, 20_000
    draw, chance = draw_function(mechanism, epsilon), random.Random(1)
    counts = np.bincount([draw(votes, chance) for _ in range(drawn)], minlength=4)
    expected = np.array([float(each) for each in chances(votes, mechanism, epsilon)]) * drawn
    assert chisquare(counts, expected).pvalue > 1e-3
    other = np.array([float(each) for each in chances(votes, mechanism, 1.0)]) * drawn
    assert chisquare(counts, other).pvalue < 1e-6


def test_noisy_max_is_the_largest_vote_with_exponential_noise():
    votes, epsilon, drawn = np.array([5, 3, 2, 4]), 0.8, 40_000
    noise = np.random.default_rng(0).exponential(2 / epsilon, (drawn, 4))
    counts = np.bincount((votes + noise).argmax(axis=1), minlength=4)
    expected = [float(each) * drawn for each in chances(tuple(votes), "noisy_max", epsilon)]
    assert chisquare(counts, expected).pvalue > 1e-3


def test_exponential_is_the_largest_vote_with_gumbel_noise():
    votes, epsilon, drawn = np.array([5, 3, 2, 4]), 0.8, 40_000
    noise = np.random.default_rng(0).gumbel(0, 2 / epsilon, (drawn, 4))
    counts = np.bincount((votes + noise).argmax(axis=1), minlength=4)
    expected = [float(each) * drawn for each in chances(tuple(votes), "exponential", epsilon)]
    assert chisquare(counts, expected).pvalue > 1e-3


def test_no_label_becomes_impossible_by_rounding():
    odds = chances((0, 4096), "exponential", 1.0)
    assert 0 < odds[0] < Fraction(1, 10**800)
    numerator, denominator = odds[0].numerator, odds[0].denominator
    found = (math.log2(numerator) - math.log2(denominator)) * math.log(2)
    assert found == pytest.approx(-2048, abs=1e-6)


def test_a_majority_vote_gives_a_tie_to_the_lowest_label():
    assert majority((2, 3, 3)) == 1
    assert chances((2, 3, 3), "majority", 0.0) == (0, 1, 0)


def test_production_draws_from_the_operating_system():
    chance = operating_system()
    assert isinstance(chance, random.SystemRandom)
    assert draw_exponential((1000, 0), 1.0, chance) == 0
