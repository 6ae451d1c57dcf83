"""Finite Aggregation: how many poisoned buckets each prediction survives."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.bab.votes.finite_closing import Bracket, bracketed, solve
from leaveout.deadline import Deadline
from leaveout.encoders.votes import finite_kernels as kernels
from leaveout.encoders.votes.finite_ballots import checked
from leaveout.errors import SpecError
from leaveout.solvers import CanSolve, find_solver

__all__ = ["finite_attack", "finite_attack_within", "finite_exact", "finite_published"]

Ints = NDArray[np.int32]


def finite_published(votes: ArrayLike, labels: int, offsets: ArrayLike) -> Ints:
    """Return how many poisoned buckets each prediction survives by the published argument.

    The greatest r such that, for each other label, the r buckets that gain it most gain no more
    than it lacks (Wang, Levine and Feizi, ICML 2022). A lower bound, because a member that two
    poisoned buckets reach is counted twice.

    Parameters
    ----------
    votes : array of int, shape (points, members)
        What each member votes for; the prediction has most votes, the smallest label of those.
    labels : int
    offsets : array of int, shape (d,)
        Distinct: bucket h reaches the members (h + s) mod ``members``, for each offset s.

    Returns
    -------
    ndarray of int32, shape (points,)

    Raises
    ------
    SpecError
        If there are fewer than two labels, no members, votes are no integers from 0 to
        ``labels - 1``, or offsets are no distinct integers from 0 to ``members - 1``.
    """
    ballots, spots = checked(votes, labels, offsets)
    found = np.empty(len(ballots), np.int32)
    kernels.published_all(ballots, spots, labels, found)
    return found - np.int32(1)


def finite_exact(
    votes: ArrayLike,
    labels: int,
    offsets: ArrayLike,
    *,
    need: int | None = None,
    solver: CanSolve | None = None,
    seconds: float | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> tuple[Ints, Ints]:
    """Return how many poisoned buckets each prediction survives.

    Most points are closed without a solver: by weights that prove a bound, and by a search for an
    attack. What they leave open goes to one mixed-integer programme for each label that may still
    pass the prediction.

    Parameters
    ----------
    votes : array of int, shape (points, members)
    labels : int
    offsets : array of int, shape (d,)
    need : int, optional
        Go no further with a point once its lower bound is at least this, or its upper bound less.
    solver : CanSolve, optional
        HiGHS by default.
    seconds : float, optional
        Time limit of all programmes together; 0 for none of them.
    lower, upper : array of int, shape (points,), optional
        Bounds that are already proved, to start from.

    Returns
    -------
    lower, upper : ndarray of int32, shape (points,)
        Equal where a point was closed. The lower one rests on whole-number weights or the solver's
        dual bound, the upper one on an attack that was counted again, or on what was given.

    Raises
    ------
    SpecError
        As `finite_published`, or if given bounds contradict each other or what was found.
    SolverError
        If the solver is not installed, or its licence is too small.
    """
    ballots, spots = checked(votes, labels, offsets)
    points, members = ballots.shape
    lowest = _given(lower, 0, points)
    highest = _given(upper, members - 1, points)
    deadline = Deadline.after(seconds)
    solver = solver or find_solver()
    found = np.empty((2, points), np.int32)
    left: list[tuple[int, Bracket]] = []
    for j in range(points):
        known = (int(lowest[j]), int(highest[j]))
        bracket = bracketed(ballots[j], labels, spots, known, need)
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
    votes: ArrayLike,
    labels: int,
    offsets: ArrayLike,
    *,
    solver: CanSolve | None = None,
    seconds: float | None = None,
) -> tuple[Ints, Ints]:
    """Return an attack on one test point with one bucket more than it survives.

    Parameters
    ----------
    votes : array of int, shape (members,)
    labels : int
    offsets : array of int, shape (d,)
    solver : CanSolve, optional
        HiGHS by default.
    seconds : float, optional
        Time limit; when it ends the best attack found so far is returned, one bucket more than the
        upper bound of `finite_exact`.

    Returns
    -------
    buckets : ndarray of int32, shape (radius + 1,)
        The poisoned buckets, ascending.
    votes : ndarray of int32, shape (members,)
        What all members then vote: other than before only where a poisoned bucket reaches.

    Raises
    ------
    SpecError
        As `finite_published`.
    SolverError
        If the solver is not installed, or its licence is too small.
    """
    ballots, spots = checked(np.asarray(votes)[None], labels, offsets)
    known = (0, ballots.shape[1] - 1)
    deadline = Deadline.after(seconds)
    found = bracketed(ballots[0], labels, spots, known, None)
    if not found.is_settled(None):
        solve(found, None, solver or find_solver(), deadline.limit)
    return found.buckets, found.turned


def finite_attack_within(
    votes: ArrayLike,
    labels: int,
    offsets: ArrayLike,
    most: int,
    *,
    solver: CanSolve | None = None,
    seconds: float | None = None,
) -> Ints | None:
    """Return some buckets, no more than ``most``, that change one prediction when poisoned.

    Parameters
    ----------
    votes : array of int, shape (members,)
    labels : int
    offsets : array of int, shape (d,)
    most : int
    solver : CanSolve, optional
        HiGHS by default; asked only where exchanges do not suffice.
    seconds : float, optional
        Its time limit.

    Returns
    -------
    ndarray of int32 or None
        None where none was found.

    Raises
    ------
    SpecError
        As `finite_published`.
    SolverError
        If the solver is not installed, or its licence is too small.
    """
    ballots, spots = checked(np.asarray(votes)[None], labels, offsets)
    found = bracketed(ballots[0], labels, spots, (0, ballots.shape[1] - 1), most)
    if not found.is_settled(most):
        solve(found, most, solver or find_solver(), seconds)
    return found.buckets if len(found.buckets) <= most else None


def _given(bounds: ArrayLike | None, default: int, points: int) -> NDArray[np.int64]:
    """Return bounds to start from, whatever was given."""
    if bounds is None:
        return np.full(points, default)
    given = np.asarray(bounds)
    if given.shape != (points,) or given.dtype.kind not in "iu":
        raise SpecError(
            f"finite aggregation: bounds have the shape {given.shape} and are {given.dtype}, "
            f"expected {points} integers"
        )
    return given.astype(np.int64)
