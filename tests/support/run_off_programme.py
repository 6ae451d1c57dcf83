"""The run-off as an integer programme: slower than the search, and a check on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.bab.votes.finite import least_whole
from leaveout.deadline import Deadline
from leaveout.encoders.idp import ProblemBuilder
from leaveout.encoders.votes.run_off import (
    Scores,
    checked_row,
    run_off_predictions,
    run_off_published,
)
from leaveout.errors import SpecError
from leaveout.solvers import CanSolve, Problem, find_solver

__all__ = ["run_off_problem", "run_off_solved"]

Ints = NDArray[np.int32]


def run_off_problem(
    votes: ArrayLike,
    scores: ArrayLike,
    labels: int,
    winner: int,
    other: int,
    *,
    least: int = 0,
    most: int | None = None,
) -> Problem:
    """Return the programme of the fewest edits after which a label wins against another.

    Members are grouped by their vote g and by whether they prefer the new winner t to the other
    finalist s; of each group whole numbers alpha and beta are recast to t and to s. Recasting to
    any other label never helps more. The first variable is the number of edits.

    Parameters
    ----------
    votes : array of int, shape (parts,)
    scores : array of float, shape (parts, labels)
    labels : int
    winner, other : int
        The new winner t and the other finalist s.
    least, most : int
        Bounds of the number of edits; ``most`` is by default the number of parts.

    Returns
    -------
    Problem
        Of 1 + 4 ``labels`` variables: edits, then alpha and beta of each group, groups in the
        order (vote, prefers s before prefers t).

    Raises
    ------
    SpecError
        As `leaveout.encoders.votes.run_off.run_off_predictions`, if the two labels are the same
        or no labels, or ``least`` exceeds ``most``.
    """
    ballots, _, prefer = checked_row(votes, scores, labels)
    parts = len(ballots)
    most = parts if most is None else most
    if not (0 <= winner < labels and 0 <= other < labels and winner != other):
        raise SpecError(
            f"run-off: {winner} and {other} cannot be the finalists: expected two different "
            f"labels from 0 to {labels - 1}"
        )
    if least > most:
        raise SpecError(f"run-off: at least {least} edits and at most {most} leave none")
    for_t = prefer[:, winner, other].astype(np.int64)
    counts = np.einsum("ggg->g", prefer).astype(np.int64)
    size = np.stack([counts - for_t, for_t], axis=1).ravel()
    vote = np.repeat(np.arange(labels), 2)
    prefers = np.tile([0.0, 1.0], labels)

    builder = ProblemBuilder()
    # Half an edit of room, so that no tolerance can cut off an attack of just that many.
    edits = builder.add_variables(max(0.0, least - 0.5), most + 0.5, "edits")
    alpha = builder.add_variables(0 * size, np.where(vote == winner, 0, size), "to_winner", True)
    beta = builder.add_variables(0 * size, np.where(vote == other, 0, size), "to_other", True)
    ones = np.ones((1, 2 * labels))
    builder.add_rows([(edits, -np.ones((1, 1))), (alpha, ones), (beta, ones)], 0.0, 0.0)
    identity = np.eye(2 * labels)
    builder.add_rows([(alpha, identity), (beta, identity)], upper=size)
    voted = (vote == np.arange(labels)[:, None]).astype(float)
    for finalist, gained, lost in ((winner, alpha, beta), (other, beta, alpha)):
        for u in range(labels):
            if u in (winner, other):
                continue
            short = counts[u] + (u < finalist) - counts[finalist]
            leaves = voted[[u]]
            builder.add_rows(
                [(gained, ones + leaves), (lost, leaves - voted[[finalist]])], lower=float(short)
            )
    lacking = (parts + (winner > other) + 1) // 2 - int(for_t.sum())
    builder.add_rows([(alpha, 1 - prefers[None]), (beta, -prefers[None])], lower=float(lacking))
    return builder.build(int(edits[0]), maximise=False)


def run_off_solved(
    votes: ArrayLike,
    scores: ArrayLike,
    labels: int,
    *,
    solver: CanSolve | None = None,
    seconds: float | None = None,
) -> tuple[int, int]:
    """Bound by integer programmes how many poisoned parts one prediction survives.

    Parameters
    ----------
    votes : array of int, shape (parts,)
    scores : array of float, shape (parts, labels)
    labels : int
    solver : CanSolve, optional
        HiGHS by default.
    seconds : float, optional
        Time limit of all programmes together.

    Returns
    -------
    lower, upper : int
        Equal unless the time ran out. The lower one rests on the solver's dual bounds and the
        published argument, the upper one on an attack that was counted again.

    Raises
    ------
    SpecError
        As `leaveout.encoders.votes.run_off.run_off_predictions`.
    SolverError
        If the solver is not installed, or its licence is too small.
    """
    ballots, numbers, _ = checked_row(votes, scores, labels)
    solver = solver or find_solver()
    deadline = Deadline.after(seconds)
    before = int(run_off_predictions(ballots[None], numbers[None], labels)[0])
    known = int(run_off_published(ballots[None], numbers[None], labels)[0]) + 1
    lowest, best = len(ballots), len(ballots)
    for t in range(labels):
        for s in range(labels):
            if t in (before, s) or best == known:
                continue
            problem = run_off_problem(ballots, numbers, labels, t, s, least=known, most=best - 1)
            least, point = least_whole(problem, solver, deadline.limit)
            if point is not None:
                edits = _edits(ballots, numbers, labels, t, s, point)
                best = best if edits is None else min(best, edits)
            lowest = min(lowest, int(max(known, min(least, best))))
    return min(lowest, best) - 1, best - 1


def _edits(
    votes: Ints, scores: Scores, labels: int, t: int, s: int, point: NDArray[np.float64]
) -> int | None:
    """Carry a solution out on the ballots; return its edits if it changes the prediction."""
    counts = np.rint(point[1:]).astype(int).reshape(2, 2 * labels)
    ahead = scores[:, t] >= scores[:, s] if t < s else scores[:, t] > scores[:, s]
    turned = votes.copy()
    for group in range(2 * labels):
        members = np.flatnonzero((votes == group // 2) & (ahead == bool(group % 2)))
        to_t, to_s = int(counts[0, group]), int(counts[1, group])
        turned[members[:to_t]] = t
        turned[members[to_t : to_t + to_s]] = s
    changed = turned != votes
    after = np.where(changed[:, None], np.eye(labels, dtype=scores.dtype)[turned], scores)
    both = np.stack([votes, turned]), np.stack([scores, after])
    one, other = run_off_predictions(*both, labels)
    return int(changed.sum()) if one != other else None
