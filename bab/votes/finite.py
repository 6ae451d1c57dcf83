"""Finite Aggregation: the number of poisoned buckets that each prediction survives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array

from leaveout.arrays import Ints
from leaveout.bab.votes.finite_weights import weighted_bound
from leaveout.compiling import cached_njit
from leaveout.deadline import Deadline
from leaveout.encoders.votes import finite as kernels
from leaveout.encoders.votes.finite import check_ballots, finite_problem
from leaveout.errors import SpecError
from leaveout.solvers import CanSolve, Problem, Settings, Status, find_solver

Counts = NDArray[np.int64]


@cached_njit(nogil=True)
def _shift(state: Any, h: int, step: int) -> int:
    """Add a bucket (step 1) or remove one (-1); return the change of the gain."""
    gain, offsets, cover, new, own, inside = state
    members = len(cover)
    inside[h] = step > 0
    change = 0
    for offset in offsets:
        i = h + offset
        i = i if i < members else i - members
        before, after = cover[i], cover[i] + step
        cover[i] = after
        if min(before, after) > 1 or gain[i] == 0:
            continue
        # A member adds to `new` of its buckets while uncovered, and to `own` while covered once.
        to_new = gain[i] * ((after == 0) - (before == 0))
        to_own = gain[i] * ((after == 1) - (before == 1))
        change -= to_new
        for back in offsets:
            b = i - back
            b = b if b >= 0 else b + members
            new[b] += to_new
            own[b] += to_own
    return change


@cached_njit(nogil=True)
def attack(gain: Counts, offsets: Counts, gap: int, least: int, most: int, steps: int) -> Counts:
    """Search for few buckets that let a label pass the prediction.

    First greedily, then with one bucket less for as long as exchanges of single buckets succeed.
    """
    members, spread = len(gain), len(offsets)
    cover, own = np.zeros(members, np.int64), np.zeros(members, np.int64)
    new, inside = np.zeros(members, np.int64), np.zeros(members, np.bool_)
    for i in range(members):
        for offset in offsets:
            h = i - offset
            new[h if h >= 0 else h + members] += gain[i]
    state = (gain, offsets, cover, new, own, inside)
    value, count = 0, 0
    # A bucket's gain never increases, so one pass per amount always finds the greatest.
    for level in range(2 * spread, 0, -1):
        for h in range(members):
            if new[h] == level and not inside[h] and value <= gap:
                value += _shift(state, h, 1)
                count += 1
    kept = inside.copy()
    found = count
    barred = np.zeros(members, np.int64)
    clock = 0
    while found > least and count > 1:
        clock, value, count = _without(state, barred, clock, value, count)
        for _ in range(steps):
            if value > gap:
                break
            clock, value, count = _without(state, barred, clock, value, count)
            clock, value, count = _with(state, barred, clock, value, count)
        if value <= gap or count >= found:
            break
        found = count
        kept[:] = inside
    if found > most:
        return np.zeros(0, np.int64)
    return np.flatnonzero(kept)


@cached_njit(nogil=True)
def _without(
    state: Any, barred: Counts, clock: int, value: int, count: int
) -> tuple[int, int, int]:
    """Remove the bucket with the least gain of its own, except recently added ones."""
    own, inside = state[4], state[5]
    worst = -1
    for h in range(len(own)):
        if inside[h] and barred[h] <= clock and (worst < 0 or own[h] < own[worst]):
            worst = h
    if worst < 0:
        return clock + 1, value, count
    barred[worst] = clock + 7 + clock % 5
    return clock + 1, value + _shift(state, worst, -1), count - 1


@cached_njit(nogil=True)
def _with(state: Any, barred: Counts, clock: int, value: int, count: int) -> tuple[int, int, int]:
    """Add the bucket with the greatest gain, except recently removed ones."""
    new, inside = state[3], state[5]
    found = -1
    for h in range(len(new)):
        if not inside[h] and barred[h] <= clock and (found < 0 or new[h] > new[found]):
            found = h
    if found < 0:
        return clock + 1, value, count
    barred[found] = clock + 3 + clock % 3
    return clock + 1, value + _shift(state, found, 1), count + 1


PADDING = 1e-3
"""Largest excess of a dual bound over the optimum.

