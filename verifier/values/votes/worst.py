"""The worst joint attack on all test points, for any vote, with a recount."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.votes.collective_exact import CollectiveBounds, worst_attack
from leaveout.deadline import NEVER, Deadline
from leaveout.errors import BallotError
from leaveout.solvers import CanSolve
from leaveout.specs.deciders import Say, discard_message
from leaveout.verifier.values.votes.certified import CountedVote
from leaveout.verifier.values.votes.vote import Vote


def worst_of(
    vote: Vote,
    edits: int,
    solver: CanSolve,
    deadline: Deadline = NEVER,
    points: NDArray[np.int64] | None = None,
    say: Say = discard_message,
) -> CollectiveBounds:
    """Return bounds on how many points one joint attack loses."""
    problem = vote.together(edits)
    if problem is None:
        raise BallotError(
            "one attack on all points is certified of dpa, ss_dpa, finite_aggregation, run_off and "
            f"hash_bagging, not of {vote.name}"
        )
    shown, gap = None, ""
    if isinstance(vote, CountedVote):
        shown, gap = vote.lower_bound_problem(edits), f"numerical: {vote.known.gap}"
    if points is not None:
        problem = problem.only(points)
        shown = None if shown is None else shown.only(points)
    if shown is None:
        found = worst_attack(problem, solver, deadline, say)
    else:
        # What an attack may do and what one is known to do are two questions.
        found = worst_attack(problem, solver, Deadline.after(deadline.share(2)), say)
        ended = Deadline.after(0.0) if found.interrupted else deadline
        other = worst_attack(shown, solver, ended, say)
        reason = (found.reason or gap) if found.upper > other.lower else ""
        stopped = found.interrupted or other.interrupted
        found = replace(found, attack=other.attack, reason=reason, interrupted=stopped)
    recounted = vote.lost_to(found.attack.units)
    if points is not None:
        counted = set(points.tolist())
        recounted = tuple(point for point in recounted if point in counted)
    if recounted != found.attack.lost:
        raise AssertionError(f"an attack loses {len(recounted)} points, not {found.lower}")
    return found
