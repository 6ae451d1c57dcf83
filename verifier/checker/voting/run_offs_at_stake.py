"""Run-offs that one attack could change, and the counts that each requires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.voting.run_off import Scores
from leaveout.verifier.checker.voting.tallies import Counts, Flags, Votes, blocks, counts_of

_ROOM = 2**29
"""Gains held, at most."""


class TooManyError(Exception):
    """There are too many ways in which run-offs could be lost."""


@dataclass(frozen=True, eq=False)
class RunOffsAtStake:
    """Pairs of finalists t and s of test points that are answered right, t another label than that.

    An attack poisons up to ``budget`` units. Whoever is a member that one of them reaches votes,
    and prefers, as the attacker likes, at every point anew. A pair is lost to once the members
    reached gain what each of its rows needs.
    """

    budget: int
    offsets: tuple[int, ...]  # unit u reaches the members ``(u + offset) mod members``
    gains: NDArray[np.uint8]  # shape (members, rows): 0 to 3
    needs: Counts  # shape (rows,): at least 1
    pairs: Counts  # shape (rows,): ascending, from 0; every pair has a row
    points: Counts  # shape (pairs,): ascending

    @property
    def count(self) -> int:
        """The most points that could be lost one at a time."""
        return len(np.unique(self.points))

    def of_units(self, gains: NDArray[np.uint8]) -> NDArray[Any]:
        """Return what each unit alone gains, shape (units, rows), from what members gain."""
        if len(self.offsets) == 1:
            return np.roll(gains, -self.offsets[0], axis=0)
        total = np.zeros(gains.shape, np.uint8 if len(self.offsets) < 80 else np.uint16)
        for offset in self.offsets:
            total += np.roll(gains, -offset, axis=0)
        return total


def run_offs_at_stake(
    votes: Votes,  # shape (points, members)
    scores: Scores,  # shape (points, members, labels)
    labels: int,
    answers: Counts,  # shape (points,)
    points: Counts,
    budget: int,
    offsets: tuple[int, ...] = (0,),
) -> RunOffsAtStake:
    """Return what an attack can reach; pairs that no attack of this size decides are left out.

    Say f members are reached, and a of them vote t and the others s; no other vote is of more use
    to t. Then t and s stand, and t wins, if a is from what t lacks before each third label, and of
    the members that prefer it, up to f less what s lacks before each third label; and from 0 to f.
    So each of the former, and 0, must be at most f, and at most f less each of what s lacks. What
    is lacking falls with the members reached that voted for the third label, or preferred s, and
    grows with those that voted t or s, or preferred t. Each comparison is a row; f less that growth
    is never negative, so that each member reached gains 0 or more.
    """
    members = votes.shape[1]
    nothing = np.zeros((members, 0), np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    stake = RunOffsAtStake(budget, offsets, *nothing, np.zeros(0, np.int64))
    gains, needs, pairs = [stake.gains], [stake.needs], [stake.pairs]
    owners, total = list[int](), 0
    for point in points.tolist() if budget else ():
        own_counts = counts_of(votes[[point]], labels)[0]
        for t in range(labels):
            for s in range(labels):
                if s == t or t == answers[point]:
                    continue
                pair_gains, pair_needs = _rows(votes[point], scores[point], own_counts, t, s)
                units = np.sort(stake.of_units(pair_gains), axis=0)[members - budget :]
                if (units.sum(axis=0, dtype=np.int64) < pair_needs).any():
                    continue
                pair_gains, pair_needs = _told_apart(pair_gains, pair_needs)
                total += pair_gains.size
                if total > _ROOM:
                    raise TooManyError
                gains.append(pair_gains)
                needs.append(pair_needs)
                pairs.append(np.full(len(pair_needs), len(owners)))
                owners.append(point)
    return RunOffsAtStake(
        budget, offsets, np.concatenate(gains, axis=1), np.concatenate(needs),
        np.concatenate(pairs), np.array(owners, np.int64),
    )  # fmt: skip


def _rows(
    ballot: Votes, scores: Scores, counts: Counts, t: int, s: int
) -> tuple[NDArray[np.uint8], Counts]:
    """Return gains, shape (members, rows), and needs above 0, of t winning against s."""
    members = len(ballot)
    ahead = (scores[:, t] > scores[:, s]) | ((scores[:, t] == scores[:, s]) & (t < s))
    third = np.array([u for u in range(len(counts)) if u not in (t, s)], np.int64)
    voted = (ballot[:, None] == third).astype(np.int64)
    # What is lacking, and what a member that is reached takes from it; 0 is always lacking.
    from_below = np.concatenate(
        [
            [0, -(-(members + (t > s)) // 2) - int(ahead.sum())],
            counts[third] - counts[t] + (third < t),
        ]
    )
    takes_below = np.column_stack(
        [0 * ballot, -ahead.astype(np.int64), voted - (ballot == t)[:, None]]
    )
    from_above = np.concatenate([[0], counts[third] - counts[s] + (third < s)])
    takes_above = np.column_stack([0 * ballot, voted - (ballot == s)[:, None]])
    needs = (from_below[:, None] + from_above).ravel()
    gains = 1 + (takes_below[:, :, None] + takes_above[:, None, :]).reshape(members, -1)
    open_rows = needs > 0
    return gains[:, open_rows].astype(np.uint8), needs[open_rows]


def _told_apart(gains: NDArray[np.uint8], needs: Counts) -> tuple[NDArray[np.uint8], Counts]:
    """Return the rows that no other row implies: one that needs as much, and never gains more."""
    kept = np.ones(len(needs), np.bool_)
    for row in range(len(needs)):
        implies = (needs >= needs[row]) & (gains <= gains[:, [row]]).all(axis=0) & kept
        implies[row] = False
        kept[row] = not implies.any()
    return gains[:, kept], needs[kept]


def run_offs_lost_to(
    votes: Votes,  # shape (points, members)
    scores: Scores,  # shape (points, members, labels)
    labels: int,
    answers: Counts,  # shape (points,)
    members: Sequence[int],
) -> Flags:
    """Recount which answers change if an attacker chooses how some members vote."""
    lost, number = np.zeros(len(votes), np.bool_), len(members)
    held = np.ones(votes.shape[1], np.bool_)
    held[list(members)] = False
    for at in blocks(len(votes), votes.shape[1] * labels):
        rest, kept = counts_of(votes[at][:, held], labels), scores[at][:, held]
        for t in range(labels):
            for s in range(labels):
                if s == t:
                    continue
                one, other = kept[:, :, t], kept[:, :, s]
                support = ((one > other) | ((one == other) & (t < s))).sum(axis=1)
                third = [u for u in range(labels) if u not in (t, s)]
                least = np.zeros(len(rest), np.int64)
                most = np.full(len(rest), number)
                for u in third:
                    np.maximum(least, rest[:, u] + (u < t) - rest[:, t], out=least)
                    np.minimum(most, number - (rest[:, u] + (u < s) - rest[:, s]), out=most)
                # Ties of an even number go to the smaller label.
                wanted = (votes.shape[1] + 1) // 2 if t < s else votes.shape[1] // 2 + 1
                np.maximum(least, wanted - support, out=least)
                lost[at] |= (answers[at] != t) & (least <= most)
    return lost
