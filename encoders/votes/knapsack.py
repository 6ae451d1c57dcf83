"""Members that survive some edits themselves: a multiple-choice knapsack."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.encoders.votes.attack import Attack
from leaveout.encoders.votes.tally import Tally
from leaveout.encoders.votes.threat import UNBOUNDED
from leaveout.models.votes.ballots import NEVER


def knapsack_radius(
    votes: NDArray[np.int32], thresholds: NDArray[np.int32], tallied: Tally, point: int
) -> int:
    """Return how many edits a prediction survives, given the members' thresholds.

    Per label, a knapsack finds the least cost of votes whose gains exceed the gap. Exact for exact
    thresholds; lower bounds of these give a lower bound.
    """
    cost = min(
        int(_least_cost(*_choices(votes[point], thresholds[point], tallied, point, target))[-1, -1])
        for target in _targets(tallied, point)
    )
    return UNBOUNDED if cost >= _FAR else cost - 1


def knapsack_attack(
    votes: NDArray[np.int32], thresholds: NDArray[np.int32], tallied: Tally, point: int
) -> Attack | None:
    """Return a cheapest attack on one point, or None."""
    best: tuple[int, int] | None = None
    for target in _targets(tallied, point):
        given = _choices(votes[point], thresholds[point], tallied, point, target)
        cost = int(_least_cost(*given)[-1, -1])
        if cost < _FAR and (best is None or cost < best[0]):
            best = cost, target
    if best is None:
        return None
    cost, target = best
    ones, twos, need = _choices(votes[point], thresholds[point], tallied, point, target)
    prediction = int(tallied.predictions[point])
    members, cast = [], []
    for member, gain in enumerate(_cheapest_gains(ones, twos, need)):
        if not gain:
            continue
        members.append(member)
        free = votes[point, member] == prediction and gain == 1
        cast.append(_other(thresholds[point, member], prediction, target) if free else target)
    # Votes taken from the prediction may make a third label win.
    after = np.array(votes[point])
    after[members] = cast
    return Attack(
        point=point,
        edits=cost,
        poisoned=tuple(members),
        members=tuple(members),
        votes=tuple(cast),
        before=prediction,
        after=int(np.bincount(after, minlength=tallied.counts.shape[1]).argmax()),
    )


_FAR = np.int64(UNBOUNDED)
"""A cost that stands for "never", and stays apart from any sum of real ones."""


def _targets(tallied: Tally, point: int) -> list[int]:
    labels = tallied.counts.shape[1]
    return [label for label in range(labels) if label != tallied.predictions[point]]


def _choices(
    ballot: NDArray[np.int32],
    thresholds: NDArray[np.int32],
    tallied: Tally,
    point: int,
    target: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return each member's cost to gain 1 and 2, and the gain that is needed."""
    prediction = int(tallied.predictions[point])
    costs = np.where(thresholds == NEVER, _FAR, thresholds.astype(np.int64))
    own, other = ballot == prediction, ballot == target
    ones = np.where(other, _FAR, costs[:, target])
    away = np.delete(costs, prediction, axis=1).min(axis=1)
    ones = np.where(own, np.minimum(ones, away), ones)
    twos = np.where(own, costs[:, target], _FAR)
    return ones, twos, int(tallied.gaps[point, target]) + 1


def _other(thresholds: NDArray[np.int32], prediction: int, target: int) -> int:
    """Return the cheapest label, other than the prediction, for a member to vote."""
    costs = np.where(thresholds == NEVER, _FAR, thresholds.astype(np.int64))
    costs[prediction] = _FAR + 1
    cheapest = int(costs.argmin())
    return target if costs[target] <= costs[cheapest] else cheapest


@cached_njit()
def _least_cost(ones: NDArray[np.int64], twos: NDArray[np.int64], need: int) -> NDArray[np.int64]:
    """Return the least costs of gains 0 to ``need`` from the first members."""
    least = np.full((len(ones) + 1, need + 1), _FAR)
    least[:, 0] = 0
    for member in range(len(ones)):
        before = least[member]
        for gain in range(1, need + 1):
            cost = min(
                before[gain],
                before[gain - 1] + ones[member],
                before[max(gain - 2, 0)] + twos[member],
            )
            least[member + 1, gain] = min(cost, _FAR)
    return least


def _cheapest_gains(ones: NDArray[np.int64], twos: NDArray[np.int64], need: int) -> list[int]:
    """Return each member's gain in a cheapest choice."""
    table = _least_cost(ones, twos, need)
    gains, left = [], need
    for member in reversed(range(len(ones))):
        cost, before = table[member + 1][left], table[member]
        if cost == before[left]:
            gain = 0
        elif left and cost == before[left - 1] + ones[member]:
            gain = 1
        else:
            gain = 2
        gains.append(gain)
        left = max(left - gain, 0)
    return gains[::-1]
