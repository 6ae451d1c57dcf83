"""Run-offs that one attack could change: possible winners, and the votes they need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array, eye_array

from leaveout.arrays import Ints
from leaveout.compiling import cached_njit
from leaveout.encoders.votes.run_off import Scores, check_ballots
from leaveout.errors import BallotError
from leaveout.solvers import Problem

Counts = NDArray[np.int64]
Gains = NDArray[np.int8]


@cached_njit(nogil=True)
def _contenders(counts: Counts, a: int, t: int, s: int, freed: int, found: Counts) -> int:
    """List the third labels that may have the most votes once ``a`` must rank before them.

    Labels always behind another one are left out; of labels without votes only the smallest counts.
    """
    top = -1
    for u in range(len(counts)):
        if u not in (t, s):
            top = max(top, counts[u] + (u < a))
    number, empty = 0, False
    for u in range(len(counts)):
        if u in (t, s) or (counts[u] == 0 and empty):
            continue
        empty = empty or counts[u] == 0
        own = counts[u] + (u < a)
        if own == top or own > top - freed:
            found[number] = u
            number += 1
    return number


@cached_njit(nogil=True)
def demands(
    votes: Ints, scores: Any, counts: Counts, t: int, s: int, freed: int, gains: Gains,
    needs: Counts,  # shape (room for demands,)
) -> int:  # fmt: skip
    """Fill in the demands for t to win against s; return their number, 0 for none."""
    members, labels = scores.shape
    ahead = np.zeros(members, np.int8)
    support = 0
    for i in range(members):
        one, other = scores[i, t], scores[i, s]
        ahead[i] = one > other or (one == other and t < s)
        support += ahead[i]
    lacking = (members + (t > s) + 1) // 2 - support
    for_t, for_s = np.zeros(labels, np.int64), np.zeros(labels, np.int64)
    to_t, to_s = (
        _contenders(counts, t, t, s, freed, for_t),
        _contenders(counts, s, t, s, freed, for_s),
    )
    number = 0
    if lacking > 0:
        needs[number] = lacking
        for i in range(members):
            gains[number, i] = 1 - ahead[i]
        number += 1
    for place in range(to_t):
        u = for_t[place]
        behind = counts[u] - counts[t] + (u < t)
        if behind > 0:
            needs[number] = behind
            for i in range(members):
                gains[number, i] = 1 + (votes[i] == u) - (votes[i] == t)
            number += 1
        for other_place in range(to_s):
            w = for_s[other_place]
            both = behind + counts[w] - counts[s] + (w < s)
            if both > 0:
                needs[number] = both
                for i in range(members):
                    v = votes[i]
                    gains[number, i] = 1 + (v == u) + (v == w) - (v == t) - (v == s)
                number += 1
    for place in range(to_s):
        u = for_s[place]
        behind = counts[u] - counts[s] + (u < s)
        if behind > 0:
            needs[number] = behind
            for i in range(members):
                gains[number, i] = 1 + (votes[i] == u) - (votes[i] == s)
            number += 1
        if lacking + behind > 0:
            needs[number] = lacking + behind
            for i in range(members):
                gains[number, i] = 1 - ahead[i] + (votes[i] == u) - (votes[i] == s)
            number += 1
    return number


@cached_njit(nogil=True)
def least_units(gains: Gains, offsets: Counts, need: int, sums: Counts) -> int:
    """Return the fewest units whose summed gains meet a need, or the number of units plus one."""
    members = len(gains)
    sums[:] = 0
    for h in range(members):
        total = 0
        for offset in offsets:
            i = h + offset
            total += gains[i if i < members else i - members]
        sums[total] += 1
    used = 0
    for gain in range(len(sums) - 1, 0, -1):
        if sums[gain] * gain >= need:
            return int(used + max(0, need + gain - 1) // gain)
        need -= sums[gain] * gain
        used += sums[gain]
    return members + 1 if need > 0 else used


@cached_njit(nogil=True)
def units_for_pairs(
    votes: Ints, scores: Any, offsets: Counts, winner: int, most: int, gains: Gains,
    needs: Counts, least: Counts,
) -> None:  # fmt: skip
    """Fill in a lower bound of units for each pair of new winner and finalist."""
    members, labels = scores.shape
    counts = np.zeros(labels, np.int64)
    for vote in votes:
        counts[vote] += 1
    sums = np.zeros(3 * len(offsets) + 1, np.int64)
    for t in range(labels):
        for s in range(labels):
            least[t, s] = members + 1
            if t in (winner, s):
                continue
            number = demands(
                votes, scores, counts, t, s, min(members, max(1, most) * len(offsets)), gains, needs
            )
            units = 0
            for row in range(number):
                units = max(units, least_units(gains[row], offsets, needs[row], sums))
                if units > most:
                    break
            if units <= most:
                least[t, s] = units


@cached_njit(nogil=True)
def demands_at(
    votes: Ints, scores: Any, offsets: Counts, winner: int, budget: int,
    only: tuple[int, int], gains: Gains, needs: Counts, pairs: Ints, ends: Counts,
) -> int:  # fmt: skip
    """Fill in the demands of each affordable pair; return the pairs."""
    members, labels = scores.shape
    counts = np.zeros(labels, np.int64)
    for vote in votes:
        counts[vote] += 1
    sums = np.zeros(3 * len(offsets) + 1, np.int64)
    freed = min(members, budget * len(offsets))
    own_most = 1 + 3 * labels + labels * labels
    found, start = 0, 0
    for t in range(labels):
        for s in range(labels):
            if t in (winner, s) or (only[0] >= 0 and (t, s) != only):
                continue
            if len(needs) - start < own_most:
                ends[0] = -1
                return found
            number = demands(votes, scores, counts, t, s, freed, gains[start:], needs[start:])
            within = True
            for row in range(start, start + number):
                if least_units(gains[row], offsets, needs[row], sums) > budget:
                    within = False
                    break
            if within:
                pairs[found, 0], pairs[found, 1] = t, s
                start += number
                ends[found] = start
                found += 1
    return found


@cached_njit(nogil=True)
def published_units(votes: Ints, scores: Any, offsets: Counts, labels: int, found: Counts) -> None:
    """Fill in the fewest units by the published argument, shape (points,)."""
    points, members = votes.shape
    counts, gains = np.zeros(labels, np.int64), np.zeros(members, np.int8)
    sums = np.zeros(3 * len(offsets) + 1, np.int64)
    for j in range(points):
        counts[:] = 0
        for vote in votes[j]:
            counts[vote] += 1
        first = 0
        for g in range(labels):
            if counts[g] > counts[first]:
                first = g
        second = 1 if first == 0 else 0
        for g in range(labels):
            if g != first and counts[g] > counts[second]:
                second = g
        support = 0
        for i in range(members):
            one, other = scores[j, i, first], scores[j, i, second]
            support += one > other or (one == other and first < second)
        wins = 2 * support >= members + (first > second)
        winner, other = (first, second) if wins else (second, first)
        least = members + 1
        for a in range(labels):
            if a == winner:
                continue
            behind = counts[winner] - counts[a] + (winner < a)
            # The winner stays a finalist; a enters the run-off and wins.
            support = 0
            for i in range(members):
                one, its = scores[j, i, a], scores[j, i, winner]
                gains[i] = not (one > its or (one == its and a < winner))
                support += 1 - gains[i]
            lacking = (members + (a > winner) + 1) // 2 - support
            units = least_units(gains, offsets, lacking, sums)
            if a != other:
                for i in range(members):
                    gains[i] = 1 + (votes[j, i] == other) - (votes[j, i] == a)
                need = counts[other] - counts[a] + (other < a)
                units = max(units, least_units(gains, offsets, need, sums))
            least = min(least, units)
            for i in range(members):
                gains[i] = 1 + (votes[j, i] == winner) - (votes[j, i] == a)
            alone = least_units(gains, offsets, behind, sums)
            # Two labels rank before the winner.
            for b in range(a + 1, labels):
                if b == winner or alone >= least:
                    continue
                need = counts[winner] - counts[b] + (winner < b)
                for i in range(members):
                    gains[i] = 1 + (votes[j, i] == winner) - (votes[j, i] == b)
                units = max(alone, least_units(gains, offsets, need, sums))
                for i in range(members):
                    v = votes[j, i]
                    gains[i] = 1 + 2 * (v == winner) - (v == a) - (v == b)
                units = max(units, least_units(gains, offsets, need + behind, sums))
                least = min(least, units)
        found[j] = least


Wide = NDArray[np.int64]

_ROOM = 2**26
"""Most gains of one test point."""

_MOST = 2**29
"""Most gains of all test points."""


@dataclass(frozen=True, eq=False)
class RunOffStakes:
    """The run-offs that an attack could change, and what each requires.

    A *unit* is what one edit poisons. A *pair* is a point answered right, a new winner t and a
    finalist s; it is lost if freed members' gains (0 to 3 each) meet all its *demands*.
    """

    budget: int  # units that may be poisoned
    reach: Wide  # shape (units, members reached by a unit)
    gains: NDArray[np.int8]  # shape (members, demands)
    needs: Ints  # shape (demands,): positive; a pair's demands are adjacent
    ends: Wide  # shape (pairs,): end of each pair's demands
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
        count = demands_at(
            ballot[0], numbers[0], np.array(offsets, np.int64), int(winners[point]), budget,
            only or (-1, -1), gains, needs, pairs, ends,
        )  # fmt: skip
        rows = int(ends[count - 1]) if count else 0
        total += rows * members
        if ends[0] < 0 or total > _MOST:
            raise BallotError(
                f"one attack on run-offs: those of {labels} labels over {members:,} members can "
                "be lost in too many ways to analyse together; count fewer test points, or "
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
    """Recount and return which winners change if some members can cast any vote.

    For every label t, finalist s and number a, a of the freed members vote t, the others s, and
    both rounds are recounted.
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


