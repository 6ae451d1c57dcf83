"""The noise has the chances it should have, and hides which network answers."""

from __future__ import annotations

import math
import random
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from leaveout.models.sharded.aggregation import chances
from leaveout.verifier.guard import Guard
from leaveout.verifier.guard.guard import draw_noisy_label, randomness

SAMPLES = 40_000


def formula(label, labels, epsilon):
    weights = [math.exp(epsilon * (each == label) / 2) for each in range(labels)]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("labels", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0, 5.0])
def test_frequencies_are_those_of_the_formula(labels, epsilon):
    chance = random.Random(1)
    drawn = np.bincount(
        [draw_noisy_label(1, labels, epsilon, chance) for _ in range(SAMPLES)], minlength=labels
    )
    expected = np.array(formula(1, labels, epsilon)) * SAMPLES
    assert chisquare(drawn, expected).pvalue > 1e-4
    # The test can fail: a label less is seen.
    assert chisquare(drawn, np.roll(expected, 1)).pvalue < 1e-4 or epsilon == 0


def test_a_guard_draws_each_input_anew(either, grid, tmp_path):
    """Over all leaks of one label, answers are as the formula has them."""
    with Guard.load(either.folder, 1.0, memory=tmp_path / "a.sqlite", seed=3) as guard:
        rng = np.random.default_rng(2)
        points = rng.random((4000, 2)).astype(np.float32)
        found = guard.inspect(points)
        for label in range(3):
            chosen = points[found.leaks & (found.labels == label)]
            if len(chosen) < 100:
                continue
            drawn = np.bincount(guard.labels(chosen), minlength=3)
            expected = np.array(formula(label, 3, 1.0)) * len(chosen)
            assert chisquare(drawn, expected).pvalue > 1e-4
        plain = found.tiers < 3
        assert (guard.labels(points[plain]) == found.labels[plain]).all()


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0, 3.0])
def test_the_inequality_holds_on_neighbours(either, grid, epsilon):
    """Whatever model is in place, N or a member, no answer's chance changes by more."""
    points = grid[::7]
    _, leaks = either.truth(points)
    worst = 0.0
    for answers, leak in zip(either.answers(points).T.tolist(), leaks):
        laws = []
        for label in answers:
            if leak:
                utility = [int(each == label) for each in range(3)]
                laws.append([float(p) for p in chances(utility, "exponential", epsilon)])
            else:
                laws.append([float(each == label) for each in range(3)])
        for own, other in product(laws[:1], laws[1:]):
            for p, q in zip(own, other):
                assert p <= math.exp(epsilon) * q * (1 + 1e-12) and q <= math.exp(epsilon) * p * (
                    1 + 1e-12
                )
                if p and q:
                    worst = max(worst, abs(math.log(p / q)))
    # Labels change by half as much: one utility rises where another falls, their sum stays.
    assert worst == pytest.approx(epsilon / 2, abs=1e-12)


def test_a_seed_answers_alike_in_any_order(either, grid, tmp_path):
    points = grid[either.truth(grid)[1]][:20]
    found = []
    for at, order in enumerate((1, -1)):
        with Guard.load(either.folder, 0.2, memory=tmp_path / f"{at}.sqlite", seed=9) as guard:
            found.append(guard.labels(points[::order])[::order])
    assert (found[0] == found[1]).all()


def test_without_a_seed_answers_differ(either, grid, tmp_path):
    points = grid[either.truth(grid)[1]]
    assert len(points) >= 60
    found = []
    for at in range(2):
        with Guard.load(either.folder, 0.0, memory=tmp_path / f"{at}.sqlite") as guard:
            found.append(guard.labels(points))
    assert (found[0] != found[1]).any()


def test_randomness_is_the_operating_systems_unless_seeded():
    assert isinstance(randomness(None)(b""), random.SystemRandom)
    assert randomness(1)(b"a").random() == randomness(1)(b"a").random()
    assert randomness(1)(b"a").random() != randomness(2)(b"a").random()
