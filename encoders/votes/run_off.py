"""Run-off election: its winner, and how many poisoned parts the winner survives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.arrays import Ints
from leaveout.compiling import cached_njit
from leaveout.errors import SpecError

Counts = NDArray[np.int64]

NOT_A_NUMBER, NOT_FIRST = 1, 2
"""Why a row of scores is refused: it has a NaN, or its maximum is not at the vote."""


@cached_njit(nogil=True)
def tally(votes: Ints, scores: Any, prefer: Ints) -> tuple[int, int]:
    """Count one point's votes and pairwise preferences."""
    labels = prefer.shape[0]
    prefer[:] = 0
    for i in range(votes.shape[0]):
        vote = votes[i]
        table = prefer[vote]
        top = scores[i, vote]
        fault = 0
        for b in range(labels):
            score = scores[i, b]
            if not (score <= top):
                fault = NOT_FIRST
            if b < vote and score == top:
                fault = NOT_FIRST
        if fault != 0:
            for b in range(labels):
                if np.isnan(scores[i, b]):
                    return NOT_A_NUMBER, i
            return fault, i
        for a in range(labels):
            score = scores[i, a]
            row = table[a]
            for b in range(a, labels):
                row[b] += np.int32(score >= scores[i, b])
    return 0, 0


@cached_njit(nogil=True)
def _supporters_among(prefer: Ints, g: int, a: int, b: int) -> int:
    """Return how many members vote g and prefer a to a different b."""
    if a < b:
        return int(prefer[g, a, b])
    return int(prefer[g, g, g] - prefer[g, b, a])


@cached_njit(nogil=True)
def _first_round(prefer: Ints, counts: Counts) -> tuple[int, int]:
    """Fill the first round's counts; return its two finalists, the front runner first."""
    labels = len(counts)
    for g in range(labels):
        counts[g] = prefer[g, g, g]
    first = 0
    for g in range(1, labels):
        if counts[g] > counts[first]:
            first = g
    second = -1
    for g in range(labels):
        if g != first and (second < 0 or counts[g] > counts[second]):
            second = g
    return first, second


@cached_njit(nogil=True)
def _support(prefer: Ints, a: int, b: int) -> int:
    """Return how many members prefer a to b."""
    total = 0
    for g in range(prefer.shape[0]):
        total += _supporters_among(prefer, g, a, b)
    return total


@cached_njit(nogil=True)
def _run_off_deficit(prefer: Ints, parts: int, a: int, b: int) -> int:
    """Return how many members a lacks to win against b, negative for a surplus."""
    return (parts + (a > b) + 1) // 2 - _support(prefer, a, b)


@cached_njit(nogil=True)
def _elect(prefer: Ints, counts: Counts, parts: int) -> tuple[int, int]:
    """Return the winner and the other finalist."""
    first, second = _first_round(prefer, counts)
    if _run_off_deficit(prefer, parts, first, second) <= 0:
        return first, second
    return second, first


@cached_njit(nogil=True)
def _behind(counts: Counts, a: int, b: int) -> int:
    """Return how many votes a lacks to rank before b in the first round."""
    return int(counts[b] - counts[a] + (b < a))


