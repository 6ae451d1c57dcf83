"""What onnxruntime says of the test points, and what noise makes of accuracy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Family, Network, confidence

from guard_access import Mask, Point, Session, chance

__all__ = ["Reference", "expected_accuracy", "reference"]


@dataclass(frozen=True, eq=False)
class Reference:
    """What onnxruntime says of the test points: the truth that a guard is held against.

    Attributes
    ----------
    network, members : Session, list of Session
    answers : ndarray of int64, shape (p,)
        N's labels.
    margins : ndarray of float64, shape (p,)
        N's confidence.
    noised : ndarray of bool, shape (p,)
        Where some member answers otherwise or ties: what naive iDP noises.
    """

    network: Session
    members: list[Session]
    answers: NDArray[np.int64]
    margins: NDArray[np.float64]
    noised: Mask


def reference(network: Network, family: Family, points: Point) -> Reference:
    """Ask the network and every member about the test points, each in a session of its own.

    Parameters
    ----------
    network : Network
    family : Family
    points : ndarray of float32, shape (p, d)
    """
    own = Session(network)
    members = [Session(network, family, i) for i in range(len(family))]
    scores = own.scores_of_many(points).astype(np.float64)
    answers = scores.argmax(axis=1)
    margins = np.array([confidence(s, label) for s, label in zip(scores, answers, strict=True)])
    least = _least_margins(members, points, answers)
    return Reference(own, members, answers, margins, least <= 0)


def expected_accuracy(
    answers: NDArray[np.int64],
    noised: Mask,
    truth: NDArray[np.int64],
    epsilon: float,
    labels: int,
) -> float:
    """Return the mean chance of the right label, where the noised answers are not drawn yet.

    Parameters
    ----------
    answers, truth : ndarray of int64, shape (p,)
        N's labels, and the right ones.
    noised : ndarray of bool, shape (p,)
    """
    own = chance(epsilon, labels)
    other = (1 - own) / (labels - 1)
    right = answers == truth
    return float(np.where(noised, np.where(right, own, other), right).mean())


def _least_margins(
    members: Iterable[Session], points: Point, answers: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the least margin that any member gives the label N answers, shape (p,).

    Where it is not above 0, a member answers otherwise or ties.
    """
    least = np.full(len(points), np.inf)
    own = np.arange(len(points))
    for member in members:
        scores = member.scores_of_many(points).astype(np.float64)
        margin = scores[own, answers]
        scores[own, answers] = -np.inf
        least = np.minimum(least, margin - scores.max(axis=1))
    return least
