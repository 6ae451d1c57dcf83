"""From the votes of shards to a label: with exactly known probabilities, or by majority."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.models.sharded.settings import Mechanism

Chance: TypeAlias = random.Random
"""Source of random whole numbers; `random.SystemRandom` in production."""

_DIGITS = 40  # decimal places of weights beyond those that the least likely label needs


def operating_system() -> Chance:
    """Return the operating system's secure random source."""
    return random.SystemRandom()


def majority(votes: Sequence[int]) -> int:
    """Return the label with the most votes; ties go to the lowest."""
    return max(range(len(votes)), key=lambda label: (votes[label], -label))


def draw_exponential(votes: Sequence[int], epsilon: float, chance: Chance) -> int:
    """Draw a label: Pr[y] proportional to exp(epsilon * v_y / 2).

    Integer weights are correct to 40 digits, so rounding makes no label impossible. One shard's
    seed changes any probability by at most exp(epsilon).
    """
    weights, _ = _weights(epsilon, tuple(max(votes) - vote for vote in votes))
    drawn = chance.randrange(sum(weights))
    for label, weight in enumerate(weights):
        drawn -= weight
        if drawn < 0:
            return label
    raise AssertionError("the number drawn exceeds the sum of the weights")


def draw_noisy_max(votes: Sequence[int], epsilon: float, chance: Chance) -> int:
    """Permute-and-flip (McKenna, Sheldon 2020): a seed moves chances by factors exp(epsilon)."""
    weights, whole = _weights(epsilon, tuple(max(votes) - vote for vote in votes))
    exceeding = [y for y, weight in enumerate(weights) if chance.randrange(whole) < weight]
    return exceeding[chance.randrange(len(exceeding))]


def draw_function(mechanism: Mechanism, epsilon: float) -> Callable[[Sequence[int], Chance], int]:
    """Return the function that draws a label from votes."""
    if mechanism == "exponential":
        return lambda votes, chance: draw_exponential(votes, epsilon, chance)
    if mechanism == "noisy_max":
        return lambda votes, chance: draw_noisy_max(votes, epsilon, chance)
    return lambda votes, _: majority(votes)


def chances(votes: Sequence[int], mechanism: Mechanism, epsilon: float) -> tuple[Fraction, ...]:
    """Return each label's exact probability; 2^labels steps for "noisy_max"."""
    count = len(votes)
    if mechanism == "majority":
        return tuple(Fraction(label == majority(votes)) for label in range(count))
    weights, whole = _weights(epsilon, tuple(max(votes) - vote for vote in votes))
    if mechanism == "exponential":
        return tuple(Fraction(weight, sum(weights)) for weight in weights)
    found = [Fraction(0)] * count
    for flips in product((False, True), repeat=count):
        likely = Fraction(1)
        for flip, weight in zip(flips, weights, strict=True):
            likely *= Fraction(weight if flip else whole - weight, whole)
        for label in range(count):
            if flips[label] and likely:
                found[label] += likely / sum(flips)
    return tuple(found)


def expected_chances(
    votes: NDArray[np.int64], mechanism: Mechanism, epsilon: float
) -> NDArray[np.float64]:
    """Return label probabilities in float64, to evaluate settings only."""
    labels = votes.shape[1]
    if mechanism == "majority":
        return np.asarray(np.eye(labels)[votes.argmax(axis=1)], dtype=np.float64)
    weights: NDArray[np.float64] = np.exp(-epsilon / 2 * (votes.max(axis=1, keepdims=True) - votes))
    if mechanism == "exponential":
        shares: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return shares
    found = np.empty(votes.shape)
    for label in range(labels):
        # The number of other labels above the threshold: a sum of independent bits.
        many = np.zeros((len(votes), labels))
        many[:, 0] = 1.0
        for other in range(labels):
            if other != label:
                weight = weights[:, [other]]
                many[:, 1:] = many[:, 1:] * (1 - weight) + many[:, :-1] * weight
                many[:, :1] *= 1 - weight
        found[:, label] = weights[:, label] * (many / np.arange(1, labels + 1)).sum(axis=1)
    return found


@lru_cache(maxsize=1024)
def _weights(epsilon: float, behind: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return integers proportional to exp(-epsilon * behind / 2), and that for ``behind = 0``."""
    # One decimal digit is ln 10 = 2.30 nats.
    places = _DIGITS + int(epsilon * max(behind) / 4.6) + 1
    with localcontext() as context:
        context.prec = places + _DIGITS
        half = Decimal(epsilon) / 2
        scale = Decimal(10) ** places
        weights = tuple(int((-half * votes).exp() * scale) for votes in behind)
        return weights, int(scale)