@cached_njit(nogil=True)
def _half(gap: int) -> int:
    """Return the least edits that close a gap by up to two each."""
    return max(0, (gap + 1) // 2)


@cached_njit(nogil=True)
def _both(one: int, other: int) -> int:
    """Return the least edits that close two gaps by at most (2, 1) or (1, 2) each.

    This is the closed form of A[i, j] = 1 + min(A[i - 2, j - 1], A[i - 1, j - 2]).
    """
    return max(_half(one), _half(other), (max(one, 0) + max(other, 0) + 2) // 3)


@cached_njit(nogil=True)
def _published_edits(prefer: Ints, counts: Counts, parts: int, winner: int, other: int) -> int:
    """Return a lower bound of edits that change the winner (published argument)."""
    labels = len(counts)
    least = parts + 1
    for a in range(labels):
        if a == winner:
            continue
        enters = 0 if a == other else _half(_behind(counts, a, other))
        least = min(least, max(enters, _run_off_deficit(prefer, parts, a, winner)))
        for b in range(a + 1, labels):
            if b != winner:
                least = min(least, _both(_behind(counts, a, winner), _behind(counts, b, winner)))
    return least


@cached_njit(nogil=True)
def _demands(pair: Any, losers: Counts, free: Counts, gain: int, other: int) -> tuple[int, int]:
    """Return the infeasibility of two net gains, and how many other members vote anew."""
    to_t, to_s, votes, cheap, lacking = pair
    recast = gain + other
    forced, roomy, spent, beyond = 0, 0, 0, 0
    for u in range(len(votes)):
        must = max(0, to_t[u] - gain, to_s[u] - other)
        losers[u] = must
        free[u] = max(must, cheap[u])
        forced += must
        roomy += free[u]
        spent += max(0, must - cheap[u])
        beyond = max(beyond, must - votes[u])
    spent += max(0, recast - roomy)
    return max(beyond, forced - recast, lacking - gain + spent), spent


@cached_njit(nogil=True)
def _within(
    pair: Any, losers: Counts, free: Counts, rest: int, theirs: int, budget: int
) -> tuple[bool, int, int]:
    """Return whether a budget suffices for two finalists, and their net gains if so.

    For each gain of s, the most that t can gain is best; along that line the violation is convex,
    so bisection finds its least value.
    """
    low, high = -min(theirs, budget), min(budget, rest)
    while low <= high:
        middle = (low + high) // 2
        gain = min(budget - max(middle, 0), rest - middle)
        here, _ = _demands(pair, losers, free, gain, middle)
        if here <= 0:
            return True, gain, middle
        if middle == high:
            high = middle - 1
            continue
        further = min(budget - max(middle + 1, 0), rest - middle - 1)
        there, _ = _demands(pair, losers, free, further, middle + 1)
        if there >= here:
            high = middle - 1
        else:
            low = middle + 1
    return False, 0, 0


@cached_njit(nogil=True)
def _pair_bound(prefer: Ints, counts: Counts, parts: int, t: int, s: int) -> int:
    """Return a lower bound of the edits that make t win against s."""
    least = _run_off_deficit(prefer, parts, t, s)
    for u in range(len(counts)):
        if u not in (t, s):
            one, two = _behind(counts, t, u), _behind(counts, s, u)
            least = max(least, _half(one), _half(two), (one + two + 2) // 3)
    return least


@cached_njit(nogil=True)
def _least(
    prefer: Ints, counts: Counts, parts: int, winner: int, target: int, known: int, plan: Counts
) -> None:
    """Find the cheapest attack: (edits, t, s, gain of t, gain of s), t any label or the target."""
    labels = len(counts)
    bounds = np.full((labels, labels), parts + 1)
    for t in range(labels):
        for s in range(labels):
            if t not in (winner, s) and target in (-1, t):
                bounds[t, s] = max(known, _pair_bound(prefer, counts, parts, t, s))
    width = labels - 2
    to_t, to_s = np.zeros(width, np.int64), np.zeros(width, np.int64)
    votes, cheap = np.zeros(width, np.int64), np.zeros(width, np.int64)
    losers, free = np.zeros(width, np.int64), np.zeros(width, np.int64)
    plan[0] = parts + 1
    while True:
        place = int(np.argmin(bounds))
        t, s = place // labels, place % labels
        low, high = int(bounds[t, s]), int(plan[0]) - 1
        if low > high:
            return
        bounds[t, s] = parts + 1
        rest, u = 0, 0
        for g in range(labels):
            if g not in (t, s):
                to_t[u], to_s[u] = _behind(counts, t, g), _behind(counts, s, g)
                votes[u], cheap[u] = counts[g], _supporters_among(prefer, g, s, t)
                rest += counts[g]
                u += 1
        pair = (to_t, to_s, votes, cheap, _run_off_deficit(prefer, parts, t, s))
        theirs = int(counts[s])
        # If a budget suffices, so does any larger one.
        suffices, gain, other = _within(pair, losers, free, rest, theirs, high)
        if not suffices:
            continue
        plan[1], plan[2] = t, s
        plan[0], plan[3], plan[4] = high, gain, other
        while low < high:
            middle = (low + high) // 2
            suffices, gain, other = _within(pair, losers, free, rest, theirs, middle)
            if suffices:
                high = middle
                plan[0], plan[3], plan[4] = high, gain, other
            else:
                low = middle + 1


@cached_njit(nogil=True)
def predictions(votes: Ints, scores: Any, labels: int, found: Ints) -> tuple[int, int, int]:
    """Fill in the winners, shape (points,); return the fault, its point and its member."""
    prefer, counts = np.zeros((labels, labels, labels), np.int32), np.zeros(labels, np.int64)
    for j in range(votes.shape[0]):
        fault, part = tally(votes[j], scores[j], prefer)
        if fault != 0:
            return fault, j, part
        found[j] = _elect(prefer, counts, votes.shape[1])[0]
    return 0, 0, 0


@cached_njit(nogil=True)
def fill_published_edits(
    votes: Ints, scores: Any, labels: int, found: Ints
) -> tuple[int, int, int]:
    """Fill in published least edits; return as `predictions` does."""
    prefer, counts = np.zeros((labels, labels, labels), np.int32), np.zeros(labels, np.int64)
    parts = votes.shape[1]
    for j in range(votes.shape[0]):
        fault, part = tally(votes[j], scores[j], prefer)
        if fault != 0:
            return fault, j, part
        winner, other = _elect(prefer, counts, parts)
        found[j] = _published_edits(prefer, counts, parts, winner, other)
    return 0, 0, 0


@cached_njit(nogil=True)
def least_edits(
    votes: Ints, scores: Any, labels: int, target: int, plans: Counts
) -> tuple[int, int, int]:
    """Fill in the cheapest attack on each point; return as `predictions` does."""
    prefer, counts = np.zeros((labels, labels, labels), np.int32), np.zeros(labels, np.int64)
    parts = votes.shape[1]
    for j in range(votes.shape[0]):
        fault, part = tally(votes[j], scores[j], prefer)
        if fault != 0:
            return fault, j, part
        winner, other = _elect(prefer, counts, parts)
        if winner == target:
            plans[j, 0], plans[j, 1], plans[j, 2] = 0, winner, other
            plans[j, 3], plans[j, 4] = 0, 0
            continue
        known = _published_edits(prefer, counts, parts, winner, other)
        _least(prefer, counts, parts, winner, target, known, plans[j])
    return 0, 0, 0


Scores = NDArray[np.floating[Any]]


def check_ballots(
    votes: ArrayLike, scores: ArrayLike, labels: int
) -> tuple[NDArray[np.int32], Scores]:
    """Return votes and scores as compiled code expects them, or raise."""
    ballots, numbers = np.asarray(votes), np.asarray(scores)
    if labels < 2:
        raise SpecError(f"run-off: an election needs at least two labels, but there are {labels}")
    if ballots.ndim != 2 or not ballots.shape[1]:
        raise SpecError(
            f"run-off: votes have the shape {ballots.shape}, expected (points, parts) with at "
            "least one part"
        )
    if ballots.dtype.kind not in "iu":
        raise SpecError(f"run-off: votes are {ballots.dtype}, expected integers")
    if ballots.size and not (ballots.min() >= 0 and ballots.max() < labels):
        wrong = ballots[(ballots < 0) | (ballots >= labels)][0]
        raise SpecError(f"run-off: a vote is for {wrong}; expected 0 to {labels - 1}")
    if numbers.shape != (*ballots.shape, labels):
        raise SpecError(
            f"run-off: scores have the shape {numbers.shape}, expected {(*ballots.shape, labels)}: "
            "one for each point, part and label"
        )
    if numbers.dtype.kind != "f" or numbers.dtype.itemsize > 8:
        raise SpecError(
            f"run-off: scores are {numbers.dtype}, expected float16, float32 or float64"
        )
    # Converting float16 to a wider type preserves all comparisons.
    wide = np.float64 if numbers.dtype.itemsize == 8 else np.float32
    read: Scores = np.ascontiguousarray(numbers, dtype=wide)
    return np.ascontiguousarray(ballots, dtype=np.int32), read


def checked_row(
    votes: ArrayLike, scores: ArrayLike, labels: int
) -> tuple[NDArray[np.int32], Scores, NDArray[np.int32]]:
    """Return one point's votes and scores, and its counts."""
    ballots, numbers = check_ballots(np.asarray(votes)[None], np.asarray(scores)[None], labels)
    prefer = np.zeros((labels, labels, labels), np.int32)
    fault, part = tally(ballots[0], numbers[0], prefer)
    refuse((fault, 0, part))
    below = np.tril_indices(labels, -1)
    every = np.einsum("gaa->ga", prefer)
    prefer[:, below[0], below[1]] = every[:, below[0]] - prefer[:, below[1], below[0]]
    return ballots[0], numbers[0], prefer


def refuse(found: tuple[int, int, int]) -> None:
    """Raise the error for a fault found in a ballot."""
    fault, point, part = found
    if fault == NOT_A_NUMBER:
        raise SpecError(f"run-off: member {part} gives point {point} a score that is NaN")
    if fault == NOT_FIRST:
        raise SpecError(
            f"run-off: at point {point}, member {part} does not vote for the label it scores "
            "highest (the smallest one on a tie)"
        )


def run_off_predictions(votes: ArrayLike, scores: ArrayLike, labels: int) -> NDArray[np.int32]:
    """Return the winner of the run-off at each test point.

    The two labels with the most votes are the finalists, and members prefer the higher score
    (Rezaei et al., ICML 2023); ties go to the smaller label. Needs 4 ``labels``³ bytes.
    """
    votes, scores = check_ballots(votes, scores, labels)
    found = np.empty(len(votes), np.int32)
    refuse(predictions(votes, scores, labels, found))
    return found


def run_off_published(votes: ArrayLike, scores: ArrayLike, labels: int) -> NDArray[np.int32]:
    """Return how many poisoned parts predictions survive by the published argument.

    A lower bound (Rezaei et al., ICML 2023, DPA+ROE), because it treats each gap as if edits closed
    that gap alone.
    """
    votes, scores = check_ballots(votes, scores, labels)
    found = np.empty(len(votes), np.int32)
    refuse(fill_published_edits(votes, scores, labels, found))
    return found - np.int32(1)


def run_off_exact(votes: ArrayLike, scores: ArrayLike, labels: int) -> NDArray[np.int32]:
    """Return exactly how many poisoned parts each prediction survives."""
    return (run_off_plans(votes, scores, labels)[:, 0] - 1).astype(np.int32)


def run_off_plans(
    votes: ArrayLike, scores: ArrayLike, labels: int, target: int | None = None
) -> NDArray[np.int64]:
    """Return the numbers of a cheapest attack on each test point.

    For each new winner and finalist, edits are the sum of positive gains; the shortfall is convex
    in these, so bisection decides each budget.
    """
    votes, scores = check_ballots(votes, scores, labels)
    plans = np.empty((len(votes), 5), np.int64)
    refuse(least_edits(votes, scores, labels, -1 if target is None else target, plans))
    return plans


def run_off_attack(
    votes: ArrayLike, scores: ArrayLike, labels: int, target: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32], Scores]:
    """Return an attack on one point that makes one edit more than it survives."""
    ballots, numbers, prefer = checked_row(votes, scores, labels)
    plan = run_off_plans(ballots[None], numbers[None], labels, target)[0]
    _, t, s, gain, other = (int(number) for number in plan)
    recast = [
        i
        for g, lost in _losers(prefer, plan).items()
        for i in _first(ballots, numbers, g, plan, lost)
    ]
    new = {part: t if order < gain else s for order, part in enumerate(recast)}
    if other < 0:
        new |= dict.fromkeys(np.flatnonzero(ballots == s)[:-other].tolist(), t)
    parts = np.array(sorted(new), np.int32)
    turned = np.array([new[part] for part in sorted(new)], np.int32)
    return parts, turned, np.eye(labels, dtype=numbers.dtype)[turned]


def _losers(prefer: NDArray[np.int32], plan: NDArray[np.int64]) -> dict[int, int]:
    """Return how many votes each label other than the finalists loses."""
    _, t, s, gain, other = (int(number) for number in plan)
    labels = len(prefer)
    counts = {g: int(prefer[g, g, g]) for g in range(labels)}
    rest = [g for g in range(labels) if g not in (t, s)]
    lost = {
        g: max(
            0,
            counts[g] + (g < t) - counts[t] - gain,
            counts[g] + (g < s) - counts[s] - other,
        )
        for g in rest
    }
    left = gain + other - sum(lost.values())
    # Changing a member that prefers s costs t nothing in the run-off, so those go first.
    for most in ({g: int(prefer[g, s, t]) for g in rest}, counts):
        for g in rest:
            more = min(left, max(0, most[g] - lost[g]))
            lost[g] += more
            left -= more
    return lost


def _first(
    votes: NDArray[np.int32], scores: Scores, label: int, plan: NDArray[np.int64], count: int
) -> list[int]:
    """Return members that vote for a label, first those preferring s to t."""
    t, s = int(plan[1]), int(plan[2])
    parts = np.flatnonzero(votes == label)
    for_t, for_s = scores[parts, t], scores[parts, s]
    ahead = for_t >= for_s if t < s else for_t > for_s
    found: list[int] = parts[np.argsort(ahead, kind="stable")][:count].tolist()
    return found
