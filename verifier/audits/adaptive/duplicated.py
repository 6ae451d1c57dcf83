"""The black-box attack of Theorem 3.1: duplicated points and lookup models."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from leaveout.models.sharded.aggregation import draw_function
from leaveout.verifier.audits.adaptive.trials import Trial

_MOST_COPIES = 100_000
_majority = draw_function("majority", 0.0)


@dataclass(frozen=True)
class Duplicated:
    """Delete every point that is answered right, then watch the remaining ones fail.

    Every point is there in several copies. A model that looks points up votes for the label of
    those it was trained on, and for none otherwise; a point is answered right if enough shards hold
    a copy. Points answered right are deleted, all copies of them. Where answers tell of the shards,
    what is left is what too few shards hold, while retraining draws shards anew.

    Row ids: copy j of point i has the id ``i * copies + j``.

    Attributes
    ----------
    points, copies, shards : int
        Theorem 3.1 has two copies and three shards.
    inclusion : float or None
        Probability that a shard holds a row, independently; None for a partition, in which each
        row is in one shard.
    aggregate : callable
        What turns votes (for none, for the right label) and chance into 0 or 1, such as
        `leaveout.models.sharded.aggregation.draw_function` gives.
    queries : int or None
        Points asked about; None for all. Events are of these points.
    thresholds : tuple of float
        An event each: the majority of votes is right on a smaller share of what is left.
    """

    points: int = 100
    copies: int = 2
    shards: int = 3
    inclusion: float | None = None
    aggregate: Callable[[Sequence[int], random.Random], int] = _majority
    queries: int | None = None
    thresholds: tuple[float, ...] = (0.25,)

    @classmethod
    def against(cls, shards: int, inclusion: float, rows: int) -> Duplicated | None:
        """Return the attack on a majority vote of shards that hold rows independently.

        With as many copies as make it as likely as not that a point is answered right, so that
        many are deleted and many are left.

        Parameters
        ----------
        shards : int
        inclusion : float
        rows : int
            At most this many.

        Returns
        -------
        Duplicated or None
            None if no number of copies makes the attack possible.
        """

        def right(copies: int) -> float:
            return float(binom.sf(shards // 2, shards, _holding_probability(inclusion, copies)))

        copies = 1
        while copies < _MOST_COPIES and right(2 * copies) < 0.5:
            copies *= 2
        copies = min(range(copies, 2 * copies + 1), key=lambda count: abs(right(count) - 0.5))
        points, share = min(100, rows // copies), right(copies)
        if points < 2 or not 0.01 < share < 0.99:
            return None
        return cls(points, copies, shards, inclusion, thresholds=(share / 4,))

    @property
    def events(self) -> tuple[str, ...]:
        """The events to look for in models."""
        return tuple(f"right on less than {at:.3g} of what is left" for at in self.thresholds)

    @property
    def retrained_at_most(self) -> tuple[float, ...]:
        """No bound: the retrained arm is measured."""
        return (1.0,) * len(self.thresholds)

    def replay(self, seed: int, number: int) -> Trial:
        """Run one trial; the same arguments give the same trial."""
        generator = np.random.default_rng([seed, number])
        chance = random.Random(int(generator.integers(2**63)))
        asked = np.arange(self.points if self.queries is None else min(self.queries, self.points))
        holding = self._draw_holdings(generator, len(asked))
        answers = [
            self.aggregate((self.shards - int(votes), int(votes)), chance) for votes in holding
        ]
        left = np.asarray(answers) != 1
        # Look-up models of other points are the same before and after a deletion.
        unlearned = self._event_flags(holding[left])
        retrained = self._event_flags(self._draw_holdings(generator, int(left.sum())))
        deleted = (asked[~left, None] * self.copies + np.arange(self.copies)).ravel()
        return Trial(seed, number, tuple(deleted.tolist()), unlearned, retrained)

    def _draw_holdings(self, generator: np.random.Generator, points: int) -> NDArray[np.int64]:
        """Draw how many shards hold a copy of each point."""
        if self.inclusion is not None:
            share = _holding_probability(self.inclusion, self.copies)
            return generator.binomial(self.shards, share, size=points)
        shards = np.sort(generator.integers(self.shards, size=(points, self.copies)), axis=1)
        distinct: NDArray[np.int64] = 1 + (np.diff(shards, axis=1) != 0).sum(axis=1)
        return distinct

    def _event_flags(self, holding: NDArray[np.int64]) -> tuple[bool, ...]:
        """Return which events happened."""
        if not len(holding):
            return (False,) * len(self.thresholds)
        right = float((2 * holding > self.shards).mean())
        return tuple(right < threshold for threshold in self.thresholds)


def _holding_probability(inclusion: float, copies: int) -> float:
    """Return the probability that a shard holds a copy."""
    return float(-np.expm1(copies * np.log1p(-inclusion))) if inclusion < 1 else 1.0
