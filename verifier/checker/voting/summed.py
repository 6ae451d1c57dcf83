"""Upper bound of any attack's loss: sums of batches, shares and remainders.

Where y of the shares of a point count and m of the bound of its batch, a point that is lost counts
at most ``y + m + max(0, 1 - y - m)`` times: its shares are at least 1 together, and a batch loses
no more points than its bound. So no attack loses more than these sums of all points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.at_stake import AtStake
from leaveout.verifier.checker.voting.together import (
    WHOLE,
    WORK,
    no_more_lost,
    shares_of,
    starts_of,
)

SUMMED = ("batches", "uppers", "taken", "counted")
"""Arrays of such a proof."""

_ONE = 256
"""A y or an m of 1."""

_LEAST = 1e8
"""Numbers that may be looked at for a batch, at least."""


def most_summed(stake: AtStake, proof: Mapping[str, NDArray[Any]], work: float = WORK) -> int:
    """Return how many points no attack loses more than."""
    points = np.unique(stake.points)
    batches, uppers, taken, counted = (proof[name].astype(np.int64) for name in SUMMED)
    if batches.shape != points.shape or counted.shape != points.shape:
        raise RejectedError(
            f"its sum is over {batches.shape} points, and {len(points)} are at stake"
        )
    if uppers.ndim != 1 or taken.shape != uppers.shape:
        raise RejectedError("its sum has not one bound for each batch")
    if not ((batches >= -1) & (batches < len(uppers))).all():
        raise RejectedError("its sum has points of batches that it does not have")
    if not all(((each >= 0) & (each < 2**16)).all() for each in (uppers, taken, counted)):
        raise RejectedError("its sum has numbers that count nothing")
    own = max(_LEAST, work / max(1, len(uppers)))
    for number in np.flatnonzero(taken).tolist():
        inside = points[batches == number]
        upper = int(uppers[number])
        if upper < len(inside) and not no_more_lost(stake.only(inside), upper, own):
            raise RejectedError(f"its sum says that a batch loses {upper} points; it loses more")
    missing = np.maximum(_ONE - counted - np.append(taken, 0)[batches], 0)
    total = (int(missing.sum()) + int(taken @ uppers)) * WHOLE
    if counted.any():
        total += _heaviest(stake, counted)
    return total // (_ONE * WHOLE)


def _heaviest(stake: AtStake, counted: NDArray[np.int64]) -> int:
    """Return what the units that may be poisoned weigh at most, by shares as far as they count."""
    shares = shares_of(
        stake.of_units(stake.gains),
        stake.needs,
        starts_of(stake.points),
        sum(stake.quotas),
        plain=len(stake.offsets) == 1,
    )
    weights = shares.astype(np.int64) @ counted
    total = 0
    for number, quota in enumerate(stake.quotas):
        total += int(np.sort(weights[stake.family == number])[::-1][:quota].sum())
    return total
