"""One attack on a test set of members with thresholds: what each level is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.encoders.votes.tally import Tally
from leaveout.models.votes.ballots import NEVER

_CHUNK = 2**22
"""Costs of votes looked at together."""

_SMALL = np.iinfo(np.int32).max
"""Budgets below this are kept in 32 bits."""


@dataclass(frozen=True, eq=False)
class KnownStakes:
    """The test points that an attack could change, and the cost of each vote.

    A *pair* is a point answered right and a rival label; it is lost if the votes that the edits on
    members can buy gain the rival enough.
    """

    budget: int  # edits that may be spent, all members together
    ones: NDArray[Any]  # shape (members, pairs)
    twos: NDArray[Any]  # shape (members, pairs)
    needs: NDArray[np.int32]  # shape (pairs,): one more than the gap between c and c'
    least: NDArray[np.int64]  # shape (pairs,)
    points: NDArray[np.int64]  # shape (pairs,): ascending; a test point may have several pairs

    @property
    def members(self) -> int:
        """The number of members."""
        return len(self.ones)

    def only(self, points: NDArray[np.int64]) -> KnownStakes:
        """Return the stakes of some of the test points."""
        pairs = np.flatnonzero(np.isin(self.points, points))
        return replace(
            self,
            ones=np.ascontiguousarray(self.ones[:, pairs]),
            twos=np.ascontiguousarray(self.twos[:, pairs]),
            needs=self.needs[pairs],
            least=self.least[pairs],
            points=self.points[pairs],
        )

    def lost_to(self, spent: NDArray[np.int64]) -> tuple[int, ...]:
        """Return the points lost if these edits are spent on each member."""
        gains = (self.ones <= spent[:, None]).sum(axis=0) + (self.twos <= spent[:, None]).sum(
            axis=0
        )
        return tuple(np.unique(self.points[gains >= self.needs]).tolist())


def known_stakes_of(
    votes: NDArray[np.int32],  # shape (points, parts)
    truth: NDArray[np.int32],  # shape (points,)
    tallied: Tally,
    thresholds: NDArray[np.int32],  # shape (points, parts, labels)
    budget: int,
) -> KnownStakes:
    """Return the points an attack can change, leaving out those beyond its budget."""
    parts, labels = thresholds.shape[1:]
    # More than every member's largest threshold is never of use.
    budget = min(budget, int(thresholds.max(axis=(0, 2)).astype(np.int64).clip(0).sum()))
    kind = np.int32 if budget < _SMALL else np.int64
    far = kind(budget + 1)
    # An edit gains at most 2.
    near = (tallied.predictions == truth)[:, None] & (tallied.gaps < 2 * budget)
    points, targets = np.nonzero(near)
    needs = tallied.gaps[points, targets] + np.int32(1)
    found: list[tuple[NDArray[Any], ...]] = []
    step = max(1, _CHUNK // (parts * labels))
    for start in range(0, len(points), step):
        at = slice(start, start + step)
        rows, rivals = points[at], targets[at]
        costs = np.minimum(np.where(thresholds[rows] == NEVER, far, thresholds[rows]), far)
        answers = tallied.predictions[rows]
        own, other = votes[rows] == answers[:, None], votes[rows] == rivals[:, None]
        to = np.take_along_axis(costs, rivals[:, None, None], axis=2)[:, :, 0]
        np.put_along_axis(costs, answers[:, None, None], far, axis=2)
        ones = np.where(own, costs.min(axis=2), np.where(other, far, to)).astype(kind)
        twos = np.where(own, to, far).astype(kind)
        least = _least_costs(ones, twos, needs[at], int(far))
        kept_pairs = np.flatnonzero(least <= budget)
        found.append((ones[kept_pairs], twos[kept_pairs], least[kept_pairs], kept_pairs + start))
    if not found:
        none = np.zeros((0, parts), kind)
        found = [(none, none, np.zeros(0, np.int64), np.zeros(0, np.int64))]
    ones, twos, least, pairs = (np.concatenate(each) for each in zip(*found, strict=True))
    return KnownStakes(
        budget,
        np.ascontiguousarray(ones.T),
        np.ascontiguousarray(twos.T),
        needs[pairs],
        least,
        points[pairs],
    )


@cached_njit()
def _least_costs(
    ones: NDArray[Any], twos: NDArray[Any], needs: NDArray[np.int32], far: int
) -> NDArray[np.int64]:
    """Return the least cost of each pair's need, ``far`` if it is that or more."""
    pairs, parts = ones.shape
    found = np.full(pairs, far, np.int64)
    least = np.zeros(2 * parts + 2, np.int64)
    for pair in range(pairs):
        need = int(needs[pair])
        if need > 2 * parts:
            continue
        least[1 : need + 1] = far
        least[0] = 0
        for member in range(parts):
            one, two = int(ones[pair, member]), int(twos[pair, member])
            if one >= far:
                continue
            for gain in range(need, 0, -1):
                cost = min(least[gain - 1] + one, least[max(gain - 2, 0)] + two)
                least[gain] = min(least[gain], cost)
        found[pair] = min(least[need], far)
    return found


def affordable_losses(
    votes: NDArray[np.int32],
    truth: NDArray[np.int32],
    thresholds: NDArray[np.int32],
    spent: NDArray[np.int64],  # shape (parts,)
) -> tuple[int, ...]:
    """Recount and return the points lost for given edits on each member.

    For each label in turn, members vote for it where affordable; true voters that cannot be made to
    vote for any other they can.
    """
    labels = thresholds.shape[2]
    names = np.arange(labels)
    lost = []
    for point, (ballot, costs) in enumerate(zip(votes, thresholds, strict=True)):
        right = int(truth[point])
        if int(np.bincount(ballot, minlength=labels).argmax()) != right:
            continue
        can = (costs != NEVER) & (costs <= spent[:, None])
        elsewhere = np.where(can & (names != right), names, -1).max(axis=1)
        for label in names[names != right]:
            away = np.where((ballot == right) & (elsewhere >= 0), elsewhere, ballot)
            cast = np.where(can[:, label], label, away)
            if int(np.bincount(cast, minlength=labels).argmax()) != right:
                lost.append(point)
                break
    return tuple(lost)
