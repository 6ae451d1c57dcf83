"""Proof that no attack on all test points changes more run-offs.

As for pluralities (`together.py`), but a pair has several rows, each of which must be met. A point
that is lost meets whichever row of its pair is looked at, so that one of them, the one that seems
hardest, serves for what a lost point takes at least. All sums are of whole numbers, rounded up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.compiling import cached_njit
from leaveout.verifier.checker.voting.run_offs_at_stake import RunOffsAtStake
from leaveout.verifier.checker.voting.tallies import Counts
from leaveout.verifier.checker.voting.together import WORK, TooLongError

_WHOLE = 2**22
"""A point; shares of it are whole numbers, too."""

_FAILS, _HOLDS, _OPEN = 0, 1, 2
"""What is known of a node: an attack loses too much, none does, or neither."""


class _Facts(NamedTuple):
    """Rows of pairs of points, and the members that units reach."""

    gains: NDArray[np.uint8]  # shape (members, rows)
    reach: Counts  # shape (units, members a unit reaches)
    starts: Counts  # shape (pairs + 1,): where the rows of each pair start
    points: Counts  # shape (pairs,): ascending
    upper: int  # points that may be lost
    budget: int


class _Held(NamedTuple):
    """A path of nodes: attacks that poison a unit more at each depth, and others of candidates."""

    reached: Counts  # shape (members,): by how many units that are poisoned
    needs: Counts  # shape (depths, rows): what rows still need
    candidates: Counts  # shape (depths, units): the heaviest first once a node was looked at
    sizes: Counts  # shape (depths,)
    first: Counts  # shape (depths,)
    place: Counts  # shape (depths,)


def no_more_run_offs_lost(stake: RunOffsAtStake, upper: int, work: float = WORK) -> bool:
    """Return whether no attack loses more than ``upper`` points; False if one does."""
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
    """Return what a unit gains of a row by members that are not reached yet."""
    total = 0
    for member in facts.reach[unit]:
        if held.reached[member] == 0:
            total += facts.gains[member, row]
    return total


@cached_njit(nogil=True)
def _hardest(facts: _Facts, held: _Held, depth: int, pair: int, left: int, sums: Counts) -> int:
    """Return the row of a pair that is hardest to meet; -1 if all are met, -2 if one cannot be."""
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
    """Return the shares of open points that a unit has; a point that is lost takes a whole."""
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
    """Return what is known of a node; where it is open, put its candidates in order."""
    size = held.sizes[depth]
    # An attack of fewer units loses no more than one with others added.
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
        # Weights fall, and so do these sums: the others lose too little together.
        if total < wanted:
            break
        first = at + 1
    held.first[depth], held.place[depth] = first, 0
    return _OPEN if first > 0 else _HOLDS


@cached_njit(nogil=True)
def _poison(facts: _Facts, held: _Held, depth: int) -> None:
    """Make the node below: its place's candidate is poisoned too, none before it is one."""
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
    """Take back what a node's candidate had reached."""
    for member in facts.reach[held.candidates[depth, held.place[depth]]]:
        held.reached[member] -= 1


@cached_njit(nogil=True)
def _below(facts: _Facts, held: _Held, work: float) -> tuple[int, float]:
    """Search the node at depth 1; return whether it holds, and the work left."""
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