def run_off_collective_problem(stakes: RunOffStakes, at_least: int = 0) -> Problem:
    """Return the problem whose optimum is the number of run-offs one attack can change.

    Variables in order: total, poisoned units p, freed members x, pairs y (which need all their
    demands), lost points z.
    """
    units, members = stakes.units, len(stakes.gains)
    pairs, rows = len(stakes.points), len(stakes.needs)
    owners, owner = np.unique(stakes.points, return_inverse=True)
    pair = np.repeat(np.arange(pairs), np.diff(stakes.starts))
    points = len(owners)
    nothing = csr_array
    reached = _reach_matrix(stakes.reach, members)
    lost = csr_array((-stakes.needs.astype(float), (np.arange(rows), pair)), shape=(rows, pairs))
    shares = csr_array((np.ones(pairs), (owner, np.arange(pairs))), shape=(points, pairs))
    gains = csr_array(stakes.gains.T.astype(float))
    one, all_units = csr_array([[-1.0]]), csr_array(np.ones((1, units)))
    whole = csr_array(np.ones((1, points)))
    blocks = [
        [nothing((1, 1)), all_units, nothing((1, members)), nothing((1, pairs)), 0 * whole],
        [
            nothing((members, 1)),
            reached,
            -eye_array(members, format="csr"),
            nothing((members, pairs)),
            nothing((members, points)),
        ],
        [nothing((rows, 1)), nothing((rows, units)), gains, lost, nothing((rows, points))],
        [
            nothing((points, 1)),
            nothing((points, units)),
            nothing((points, members)),
            shares,
            -eye_array(points, format="csr"),
        ],
        [one, nothing((1, units)), nothing((1, members)), nothing((1, pairs)), whole],
    ]
    matrix = csr_array(block_array(blocks, format="csr"))
    row_lower, row_upper = np.zeros(matrix.shape[0]), np.full(matrix.shape[0], np.inf)
    row_lower[0], row_upper[0], row_upper[-1] = -np.inf, stakes.budget, 0.0
    columns = matrix.shape[1]
    objective, lower, upper = np.zeros(columns), np.zeros(columns), np.ones(columns)
    objective[0], lower[0], upper[0] = 1.0, at_least, points
    integer = np.zeros(columns, dtype=bool)
    integer[1 : 1 + units] = True
    integer[1 + units + members : 1 + units + members + pairs] = True
    return Problem(objective, matrix, row_lower, row_upper, lower, upper, integer, maximise=True)