The data are whole numbers, so attacks satisfy every row exactly and no tolerance excludes them: the
bound is wrong only by the solver's arithmetic, far less than this. A larger margin would cost
nothing, because the optimum is also a whole number.
"""


def least_whole(
    problem: Problem, solver: CanSolve, seconds: float | None
) -> tuple[float, NDArray[np.float64] | None]:
    """Minimise a programme whose optimum is a whole number."""
    if seconds is not None and seconds <= 0:
        return -math.inf, None
    outcome = solver.solve(problem, Settings(time_limit=seconds))
    point = None if outcome.solution is None else outcome.solution.point
    if outcome.status is Status.INFEASIBLE:
        return math.inf, None
    bound = outcome.dual_bound
    return (float(math.ceil(bound - PADDING)) if math.isfinite(bound) else -math.inf), point


_WEIGHTS = 300
"""Weights tried per number of buckets to be proved insufficient."""

_MORE_WEIGHTS = 600
"""The same before solving a programme, which takes longer."""

_EXCHANGES = 200
"""Exchanges tried per number of buckets of an attack."""


@dataclass(eq=False)
class Bracket:
    """Bounds for one point, which can only tighten."""

    votes: Ints  # shape (members,)
    offsets: Counts  # shape (d,)
    best: int  # the prediction
    gap: Counts  # shape (labels,): what the gain of each label must exceed
    edits: Counts  # shape (labels,)
    cheapest: int  # that change the prediction: of the smallest attack found, or as given
    buckets: Ints  # smallest attack found, ascending
    turned: Ints  # shape (members,): all members' votes under this attack

    @property
    def lower(self) -> int:
        """Least number of buckets that the prediction survives."""
        return int(self.edits.min()) - 1

    @property
    def upper(self) -> int:
        """Greatest number of buckets that the prediction survives."""
        return self.cheapest - 1

    def is_settled(self, need: int | None) -> bool:
        """Return whether the radius, or its comparison with ``need``, is known."""
        if need is not None and (self.lower >= need or self.upper < need):
            return True
        return self.lower >= self.upper

    def open_labels(self) -> list[int]:
        """Return the labels for which a smaller attack may exist, the most promising first."""
        order = np.argsort(self.edits, kind="stable")
        return [int(label) for label in order if self.edits[label] < self.cheapest]

    def gain(self, label: int) -> Counts:
        """Return each member's possible gain of a label on the prediction: 0, 1 or 2."""
        gain: Counts = 1 + (self.votes == self.best).astype(np.int64) - (self.votes == label)
        return gain

    def try_attack(self, buckets: NDArray[np.integer], target: int) -> None:
        """Carry out an attack, recount, and keep it if it works and is the smallest so far."""
        turned = self.votes.copy()
        turned[(buckets[:, None] + self.offsets) % len(turned)] = target
        counts = np.bincount(turned, minlength=len(self.gap))
        if len(buckets) < len(self.buckets) and counts.argmax() != self.best:
            self.buckets, self.turned = buckets.astype(np.int32), turned
            self.cheapest = min(self.cheapest, len(buckets))


def bracket_radius(
    votes: Ints, labels: int, offsets: Counts, known: tuple[int, int], need: int | None
) -> Bracket:
    """Bound the number of poisoned buckets that a prediction survives, without a solver."""
    members = len(votes)
    gap, edits = np.zeros(labels, np.int64), np.zeros(labels, np.int64)
    best = int(kernels.gaps(votes, gap))
    hits = np.zeros((labels, members), np.int32)
    kernels.published_edits(votes, offsets, best, gap, hits, edits)
    edits = np.maximum(edits, known[0] + 1)
    # If all buckets are poisoned, any label can win.
    everything, other = np.arange(members, dtype=np.int32), np.full_like(votes, int(best == 0))
    found = Bracket(votes, offsets, best, gap, edits, known[1] + 1, everything, other)
    for label in found.open_labels():
        if found.is_settled(need):
            break
        if edits[label] < found.cheapest:
            gain, least = found.gain(label), int(edits[label])
            buckets = attack(gain, offsets, int(gap[label]), least, found.cheapest - 1, _EXCHANGES)
            if len(buckets):
                found.try_attack(buckets, label)
    for label in found.open_labels():
        if found.is_settled(need):
            break
        most = found.cheapest if need is None else min(found.cheapest, need + 1)
        gain, least = found.gain(label), int(edits[label])
        edits[label], _ = weighted_bound(gain, offsets, int(gap[label]), least, most, _WEIGHTS)
    return found


