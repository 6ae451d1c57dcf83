"""Poisoned parts that force one answer: counted, or proved by prices and votes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.spread_proof import array
from leaveout.verifier.checker.voting.tallies import FAR, Counts, Votes, blocks, counts_of

_NEVER = -1
_UNIT = 2**20
"""Prices are whole multiples of one over this."""

_LARGEST = 2**62


def plurality_radii_to(votes: Votes, labels: int, target: int) -> Counts:
    """Return how many poisoned parts leave each answer other than a label, -1 where it is that.

    The poisoned members vote for the label, which they did not before. So with r of them it has r
    votes more, and wins if the r members can be taken so that no other label keeps as many (or
    more, where a tie goes to it): one member after the other is given to it until that is so.
    """
    found = np.zeros(len(votes), np.int64)
    names = np.arange(labels)
    for at in blocks(len(votes), labels):
        counts = counts_of(votes[at], labels)
        own = counts[:, target].copy()
        counts[:, target] = 0
        edits = np.full(len(counts), -1)
        for taken in range(votes.shape[1] + 1):
            # A tie goes to the smaller label.
            most = (own + taken)[:, None] - (names < target)
            wins = np.maximum(counts - most, 0)[:, names != target].sum(axis=1) <= taken
            edits = np.where((edits < 0) & wins, taken, edits)
        found[at] = edits - 1
    return found


def threshold_bounds_to(
    votes: Votes,  # shape (points, parts)
    too_little: NDArray[np.int32],  # shape (points, parts, labels)
    enough: NDArray[np.int32],  # shape (points, parts, labels)
    labels: int,
    target: int,
    proof: Mapping[str, NDArray[Any]],
) -> tuple[Counts, Counts]:
    """Return how many edits leave each answer other than a label: at least, and at most.

    With T votes for the label there are at most T - [c < label] for another one, c. So whatever
    members vote, for prices y, those of other labels not negative, it costs at least ``sum_i min_v
    (b_iv + y_v) - sum_c y_c (T - [c < label]) - y_label T``; the least over T of the greatest over
    the prices that are given is the bound. Votes that make the label win are what it costs at most.
    Where thresholds are not exact, fewer than b do not bring about a vote, and others are enough.
    """
    points, parts = votes.shape
    low, high = np.zeros(points, np.int64), np.full(points, FAR)
    if "prices" in proof:
        places, prices = array(proof, "points", np.int64, 1), array(proof, "prices", np.int64, 3)
        cast = array(proof, "votes", np.int32, 2)
        own = len(places)
        if prices.shape[::2] != (own, labels) or cast.shape != (own, parts):
            raise RejectedError("its prices and votes are of other ballots")
        if ((places < 0) | (places >= points)).any() or ((cast < 0) | (cast >= labels)).any():
            raise RejectedError("its votes are for labels or at test points that there are not")
        for at, point in enumerate(places.tolist()):
            costs = too_little[point].astype(np.int64)
            low[point] = max(low[point], _least(costs, target, prices[at]) - 1)
            paid = enough[point].astype(np.int64)[np.arange(parts), cast[at]]
            wins = np.bincount(cast[at], minlength=labels).argmax() == target
            if wins and (paid != _NEVER).all():
                high[point] = min(high[point], int(paid.sum()) - 1)
    answered = counts_of(votes, labels).argmax(axis=1) == target
    return np.where(answered, -1, low), np.where(answered, -1, high)


def _least(thresholds: Counts, target: int, prices: Counts) -> int:
    """Return what prices prove that it costs, at least 1; one more than `FAR` for never."""
    parts, labels = thresholds.shape
    never = 1 + sum(int(each) for each in thresholds.max(axis=1))
    others = [label for label in range(labels) if label != target]
    largest = max(abs(int(each)) for each in (prices.min(initial=0), prices.max(initial=0)))
    if (never * _UNIT + labels * largest) * (parts + 1) >= _LARGEST:
        return 1
    if (prices[:, others] < 0).any():
        raise RejectedError("its prices of votes are negative")
    costs = _UNIT * np.where(thresholds == _NEVER, never, thresholds)
    least = FAR + 1
    for votes in range(parts + 1):
        room = [votes - (label < target) for label in others]
        if min(room) < 0 or votes + sum(room) < parts:
            continue
        proved = 1
        for each in prices:
            total = int((costs + each).min(axis=1).sum()) - votes * int(each[target])
            total -= sum(int(each[c]) * space for c, space in zip(others, room, strict=True))
            proved = max(proved, -(-total // _UNIT))
        least = min(least, proved if proved < never else FAR + 1)
    return least
