"""Finite Aggregation: how many poisoned buckets each prediction survives."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.bab.votes.finite_closing import Bracket, bracket_radius, solve
from leaveout.deadline import Deadline
from leaveout.encoders.votes import finite_kernels as kernels
from leaveout.encoders.votes.finite_ballots import check_ballots
from leaveout.errors import SpecError
from leaveout.solvers import CanSolve, find_solver

Ints = NDArray[np.int32]


def finite_published(votes: ArrayLike, labels: int, offsets: ArrayLike) -> Ints:
    """Return how many poisoned buckets each prediction survives by the published argument.

    The greatest r such that, for each other label, the r buckets that gain it most gain no more
    than it lacks (Wang, Levine and Feizi, ICML 2022). A lower bound, because a member that two
    poisoned buckets reach is counted twice.
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

    Most points are closed without a solver: by weights that prove a bound, and by a search for an
    attack. What they leave open goes to one mixed-integer programme for each label that may still
    pass the prediction.
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
                f"finite aggregation: the bounds given for point {j}, {known[0]} and {known[1]}, "
                f"contradict what was found, {bracket.lower} and {bracket.upper}"
            )
        found[:, j] = bracket.lower, bracket.upper
        if not bracket.is_settled(need):
            left.append((j, bracket))
    # The narrowest first; what one leaves of its share is there for the rest.
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
    """Return some buckets, no more than ``most``, that change one prediction when poisoned."""
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
