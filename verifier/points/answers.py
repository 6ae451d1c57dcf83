"""Answers to given rows that no single record can change: confidence above bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders import Box, Choices
from leaveout.models import Network
from leaveout.verifier.records import BoxRecord

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Answers:
    """A network's answers to points, as onnxruntime computes them in float32."""

    labels: NDArray[np.int64]  # shape (points,): on a tie the first of the tied labels
    confidences: Floats  # shape (points,)


class State:
    """What is known of an answer; greater is better."""

    OUTSIDE, UNKNOWN, NOT_ABOVE, OWES_NOTHING = range(4)


@dataclass(frozen=True, eq=False)
class Known:
    """What a result states about leaks."""

    label: int | None  # None for every label
    upper: float | None
    box: Box


def answers_of(network: Network, x: NDArray[np.float32]) -> Answers:
    """Evaluate a network point by point, as guards and witness replays do."""
    runner = network.runner()
    scores = np.concatenate([runner.scores(point[None]) for point in x]).astype(np.float64)
    labels = scores.argmax(axis=1)
    others = scores.copy()
    places = np.arange(len(scores))
    others[places, labels] = -np.inf
    with np.errstate(invalid="ignore"):
        return Answers(labels, scores[places, labels] - others.max(axis=1))


def as_box(record: BoxRecord) -> Box:
    """Return the input set of a result."""
    choices = tuple(
        Choices(np.asarray(each.columns, np.int64), np.asarray(each.values, np.float64))
        for each in record.choices
    )
    return Box(np.asarray(record.lower), np.asarray(record.upper), choices)


def owe_nothing(confidences: Floats, inside: Bools, upper: float) -> Bools:
    """Return which answers no member changes, shape (points,).

    These lie in the input set with a confidence above the bound; at the bound a tie, hence a leak,
    may exist.
    """
    return inside & (confidences > upper)


def states(answers: Answers, x: NDArray[np.float32], known: Sequence[Known]) -> NDArray[np.int64]:
    """Return the best known `State` of each answer, shape (points,)."""
    points = x.astype(np.float64)
    found = np.full(len(x), State.OUTSIDE)
    for each in known:
        asked = np.full(len(x), True) if each.label is None else answers.labels == each.label
        inside = asked & each.box.contains(points)
        if each.upper is None:
            found[inside] = np.maximum(found[inside], State.UNKNOWN)
            continue
        found[inside] = np.maximum(found[inside], State.NOT_ABOVE)
        found[owe_nothing(answers.confidences, inside, each.upper)] = State.OWES_NOTHING
    return found
