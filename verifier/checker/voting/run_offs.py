"""Run-off elections: the winner, and whether poisoned parts can change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.plurality import (
    Counts,
    Flags,
    Votes,
    answers_of,
    blocks,
    counts_of,
)
from leaveout.verifier.checker.voting.together import WORK, TooLongError

Scores = NDArray[np.floating]


def refuse_scores(votes: Votes, scores: Scores, source: str) -> None:
    """Refuse scores that are not all finite, or that a vote contradicts; raises RejectedError.

    The counts depend on this: NaN has no order, and a member that voted t must prefer t.
    """
    labels = np.arange(scores.shape[2])
    for point, (row, given) in enumerate(zip(scores, votes, strict=True)):
        own = np.take_along_axis(row, given[:, None].astype(np.int64), axis=1)
        # False for NaN, too: a vote's score exceeds smaller labels', and is not below larger ones'.
        agreed = np.where(labels < given[:, None], row < own, row <= own)
        if not (agreed & (np.abs(row) < np.inf)).all():
            raise RejectedError(
                f"{source}: the scores of test point {point} are not all finite, or are not "
                "highest for the member's vote"
            )


def run_off_answers(votes: Votes, scores: Scores, labels: int) -> Counts:
    """Return the winner at each test point, shape (points,).

    The two labels with the most votes are the finalists; each member prefers the one it scores
    higher; all ties go to the smaller label.
    """
    found = np.zeros(len(votes), np.int64)
    for at in blocks(len(votes), votes.shape[1] + labels):
        counts = counts_of(votes[at], labels)
        rows = np.arange(len(counts))
        first = answers_of(counts)
        counts[rows, first] = -1
        second = answers_of(counts)
        one, other = (
            np.take_along_axis(scores[at], each[:, None, None], axis=2)[:, :, 0]
            for each in (first, second)
        )
        before = (first < second)[:, None]
        support = ((one > other) | ((one == other) & before)).sum(axis=1)
        wins = 2 * support + before[:, 0] > votes.shape[1]
        found[at] = np.where(wins, first, second)
    return found


def run_off_radii(votes: Votes, scores: Scores, labels: int, target: int | None = None) -> Counts:
    """Return how many poisoned parts each answer survives, shape (points,).

    With a target, return how many never make it the answer; -1 where it is the answer already.
    """
    low = np.zeros(len(votes), np.int64)
    high = np.full(len(votes), votes.shape[1], np.int64)
    # If all members are poisoned, any label can win; and more members can do what some can.
    while (low + 1 < high).any():
        rows = np.flatnonzero(low + 1 < high)
        middle = (low[rows] + high[rows]) // 2
        falls = run_off_falls(votes[rows], scores[rows], labels, middle, target)
        high[rows[falls]] = middle[falls]
        low[rows[~falls]] = middle[~falls]
    if target is None:
        return low
    return np.where(run_off_answers(votes, scores, labels) == target, -1, low)


def run_off_falls(
    votes: Votes, scores: Scores, labels: int, edits: Counts, target: int | None = None
) -> Flags:
    """Return which answers this many poisoned parts can change, shape (points,).

    Fix the new winner t and the other finalist s. A poisoned member may as well vote t, or vote s
    and prefer s, since any other vote only helps a third label. Let t gain A votes and s gain B, of
    which A + B are taken from third labels u: that takes max(A, 0) + max(B, 0) parts, since moving
    votes both from t to s and from s to t is wasteful. Each u must lose its lead over t and s. In
    the run-off t gains A minus the recast members of third labels that preferred t; those that
    preferred s are recast first. For each B the largest possible A is best: making one more member
    of any third label vote t costs t nothing. So trying every B suffices.
    """
    chosen = run_off_answers(votes, scores, labels)
    counts = np.zeros((len(votes), labels), np.int64)
    for at in blocks(len(votes), labels):
        counts[at] = counts_of(votes[at], labels)
    falls = np.zeros(len(votes), np.bool_)
    for t in range(labels) if target is None else (target,):
        for s in range(labels):
            rows = np.flatnonzero(~falls & (chosen != t)) if s != t else np.zeros(0, np.int64)
            rows = rows[_may(counts[rows], t, s, edits[rows])]
            width = max(votes.shape[1], (2 * votes.shape[1] + 1) * labels)
            for at in blocks(len(rows), width):
                own = rows[at]
                falls[own] = _can_win(
                    votes[own], scores[own, :, t], scores[own, :, s], counts[own], (t, s),
                    edits[own],
                )  # fmt: skip
    return falls


def _may(counts: Counts, t: int, s: int, edits: Counts) -> Flags:
    """Return whether t and s could pass every other label if each edit closes gaps by 2."""
    near = np.ones(len(counts), np.bool_)
    for u in range(counts.shape[1]):
        if u not in (t, s):
            near &= counts[:, u] - counts[:, t] + (u < t) <= 2 * edits
            near &= counts[:, u] - counts[:, s] + (u < s) <= 2 * edits
    return near


def _can_win(
    votes: Votes, for_t: Scores, for_s: Scores, counts: Counts, pair: tuple[int, int], edits: Counts
) -> Flags:
    """Return whether t can win a run-off against s after this many edits, shape (points,)."""
    t, s = pair
    labels, parts = counts.shape[1], votes.shape[1]
    ahead = (for_t > for_s) | ((for_t == for_s) & (t < s))
    third = [u for u in range(labels) if u not in pair]
    # For each third label: its votes, how many of these prefer s, and its leads.
    held = counts[:, third][:, None]
    marked = np.where(ahead, labels, votes).astype(np.int32)
    cheap = counts_of(marked, labels + 1)[:, third][:, None]
    names = np.array(third, np.int64)
    over_t = (held[:, 0] - counts[:, [t]] + (names < t))[:, None]
    over_s = (held[:, 0] - counts[:, [s]] + (names < s))[:, None]
    most = int(edits.max())
    gain_s = np.arange(-min(most, int(counts[:, s].max())), most + 1)[None]
    rest, budget = held.sum(axis=2), edits[:, None]
    gain_t = np.minimum(budget - np.maximum(gain_s, 0), rest - gain_s)
    fits = (gain_s <= budget) & (-gain_s <= counts[:, [s]]) & (-gain_t <= counts[:, [t]])
    fits &= gain_t + gain_s >= 0
    must = np.maximum(np.maximum(over_t - gain_t[..., None], over_s - gain_s[..., None]), 0)
    fits &= (must <= held).all(axis=2) & (must.sum(axis=2) <= gain_t + gain_s)
    dear = np.maximum(must - cheap, 0).sum(axis=2)
    dear += np.maximum(gain_t + gain_s - np.maximum(must, cheap).sum(axis=2), 0)
    support = ahead.sum(axis=1)[:, None] + gain_t - dear
    wins = 2 * support + (t < s) > parts
    changed: Flags = (fits & wins).any(axis=1)
    return changed


_ROOM = 2**29
"""Most gains in memory."""


class TooManyError(Exception):
    """There are too many ways in which run-offs could be lost."""


@dataclass(frozen=True, eq=False)
class RunOffsAtStake:
    """Pairs of finalists t and s at correctly answered points; t is another label than the answer.

    An attack poisons up to ``budget`` units. Members reached by one of them vote, and prefer, as
    the attacker likes, separately at every point. A pair is lost once the gains of the reached
    members meet the needs of all its rows.
    """

    budget: int
    offsets: tuple[int, ...]  # unit u reaches the members ``(u + offset) mod members``
    gains: NDArray[np.uint8]  # shape (members, rows): 0 to 3
    needs: Counts  # shape (rows,): at least 1
    pairs: Counts  # shape (rows,): pair of each row, ascending from 0; every pair has a row
    points: Counts  # shape (pairs,): ascending

    @property
    def count(self) -> int:
        """The most points that could be lost one at a time."""
        return len(np.unique(self.points))

    def of_units(self, gains: NDArray[np.uint8]) -> NDArray[Any]:
        """Return the gains of each unit alone, shape (units, rows), from the members' gains."""
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
    """Return what an attack can change, without pairs that no attack of this size decides.

    Let f members be reached, a of which vote t and the others s; no other vote helps t more. Then t
    and s are finalists, and t wins, if a is at least what t lacks against each third label, and in
    the run-off, and at most f minus what s lacks against each third label; and if it is from 0 to
    f. So each lower bound, and 0, must be at most f, and at most f minus each lack of s. A lack
    decreases with reached members that voted for the third label, or preferred s, and increases
    with those that voted t or s, or preferred t. Each comparison is a row; f minus that increase is
    never negative, so each reached member gains 0 or more.
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
    """Return gains, shape (members, rows), and positive needs, for t to win against s."""
    members = len(ballot)
    ahead = (scores[:, t] > scores[:, s]) | ((scores[:, t] == scores[:, s]) & (t < s))
    third = np.array([u for u in range(len(counts)) if u not in (t, s)], np.int64)
    voted = (ballot[:, None] == third).astype(np.int64)
    # The lacks, and how a reached member reduces each; 0 is always one of them.
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
    """Return the rows not implied by another row with the same need and no greater gains."""
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


_WHOLE = 2**22
"""A whole point, in the integer units of shares."""

_FAILS, _HOLDS, _OPEN = 0, 1, 2
"""The state of a node: an attack loses too much, none does, or unknown."""


class _Facts(NamedTuple):
    """Rows of pairs of points, and the members reached by units."""

    gains: NDArray[np.uint8]  # shape (members, rows)
    reach: Counts  # shape (units, members reached by a unit)
    starts: Counts  # shape (pairs + 1,): start of each pair's rows
    points: Counts  # shape (pairs,): ascending
    upper: int  # number of points that may be lost
    budget: int


class _Held(NamedTuple):
    """A path of nodes: each depth poisons one more unit; the others are candidates."""

    reached: Counts  # shape (members,): number of poisoned units that reach each member
    needs: Counts  # shape (depths, rows): remaining needs of rows
    candidates: Counts  # shape (depths, units): the heaviest first, once a node was evaluated
    sizes: Counts  # shape (depths,)
    first: Counts  # shape (depths,)
    place: Counts  # shape (depths,)


def no_more_run_offs_lost(stake: RunOffsAtStake, upper: int, work: float = WORK) -> bool:
    """Return whether no attack loses more than ``upper`` points; False if too slow to tell."""
    members = len(stake.gains)
    if not len(stake.points):
        return upper >= 0
    depths = stake.budget + 1
    starts = np.searchsorted(stake.pairs, np.arange(len(stake.points) + 1))
    reach = (np.arange(members)[:, None] + np.array(stake.offsets, np.int64)) % members
    facts = _Facts(
        np.ascontiguousarray(stake.gains), reach, starts, stake.points, upper, stake.budget
    )
    held = _Held(
        np.zeros(members, np.int64),
        np.zeros((depths, len(stake.needs)), np.int64),
        np.zeros((depths, members), np.int64),
        *(np.zeros(depths, np.int64) for _ in range(3)),
    )
    held.needs[0], held.candidates[0], held.sizes[0] = stake.needs, np.arange(members), members
    work = float(work) - held.needs.shape[1] * (members + 1.0) * reach.shape[1]
    if work < 0:
        raise TooLongError
    known = int(_look(facts, held, 0))
    for place in range(int(held.first[0]) if known == _OPEN else 0):
        # One after another, so that it can be interrupted.
        held.place[0] = place
        _poison(facts, held, 0)
        known, work = _below(facts, held, work)
        if work < 0:
            raise TooLongError
        if known == _FAILS:
            return False
        _undo(facts, held, 0)
    return known != _FAILS


@cached_njit(nogil=True)
def _gain(facts: _Facts, held: _Held, unit: int, row: int) -> int:
    """Return a unit's gain in a row by members that are not reached yet."""
    total = 0
    for member in facts.reach[unit]:
        if held.reached[member] == 0:
            total += facts.gains[member, row]
    return total