def run_off_pair_problem(
    gains: NDArray[np.int8],  # shape (demands, members)
    needs: NDArray[np.int64],  # shape (demands,)
    reach: NDArray[np.int64],  # shape (units, members reached by a unit)
    least: int,
    most: int,
) -> Problem:
    """Return the problem of the fewest units that make one label win against another."""
    units, (rows, members) = len(reach), gains.shape
    blocks = [
        [_reach_matrix(reach, members), -eye_array(members, format="csr")],
        [csr_array((rows, units)), csr_array(gains.astype(float))],
        [csr_array(np.ones((1, units))), csr_array((1, members))],
    ]
    # Half a unit of slack, so that no tolerance excludes an attack of exactly this size.
    return Problem(
        objective=np.repeat([1.0, 0.0], [units, members]),
        matrix=csr_array(block_array(blocks, format="csr")),
        row_lower=np.concatenate([np.zeros(members), needs, [least - 0.5]]),
        row_upper=np.concatenate([np.full(members + rows, np.inf), [most + 0.5]]),
        lower=np.zeros(units + members),
        upper=np.ones(units + members),
        integer=np.repeat([True, False], [units, members]),
    )


def _reach_matrix(reach: NDArray[np.int64], members: int) -> csr_array:
    """Return which members each unit reaches, shape (members, units)."""
    units, width = reach.shape
    places = reach.ravel(), np.repeat(np.arange(units), width)
    return csr_array((np.ones(reach.size), places), shape=(members, units))
