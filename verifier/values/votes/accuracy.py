"""The accuracy of a vote per label, before and after an attack."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leaveout.arrays import Bools
from leaveout.bab.votes.collective import CollectiveBounds, worst_attack
from leaveout.deadline import NEVER, Deadline
from leaveout.solvers import CanSolve
from leaveout.specs.deciders import Accuracy, LabelAccuracy, Say, discard_message
from leaveout.verifier.values.votes.vote import Vote, name_of


def accuracy_of(
    vote: Vote,
    threat: str,
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
        unit=threat,
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
    counted: Bools | None = None,
    say: Say = discard_message,
) -> CollectiveBounds:
    """Return bounds on how many of the points that count one joint attack loses."""
    counted = np.ones(vote.ballots.points, np.bool_) if counted is None else counted
    stake = vote.stake(counted, edits)
    if not vote.gap:
        return worst_attack(stake, solver, deadline, say)
    # What an attack may do and what one is known to do are two questions.
    found = worst_attack(stake, solver, Deadline.after(deadline.share(2)), say)
    ended = Deadline.after(0.0) if found.interrupted else deadline
    other = worst_attack(vote.stake(counted, edits, surely=True), solver, ended, say)
    upper = max(found.upper, other.lower)
    reason = (found.reason or f"numerical: {vote.gap}") if upper > other.lower else ""
    stopped = found.interrupted or other.interrupted
    return replace(
        found, units=other.units, lost=other.lost, upper=upper, reason=reason, interrupted=stopped
    )
