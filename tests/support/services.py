"""Exact laws of small services: seeds, the answers they give, and what these tell."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

__all__ = ["Laws", "enumerated"]


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
