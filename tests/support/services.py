"""Exact laws of small services: seeds, the answers they give, and what these tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np

__all__ = ["Laws", "enumerated", "least_near_mean", "moments_of", "together_of"]


@dataclass(frozen=True, eq=False)
class Laws:
    """The joint law of seeds and transcripts.

    Attributes
    ----------
    likely : ndarray of float64, shape (seeds, transcripts)
        Chance of a transcript given the seeds, which are all as likely.
    """

    likely: np.ndarray

    @property
    def chances(self) -> np.ndarray:
        """Chances of transcripts."""
        return self.likely.mean(axis=0)

    def beyond(self, alpha: float) -> np.ndarray:
        """Return by how much the posterior exceeds e^alpha times the prior, by transcript."""
        posterior = self.likely / self.likely.sum(axis=0)
        return np.maximum(posterior - np.exp(min(alpha, 500)) / len(self.likely), 0).sum(axis=0)


def enumerated(shards: int, predictions: int, epsilon: float, seed: int) -> Laws:
    """Return the laws of answers of the exponential mechanism to two labels.

    Each shard has a seed of two values, and votes one or the other label by it, or not, as it is
    asked; what is asked depends on the answers before. Questions are drawn, the first of all
    shards' own seeds.
    """
    rng = np.random.default_rng(seed)
    asked: dict[tuple[int, ...], np.ndarray] = {}
    columns = []
    seeds = np.array(list(product((0, 1), repeat=shards)))
    for answers in product((0, 1), repeat=predictions):
        chance = np.ones(len(seeds))
        for done, answer in enumerate(answers):
            before = answers[:done]
            if before not in asked:
                asked[before] = rng.integers(0, 4, shards) if before or seed else np.zeros(shards)
            kind = asked[before]
            # 0: the seed, 1: its opposite, 2 and 3: a constant.
            votes = np.where(kind < 2, (seeds + kind) % 2, kind - 2).sum(axis=1)
            odds = epsilon * (2 * votes - shards) / 2
            right = 1 / (1 + np.exp(-odds))
            chance = chance * (right if answer else 1 - right)
        columns.append(chance)
    return Laws(np.array(columns).T)


def moments_of(shards: int, epsilon: float, count: int, beta: float, order: float) -> float:
    """Return the alpha of moments, as of ``docs/sharded.md``, in floats."""
    saved = order * math.log1p(1 / order) + math.log1p(order)
    variance = shards * (count * epsilon) ** 2 / 8
    return max(0.0, (1 + order) * variance + (math.log(1 / beta) - saved) / order)


def together_of(shards: int, span: float, count: int, tail: float) -> float:
    """Return the alpha of all seeds and answers together, likewise."""
    width = shards * span
    return count * width**2 / 8 + width * math.sqrt(count * math.log(1 / tail) / 2)


def least_near_mean(
    shards: int, epsilon: float, span: float, count: int, labels: int, tail: float, share: float
) -> float:
    """Return the least alpha of votes near their mean, likewise, from below; infinite if none."""
    alpha = 0.0
    for _ in range(3000):
        each = (1 - share) * tail / (count * math.exp(alpha))
        width = span * math.sqrt(shards * math.log(labels * (labels - 1) / each) / 2)
        implied = count * (width**2 + shards * epsilon**2) / 8
        implied += width * math.sqrt(count * math.log(1 / (share * tail)) / 2)
        if implied <= alpha * (1 + 1e-13):
            return alpha
        if implied > 100:
            return math.inf
        alpha = implied
    return math.inf
