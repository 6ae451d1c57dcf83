"""Answers to given rows that no single record can change: confidence above bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Bools, Floats
from leaveout.encoders import Box, Choices
from leaveout.models import Network
from leaveout.verifier.amounts import bound
from leaveout.verifier.points.sentences import label_phrase
from leaveout.verifier.records import BoxRecord, LabelAnswersRecord


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


def head_words(free: int, count: int, *, data: str, members: int, rows: int | None) -> str:
    """Return the sentence about all rows."""
    them = f"{count:,} answers to {data}" if count != 1 else f"one answer to {data}"
    if free == 0:
        verb = "are proved" if count != 1 else "is not proved"
        whose = f"none of the {them} {verb}" if count != 1 else f"the {them} {verb}"
        return f"{whose} independent of any one of {_records(members, rows)}"
    if free == count:
        whose = f"all {them} are" if count != 1 else f"the {them} is"
    else:
        whose = f"{free:,} of the {them} {'are' if free != 1 else 'is'}"
    return f"{whose} independent of any one of {_records(members, rows)}"


def label_words(found: LabelAnswersRecord, *, boxes: int) -> str:
    """Return the sentence about the rows answered with one label."""
    if not found.answers:
        return ""
    are = "is" if found.owe_nothing == 1 else "are"
    parts = [f"{found.owe_nothing:,} of {found.answers:,} {are} independent"]
    if found.not_above:
        limit = "the bounds of the sets of inputs"
        if boxes == 1:
            limit = f"the bound {bound(found.upper, up=True)}"
        verb = "has" if found.not_above == 1 else "have"
        who = "it" if found.not_above == 1 else "they"
        parts.append(
            f"{found.not_above:,} {verb} a confidence not above {limit}, so {who} may depend on one"
        )
    if found.unknown:
        parts.append(f"for {found.unknown:,} no bound is known")
    if found.outside and not boxes:
        parts.append(
            f"no statement bounds this label, so nothing is proved about {found.outside:,}"
        )
    elif found.outside:
        verb = "lies" if found.outside == 1 else "lie"
        where = "every set" if boxes > 1 else "the set"
        parts.append(f"{found.outside:,} {verb} outside {where} of inputs, where nothing is proved")
    return f"{label_phrase(found.label, found.name)}: {'; '.join(parts)}"


def _records(members: int, rows: int | None) -> str:
    left = f"the {members:,} records that were left out"
    if members == 1:
        left = "the one record that was left out"
    if rows is None:
        return left
    if rows > members:
        return f"{left}, of {rows:,}; nothing is claimed about the others"
    return f"the {rows:,} training records"