@cached_njit(nogil=True)
def _hardest(facts: _Facts, held: _Held, depth: int, pair: int, left: int, sums: Counts) -> int:
    """Return a pair's row that is hardest to meet; -1 if all are met, -2 if one cannot be."""
    key, least = -1, 0.0
    for row in range(facts.starts[pair], facts.starts[pair + 1]):
        need = held.needs[depth, row]
        if need <= 0:
            continue
        sums[:] = 0
        for at in range(held.sizes[depth]):
            sums[_gain(facts, held, held.candidates[depth, at], row)] += 1
        total, units, gain = 0, left, len(sums) - 1
        while units > 0 and gain > 0:
            used = min(units, sums[gain])
            total += used * gain
            units -= used
            gain -= 1
        if total < need:
            return -2
        if key < 0 or total / need < least:
            key, least = row, total / need
    return key


@cached_njit(nogil=True)
def _count_taken(facts: _Facts, held: _Held, depth: int, keys: Counts, unit: int) -> int:
    """Count the open points that one unit loses."""
    count, last = 0, -1
    for pair in range(len(keys)):
        if keys[pair] < 0 or facts.points[pair] == last:
            continue
        met = True
        for row in range(facts.starts[pair], facts.starts[pair + 1]):
            need = held.needs[depth, row]
            if need > 0 and _gain(facts, held, unit, row) < need:
                met = False
                break
        if met:
            count += 1
            last = facts.points[pair]
    return count