def solve(found: Bracket, need: int | None, solver: CanSolve, seconds: float | None) -> None:
    """Tighten a bracket by one programme for each label that may still pass the prediction.

    The result for one label limits the programmes of the others.
    """
    deadline = Deadline.after(seconds)
    labels = found.open_labels()
    for order, label in enumerate(labels):
        most = found.cheapest - 1 if need is None else min(found.cheapest - 1, need)
        gain, gap = found.gain(label), int(found.gap[label])
        known, left = int(found.edits[label]), deadline.limit
        if found.is_settled(need) or known > most or (left is not None and left <= 0):
            continue
        known, fit = weighted_bound(gain, found.offsets, gap, known, most + 1, _MORE_WEIGHTS)
        found.edits[label] = known
        if known > most:
            continue
        problem = finite_problem(
            found.votes,
            len(found.gap),
            found.offsets,
            label,
            least=known,
            most=most,
            fit=fit if known == most else None,
        )
        least, point = least_whole(
            problem, solver, None if left is None else left / (len(labels) - order)
        )
        if point is not None:
            found.try_attack(np.flatnonzero(point[: len(found.votes)] > 0.5), label)
        found.edits[label] = max(known, int(min(max(least, known), most + 1)))


def finite_published(votes: ArrayLike, labels: int, offsets: ArrayLike) -> Ints:
    """Return a lower bound of the poisoned buckets each prediction survives (published argument).

    The greatest r such that, for each other label, the r buckets with the most gain do not exceed
    its deficit (Wang, Levine and Feizi, ICML 2022). A lower bound, because members reached by two
    poisoned buckets count twice.
    """
    ballots, spots = check_ballots(votes, labels, offsets)
    found = np.empty(len(ballots), np.int32)
    kernels.published_all(ballots, spots, labels, found)
    return found - np.int32(1)


def finite_exact(
    votes: ArrayLike,  # shape (points, members)
    labels: int,
    offsets: ArrayLike,  # shape (d,)
    *,
    need: int | None = None,
    solver: CanSolve | None = None,
    seconds: float | None = None,
    lower: ArrayLike | None = None,  # shape (points,)
    upper: ArrayLike | None = None,  # shape (points,)
) -> tuple[Ints, Ints]:
    """Return how many poisoned buckets each prediction survives.

    Most points are settled without a solver, by weights that prove a bound and a search for
    attacks. The others need one mixed-integer programme per label that may still pass the
    prediction.
    """
    ballots, spots = check_ballots(votes, labels, offsets)
    points, members = ballots.shape
    lowest = _initial_bounds(lower, 0, points)
    highest = _initial_bounds(upper, members - 1, points)
    deadline = Deadline.after(seconds)
    solver = solver or find_solver()
    found = np.empty((2, points), np.int32)
    left: list[tuple[int, Bracket]] = []
    for j in range(points):
        known = (int(lowest[j]), int(highest[j]))
        bracket = bracket_radius(ballots[j], labels, spots, known, need)
        if bracket.lower > bracket.upper:
            raise SpecError(
                f"finite aggregation: the bounds passed for point {j}, {known[0]} and "
                f"{known[1]}, contradict the computed ones, {bracket.lower} and {bracket.upper}"
            )
        found[:, j] = bracket.lower, bracket.upper
        if not bracket.is_settled(need):
            left.append((j, bracket))
    # The narrowest brackets first; their unused time is left for the rest.
    left.sort(key=lambda each: each[1].upper - each[1].lower)
    for order, (j, bracket) in enumerate(left):
        solve(bracket, need, solver, deadline.share(len(left) - order))
        found[:, j] = bracket.lower, bracket.upper
    return found[0], found[1]


