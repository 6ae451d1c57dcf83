"""Answers that one attack on all test points could change, and what each requires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.voting.tallies import (
    Counts,
    Flags,
    Votes,
    answers_of,
    blocks,
    counts_of,
    gaps_of,
)

Gains = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True, eq=False)
class AtStake:
    """Pairs of a rightly answered test point and a rival label.

    An attack poisons up to ``budget`` units of each family, and their members vote as the attacker
    likes.
    """

    budget: int
    offsets: tuple[int, ...]  # unit u reaches the members ``(u + offset) mod members``
    gains: NDArray[np.uint8]  # shape (members, pairs)
    needs: NDArray[np.int32]  # shape (pairs,): at least 1
    points: Counts  # shape (pairs,): ascending
    sizes: tuple[int, ...]  # units of each family, one family after another

    @property
    def family(self) -> Counts:
        """Family of each unit, shape (units,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def quotas(self) -> tuple[int, ...]:
        """The most units of each family that an attack poisons."""
        return tuple(min(self.budget, size) for size in self.sizes)

    def only(self, points: Counts) -> AtStake:
        """Return the same about some of the points alone."""
        pairs = np.isin(self.points, points)
        return replace(
            self, gains=self.gains[:, pairs], needs=self.needs[pairs], points=self.points[pairs]
        )

    @property
    def count(self) -> int:
        """The most points that could be lost one at a time."""
        return len(np.unique(self.points))

    def of_units(self, gains: NDArray[np.uint8]) -> Gains:
        """Return what each unit alone gains, shape (units, pairs), from what members gain."""
        if len(self.offsets) == 1:
            return np.roll(gains, -self.offsets[0], axis=0)
        total = np.zeros(gains.shape, np.uint8 if len(self.offsets) < 128 else np.uint16)
        for offset in self.offsets:
            total += np.roll(gains, -offset, axis=0)
        return total


def at_stake(
    votes: Votes,  # shape (points, members)
    truth: NDArray[np.int32],  # shape (points,)
    labels: int,
    budget: int,
    offsets: tuple[int, ...] = (0,),
    sizes: tuple[int, ...] = (),
) -> AtStake:
    """Return the pairs an attack can decide, leaving out those beyond its size.

    Points answered wrong already do not count.
    """
    members = votes.shape[1]
    empty = AtStake(budget, offsets, *_no_pairs(members), sizes or (members,))
    gains, needs, points = [empty.gains], [empty.needs], [empty.points]
    most = sum(empty.quotas)
    for at in blocks(len(votes), labels):
        counts = counts_of(votes[at], labels)
        chosen = answers_of(counts)
        gaps = gaps_of(counts, chosen)
        near = (chosen == truth[at])[:, None] & (gaps < 2 * len(offsets) * most)
        rows, rivals = np.nonzero(near)
        for part in blocks(len(rows), members * (len(offsets) + 2)):
            own, to = rows[part], rivals[part, None]
            ballots, need = votes[at][own], gaps[own, rivals[part]] + 1
            gain = (1 + (ballots == chosen[own, None]) - (ballots == to)).astype(np.uint8).T
            units, within, end = empty.of_units(gain), np.zeros(len(need), np.int64), 0
            for size, quota in zip(empty.sizes, empty.quotas, strict=True):
                top, end = np.sort(units[end : end + size], axis=0), end + size
                within += top[size - quota :].sum(axis=0, dtype=np.int64)
            reached = within >= need
            gains.append(gain[:, reached])
            needs.append(need[reached].astype(np.int32))
            points.append(own[reached] + at.start)
    return replace(
        empty,
        gains=np.concatenate(gains, axis=1),
        needs=np.concatenate(needs),
        points=np.concatenate(points),
    )


def lost_to(votes: Votes, truth: NDArray[np.int32], labels: int, members: Sequence[int]) -> Flags:
    """Return which right answers change if some members vote as an attacker likes: a recount.

    A label that all of them vote for passes the answer if any votes of theirs let it.
    """
    lost = np.zeros(len(votes), np.bool_)
    held = np.ones(votes.shape[1], np.bool_)
    held[list(members)] = False
    for at in blocks(len(votes), labels):
        chosen = answers_of(counts_of(votes[at], labels))
        rest = counts_of(votes[at][:, held], labels)
        gaps = gaps_of(rest, chosen)
        lost[at] = (chosen == truth[at]) & (gaps.min(axis=1) < len(members))
    return lost


def _no_pairs(members: int) -> tuple[NDArray[np.uint8], NDArray[np.int32], Counts]:
    return np.zeros((members, 0), np.uint8), np.zeros(0, np.int32), np.zeros(0, np.int64)
