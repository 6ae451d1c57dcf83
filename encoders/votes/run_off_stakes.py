"""Run-offs that one attack could change: their possible winners and demands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.votes import run_off_demand_kernels as kernels
from leaveout.encoders.votes.run_off_ballots import Scores, check_ballots
from leaveout.errors import BallotError

Ints = NDArray[np.int32]
Wide = NDArray[np.int64]

_ROOM = 2**26
"""Gains of one test point, at most."""

_MOST = 2**29
"""Gains of all test points, at most."""


@dataclass(frozen=True, eq=False)
class RunOffStakes:
    """The run-offs that an attack could change, and what each requires.

    A *unit* is what one edit poisons. A *pair* is a point answered right, a new winner t and a
    finalist s; it is lost if freed members' gains (0 to 3 each) meet all its *demands*.
    """

    budget: int  # units that may be poisoned
    reach: Wide  # shape (units, members a unit reaches)
    gains: NDArray[np.int8]  # shape (members, demands)
    needs: Ints  # shape (demands,): above 0; a pair's demands lie one after another
    ends: Wide  # shape (pairs,): where the demands of each pair end
    points: Wide  # shape (pairs,): ascending; a test point may have several pairs
    labels: Ints  # shape (pairs, 2): t and s of each pair

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.reach)

    @property
    def starts(self) -> Wide:
        """The start of each pair's demands, and their number, shape (pairs + 1,)."""
        return np.append(np.zeros(1, np.int64), self.ends)

    def only(self, points: NDArray[np.integer[Any]]) -> RunOffStakes:
        """Return the stakes of some of the test points."""
        pairs = np.isin(self.points, points)
        sizes = np.diff(self.starts)
        rows = np.repeat(pairs, sizes)
        return replace(
            self,
            gains=np.ascontiguousarray(self.gains[:, rows]),
            needs=self.needs[rows],
            ends=np.cumsum(sizes[pairs]),
            points=self.points[pairs],
            labels=self.labels[pairs],
        )

    def lost_to(self, units: tuple[int, ...]) -> tuple[int, ...]:
        """Return the points whose demands the poisoned units meet, ascending."""
        freed = np.unique(self.reach[list(units)])
        short = self.gains[freed].sum(axis=0, dtype=np.int64) < self.needs
        owner = np.repeat(np.arange(len(self.points)), np.diff(self.starts))
        missed = np.bincount(owner, weights=short, minlength=len(self.points)) > 0
        return tuple(np.unique(self.points[~missed]).tolist())


def run_off_stakes(
    votes: Ints,  # shape (points, members)
    scores: Scores,  # shape (points, members, labels)
    labels: int,
    winners: Ints,  # shape (points,)
    points: NDArray[np.integer[Any]],
    budget: int,
    offsets: tuple[int, ...] = (0,),
    only: tuple[int, int] | None = None,
) -> RunOffStakes:
    """Return the run-offs an attack can change, without pairs beyond its budget."""
    members = votes.shape[1]
    reach = (np.arange(members)[:, None] + np.array(offsets, np.int64)) % members
    own = 1 + 3 * labels + labels * labels
    room = min(own * labels * labels, max(own, _ROOM // members))
    gains, needs = np.empty((room, members), np.int8), np.empty(room, np.int64)
    pairs, ends = np.empty((labels * labels, 2), np.int32), np.empty(labels * labels, np.int64)
    found: list[tuple[NDArray[np.int8], Wide, Wide, Ints]] = []
    owners, total = [np.zeros(0, np.int64)], 0
    for point in points.tolist() if budget else ():
        ballot, numbers = check_ballots(votes[point][None], scores[point][None], labels)
        ends[0] = 0
        count = kernels.demands_at(
            ballot[0], numbers[0], np.array(offsets, np.int64), int(winners[point]), budget,
            only or (-1, -1), gains, needs, pairs, ends,
        )  # fmt: skip
        rows = int(ends[count - 1]) if count else 0
        total += rows * members
        if ends[0] < 0 or total > _MOST:
            raise BallotError(
                f"one attack on run-offs: those of {labels} labels over {members:,} members have "
                "too many ways to be lost to be looked at together; count fewer test points, or "
                "allow fewer changes"
            )
        if count:
            found.append(
                (gains[:rows].copy(), needs[:rows].copy(), ends[:count] * 1, pairs[:count] * 1)
            )
            owners.append(np.full(count, point))
    if not found:
        nothing = np.zeros((members, 0), np.int8), np.zeros(0, np.int32), np.zeros(0, np.int64)
        return RunOffStakes(budget, reach, *nothing, owners[0], np.zeros((0, 2), np.int32))
    sizes = np.concatenate([np.diff(each, prepend=0) for _, _, each, _ in found])
    return RunOffStakes(
        budget,
        reach,
        np.ascontiguousarray(np.concatenate([each for each, *_ in found]).T),
        np.concatenate([each for _, each, *_ in found]).astype(np.int32),
        np.cumsum(sizes),
        np.concatenate(owners),
        np.concatenate([each for *_, each in found]),
    )


def run_off_lost(
    votes: Ints,  # shape (points, members)
    scores: Scores,  # shape (points, members, labels)
    labels: int,
    winners: Ints,  # shape (points,)
    freed: NDArray[np.integer[Any]],
) -> NDArray[np.bool_]:
    """Recount and return which winners change if some members vote at will.

    For every label t, finalist s and number a, a freed members vote t, the others s, and both
    rounds are held again.
    """
    points, members = votes.shape
    held = np.ones(members, np.bool_)
    held[freed] = False
    number = members - int(held.sum())
    lost = np.zeros(points, np.bool_)
    rest = np.stack([(votes[:, held] == u).sum(axis=1) for u in range(labels)], axis=1)
    for t in range(labels):
        for s in range(labels):
            rows = np.flatnonzero((winners != t) & ~lost) if s != t else ()
            if not len(rows):
                continue
            one, other = scores[rows][:, held, t], scores[rows][:, held, s]
            support = ((one > other) | ((one == other) & (t < s))).sum(axis=1)
            for votes_for_t in range(number + 1):
                counts = rest[rows].copy()
                counts[:, t] += votes_for_t
                counts[:, s] += number - votes_for_t
                first = counts.argmax(axis=1)
                counts[np.arange(len(rows)), first] = -1
                second = counts.argmax(axis=1)
                stand = (np.minimum(first, second) == min(t, s)) & (
                    np.maximum(first, second) == max(t, s)
                )
                for_t = support + votes_for_t
                wins = 2 * for_t >= members if t < s else 2 * for_t > members
                lost[rows[stand & wins]] = True
    return lost
