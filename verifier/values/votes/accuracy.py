"""The accuracy of a vote per label, before and after an attack."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.votes.threat import Threat
from leaveout.specs.deciders import Accuracy, LabelAccuracy
from leaveout.verifier.values.votes.labels import name_of
from leaveout.verifier.values.votes.vote import Vote

Bools = NDArray[np.bool_]


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