def finite_attack(
    votes: ArrayLike,  # shape (members,)
    labels: int,
    offsets: ArrayLike,  # shape (d,)
    *,
    solver: CanSolve | None = None,
    seconds: float | None = None,
) -> tuple[Ints, Ints]:
    """Return an attack on one test point with one bucket more than it survives."""
    ballots, spots = check_ballots(np.asarray(votes)[None], labels, offsets)
    known = (0, ballots.shape[1] - 1)
    deadline = Deadline.after(seconds)
    found = bracket_radius(ballots[0], labels, spots, known, None)
    if not found.is_settled(None):
        solve(found, None, solver or find_solver(), deadline.limit)
    return found.buckets, found.turned


def finite_attack_within(
    votes: ArrayLike,  # shape (members,)
    labels: int,
    offsets: ArrayLike,  # shape (d,)
    most: int,
    *,
    solver: CanSolve | None = None,
    seconds: float | None = None,
) -> Ints | None:
    """Return at most ``most`` buckets that change one prediction when poisoned."""
    ballots, spots = check_ballots(np.asarray(votes)[None], labels, offsets)
    found = bracket_radius(ballots[0], labels, spots, (0, ballots.shape[1] - 1), most)
    if not found.is_settled(most):
        solve(found, most, solver or find_solver(), seconds)
    return found.buckets if len(found.buckets) <= most else None


def _initial_bounds(bounds: ArrayLike | None, default: int, points: int) -> NDArray[np.int64]:
    """Return validated initial bounds, or defaults."""
    if bounds is None:
        return np.full(points, default)
    given = np.asarray(bounds)
    if given.shape != (points,) or given.dtype.kind not in "iu":
        raise SpecError(
            f"finite aggregation: bounds have the shape {given.shape} and are {given.dtype}, "
            f"expected {points} integers"
        )
    return given.astype(np.int64)


def forces(
    ballot: NDArray[np.int32], labels: int, offsets: Counts, buckets: Counts, target: int
) -> bool:
    """Recount and return whether a label wins if all reached members vote for it."""
    changed = ballot.copy()
    changed[(buckets[:, None] + offsets).ravel() % len(ballot)] = target
    return bool(np.bincount(changed, minlength=labels).argmax() == target)


def finite_edits_to(
    ballot: NDArray[np.int32],  # shape (members,)
    labels: int,
    offsets: Counts,  # shape (d,)
    target: int,
    *,
    solver: CanSolve,
    seconds: float | None = None,
) -> tuple[int, Counts]:
    """Return how many buckets are needed to make a label win at one point, and such buckets."""
    least, point = least_whole(_problem(ballot, labels, offsets, target), solver, seconds)
    everything = np.arange(len(ballot))
    found = everything if point is None else np.flatnonzero(point[: len(ballot)] > 0.5)
    if not forces(ballot, labels, offsets, found, target):
        found = everything
    return max(1, int(least)) if math.isfinite(least) else 1, found


def _problem(ballot: NDArray[np.int32], labels: int, offsets: Counts, target: int) -> Problem:
    """Return the programme: the poisoned buckets, then the share of each member that may vote.

    One row per member bars its vote unless a bucket reaches it; one row per label makes it lose.
    """
    members = len(ballot)
    counts = np.bincount(ballot, minlength=labels)
    rivals = np.array([label for label in range(labels) if label != target])
    gains = (ballot != target) + (ballot[None] == rivals[:, None]).astype(np.float64)
    index = np.arange(members)
    reached = (index[:, None] - offsets) % members
    rows = np.concatenate([np.repeat(index, len(offsets)), index])
    columns = np.concatenate([reached.ravel(), members + index])
    values = np.concatenate([np.ones(members * len(offsets)), -np.ones(members)])
    held = coo_array((values, (rows, columns)), shape=(members, 2 * members)).toarray()
    beaten = np.hstack([np.zeros((labels - 1, members)), gains])
    needs = counts[rivals] - counts[target] + (rivals < target)
    return Problem(
        objective=np.repeat([1.0, 0.0], members),
        matrix=csr_array(np.vstack([held, beaten])),
        row_lower=np.concatenate([np.zeros(members), needs.astype(np.float64)]),
        row_upper=np.full(members + labels - 1, np.inf),
        lower=np.zeros(2 * members),
        upper=np.ones(2 * members),
        integer=np.repeat([True, False], members),
        names=tuple(f"{what}[{i}]" for what in ("bucket", "member") for i in range(members)),
    )
