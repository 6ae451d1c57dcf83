"""The accuracy of a vote per label, before and after an attack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Bools
from leaveout.bab.votes.collective_exact import CollectiveBounds, worst_attack
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.votes.threat import Threat
from leaveout.errors import BallotError
from leaveout.solvers import CanSolve
from leaveout.specs.deciders import Accuracy, LabelAccuracy, Say, discard_message
from leaveout.verifier.values.votes.schemes import CountedVote
from leaveout.verifier.values.votes.vote import Vote, name_of


def accuracy_of(
    vote: Vote,
    threat: Threat,
    count: int,
    counted: Bools,  # shape (points,)
    certain: Bools,  # shape (points,)
    possible: Bools,  # shape (points,)
    together: tuple[int, int] | None = None,
) -> Accuracy:
    """Return how many test points per true label are right, and stay right."""
    ballots, right = vote.ballots, vote.right
    points = np.bincount(ballots.truth, minlength=ballots.labels)
    common = int(points.argmax())
    own = np.unique(ballots.truth[counted])
    columns = [
        np.bincount(ballots.truth[each], minlength=ballots.labels)
        for each in (right, right & certain, right & possible)
    ]
    labels = [
        LabelAccuracy(
            label,
            name_of(ballots, label),
            int(points[label]),
            *(int(column[label]) for column in columns),
        )
        for label in own.tolist()
    ]
    return Accuracy(
        votes=vote.name,
        file=ballots.source,
        unit=threat.value,
        count=count,
        together=together is not None,
        points=ballots.points,
        right=int(right.sum()),
        common=common,
        common_name=name_of(ballots, common),
        common_points=int(points[common]),
        undefended_right=ballots.origin.undefended_right,
        lower=sum(each.lower for each in labels) if together is None else together[0],
        upper=sum(each.upper for each in labels) if together is None else together[1],
        labels=tuple(labels),
    )


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
            "an attack on all points at once can be certified for dpa, ss_dpa, "
            f"finite_aggregation, run_off and hash_bagging, not for {vote.name}"
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