@cached_njit(nogil=True)
def _weight(facts: _Facts, held: _Held, depth: int, keys: Counts, unit: int) -> int:
    """Return a unit's total share in open points; a lost point counts fully."""
    weight, share, last = 0, 0, -1
    for pair in range(len(keys)):
        row = keys[pair]
        if row < 0:
            continue
        if facts.points[pair] != last:
            weight += share
            share, last = 0, facts.points[pair]
        need = held.needs[depth, row]
        gain = min(_gain(facts, held, unit, row), need)
        share = max(share, (gain * _WHOLE + need - 1) // need)
    return weight + share


@cached_njit(nogil=True)
def _look(facts: _Facts, held: _Held, depth: int) -> int:
    """Evaluate a node; if it stays open, sort its candidates."""
    size = held.sizes[depth]
    # An attack with fewer units loses no more than one with others added.
    left = min(facts.budget - depth, size)
    pairs = len(facts.points)
    keys = np.full(pairs, -2, np.int64)
    sums = np.zeros(3 * facts.reach.shape[1] + 1, np.int64)
    lost, points, start = 0, 0, 0
    while start < pairs:
        end, done, near = start, False, False
        while end < pairs and facts.points[end] == facts.points[start]:
            if not done:
                keys[end] = _hardest(facts, held, depth, end, left, sums)
                done = keys[end] == -1
                near = near or keys[end] >= 0
            end += 1
        if done:
            lost += 1
            keys[start:end] = -2
        elif near:
            points += 1
        start = end
    if lost > facts.upper:
        return _FAILS
    if lost + points <= facts.upper or left == 0:
        return _HOLDS
    own = held.candidates[depth, :size].copy()
    if left == 1:
        for unit in own:
            if lost + _count_taken(facts, held, depth, keys, unit) > facts.upper:
                return _FAILS
        return _HOLDS
    weights = np.zeros(size, np.int64)
    for at in range(size):
        weights[at] = _weight(facts, held, depth, keys, own[at])
    order = np.argsort(-weights)
    wanted = _WHOLE * (facts.upper + 1 - lost)
    first = 0
    for at in range(size):
        held.candidates[depth, at] = own[order[at]]
    for at in range(size):
        total = 0
        for later in range(at, min(at + left, size)):
            total += weights[order[later]]
        # Weights, and hence these sums, decrease: the remaining units together lose too little.
        if total < wanted:
            break
        first = at + 1
    held.first[depth], held.place[depth] = first, 0
    return _OPEN if first > 0 else _HOLDS


@cached_njit(nogil=True)
def _poison(facts: _Facts, held: _Held, depth: int) -> None:
    """Create the node below: its candidate is poisoned, too, and no earlier one."""
    place = held.place[depth]
    unit = held.candidates[depth, place]
    for row in range(held.needs.shape[1]):
        held.needs[depth + 1, row] = held.needs[depth, row] - _gain(facts, held, unit, row)
    for member in facts.reach[unit]:
        held.reached[member] += 1
    size = held.sizes[depth] - place - 1
    held.sizes[depth + 1] = size
    held.candidates[depth + 1, :size] = held.candidates[depth, place + 1 : place + 1 + size]


@cached_njit(nogil=True)
def _undo(facts: _Facts, held: _Held, depth: int) -> None:
    """Undo what a node's candidate has reached."""
    for member in facts.reach[held.candidates[depth, held.place[depth]]]:
        held.reached[member] -= 1


@cached_njit(nogil=True)
def _below(facts: _Facts, held: _Held, work: float) -> tuple[int, float]:
    """Search below the node at depth 1; return whether it holds, and the work left."""
    rows = held.needs.shape[1]
    depth, fresh = 1, True
    while depth >= 1:
        if fresh:
            fresh = False
            work -= rows * (held.sizes[depth] + 1.0) * facts.reach.shape[1]
            if work < 0:
                return _OPEN, work
            known = _look(facts, held, depth)
            if known == _FAILS:
                return _FAILS, work
            if known == _HOLDS:
                depth -= 1
                if depth >= 1:
                    _undo(facts, held, depth)
                    held.place[depth] += 1
                continue
        if held.place[depth] < held.first[depth]:
            _poison(facts, held, depth)
            depth += 1
            fresh = True
            continue
        depth -= 1
        if depth >= 1:
            _undo(facts, held, depth)
            held.place[depth] += 1
    return _HOLDS, work
