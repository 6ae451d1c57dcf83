"""One case of a query as linear forms over a joint input, and how float32 enters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.forms import Forms
from leaveout.encoders import Box, Evaluation, Interval, evaluation_of, network_bounds
from leaveout.encoders.joint import Joint, join
from leaveout.encoders.query import Application, Condition, Form, Query
from leaveout.errors import SpecError

__all__ = ["Question", "bounded", "errors_of", "question_of"]

Floats = NDArray[np.float64]

_MOST = 1e200
"""Largest coefficient: sums of products with float32 numbers then stay far below 1e300."""


@dataclass(frozen=True, eq=False)
class Question:
    """What an engine solves for one case.

    Attributes
    ----------
    query : Query
    case : tuple of Condition
    goals : tuple of Form
        The least of them is to be maximised: what is asked, or the case's own conditions.
    joint : Joint
    forms : Forms
        The goals, then the rest.
    rows : tuple of Form
        What the forms were made from.
    """

    query: Query
    case: tuple[Condition, ...]
    goals: tuple[Form, ...]
    joint: Joint
    forms: Forms
    rows: tuple[Form, ...]


def question_of(
    query: Query,
    case: tuple[Condition, ...],
    goals: Sequence[Form] = (),
    *,
    apart: bool = False,
) -> Question:
    """Prepare a case.

    Parameters
    ----------
    query : Query
    case : tuple of Condition
    goals : sequence of Form
        What to maximise the least of, subject to the case; by default the case's conditions on
        scores are the goals, so that a largest value below 0 refutes it.
    apart : bool
        Do not propagate the difference of two networks alike, as a baseline to measure against.

    Raises
    ------
    SpecError
        If a number of a form is not finite, or so large that float64 ends near.
    """
    joint = join(query, case, apart=apart)
    chosen = tuple(goals)
    others = [each.form for each in case]
    if not chosen:
        # What is about features alone is met or not by where a point lies.
        chosen = tuple(form for form in others if form.scores) or tuple(others)
        others = [form for form in others if form not in chosen]
    others += _inside(query, joint)
    rows = [*chosen, *others]
    for form in rows:
        terms = (form.constant, *(term[2] for term in (*form.features, *form.scores)))
        if not all(abs(number) <= _MOST for number in terms):
            raise SpecError(f"a number of this claim is too large to reckon with: above {_MOST:g}")
    errors = np.array(errors_of(query, rows, query.points))
    count, scores = len(rows), joint.first.labels
    inputs = np.zeros((count, joint.box.dimension))
    own, change = np.zeros((count, scores)), np.zeros((count, scores))
    constant = np.zeros(count)
    for k, form in enumerate(rows):
        for point, feature, coefficient in form.features:
            inputs[k] += coefficient * joint.points[point][feature]
        for application, label, coefficient in form.scores:
            place = joint.places[application]
            own[k, place.start + label] += coefficient
            if place.second:
                change[k, place.start + label] += coefficient
        constant[k] = form.constant
    goal = np.arange(count) < len(chosen)
    forms = Forms.of_case(inputs, own, change, constant, errors, goal)
    return Question(query, case, chosen, joint, forms, tuple(rows))


def _inside(query: Query, joint: Joint) -> list[Form]:
    """Forms that keep each point in its box, where the joint box alone does not."""
    found = []
    for p, (box, matrix) in enumerate(zip(query.points, joint.points, strict=True)):
        up, down = np.maximum(matrix, 0), np.minimum(matrix, 0)
        least = up @ joint.box.lower + down @ joint.box.upper
        most = up @ joint.box.upper + down @ joint.box.lower
        for i in range(box.dimension):
            if least[i] < box.lower[i]:
                found.append(Form(((p, i, 1.0),), (), -float(box.lower[i])))
            if most[i] > box.upper[i]:
                found.append(Form(((p, i, -1.0),), (), float(box.upper[i])))
    return found


def errors_of(query: Query, forms: Sequence[Form], boxes: Sequence[Box]) -> list[float]:
    """Bound how far rounding may move each form; 0 where the claim is about the reals.

    Parameters
    ----------
    query : Query
    forms : sequence of Form
    boxes : sequence of Box
        Where each point lies.
    """
    if query.reals:
        return [0.0] * len(forms)
    known = [bounded(each, boxes[each.point]) for each in query.applications]
    errors = []
    for form in forms:
        total = 0.0
        for a, (evaluation, bounds) in enumerate(known):
            row = np.zeros(query.applications[a].network.labels)
            for application, label, coefficient in form.scores:
                if application == a:
                    row[label] += coefficient
            if row.any():
                total += evaluation.form_error(bounds, boxes[query.applications[a].point], row)
        errors.append(total)
    return errors


def bounded(application: Application, box: Box) -> tuple[Evaluation, tuple[Interval, ...]]:
    """Return how an application is evaluated in float32, and bounds of its layers over a box."""
    network = application.network
    alone = {name: value[None] for name, value in network.parameters.items()}
    return evaluation_of(network.graph, alone), network_bounds(network.stack, box)
