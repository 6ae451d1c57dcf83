"""How many shards one update retrains, with high probability."""

from __future__ import annotations

import math

from scipy.stats import binom


def retrained_at_most(shards: int, inclusion: float, risk: float, points: int | None = None) -> int:
    """Return how many shards an update retrains, except with probability ``risk``.

    A point is in a number of shards that is binomial. Whoever chooses updates without seeing
    answers meets one such number; whoever sees them meets at worst the largest of ``points``.

    Parameters
    ----------
    shards : int
    inclusion : float
        Probability that a shard holds a point.
    risk : float
        Above 0 and below 1.
    points : int or None
        Points there ever were: those first fitted and those added. None if updates are chosen
        without seeing answers.
    """
    share = risk / (1 if points is None else max(1, points))
    bound = int(binom.isf(share, shards, inclusion))
    # The quantile is a float's; step up until the tail itself is small enough, with room to err.
    while bound < shards and binom.sf(bound, shards, inclusion) * (1 + 1e-9) > share:
        bound += 1
    return min(bound, shards)


def published_retrained(risk: float, points: int | None = None) -> float:
    """Return the bound as stated in Theorem 5.2 of *Adaptive Machine Unlearning*.

    ``1 + sqrt(2 ln(1 / risk))``, and with ``points`` (n + t) in the numerator where updates are
    adaptive. It is the tail of a normal law; a binomial one's is heavier once there are more than
    a few shards, so it is here to compare with and guarantees nothing.
    """
    return 1 + math.sqrt(2 * math.log((1 if points is None else points) / risk))
