"""Cases of a query as linear forms over a joint input, and how float32 enters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.instance import expect_finite
from leaveout.bab.native.forms import Forms, stacked
from leaveout.encoders import (
    Box,
    Evaluation,
    HyperNetwork,
    Interval,
    confidence_error,
    evaluation_of,
    network_bounds,
)
from leaveout.encoders.bounds import hyper_bounds
from leaveout.encoders.joint import Joint, join
from leaveout.encoders.query import Case, Form, Query
from leaveout.errors import SpecError
from leaveout.models import Stack

__all__ = ["FormErrors", "Question", "question_of"]

Floats = NDArray[np.float64]

_MOST = 1e200
"""Largest coefficient: sums of products with float32 numbers then stay far below 1e300."""

_EVALUATED = 64
"""Networks whose evaluation is kept at hand."""

_KEPT = 4096
"""Errors that are remembered."""


@dataclass(frozen=True, eq=False)
class Question:
    """A claim as an engine reads it.

    Attributes
    ----------
    query : Query
        Points, applications and families; its own cases are not read.
    cases : tuple of Case
        With goals: what is asked, or the case's own conditions.
    joint : Joint
    forms : Forms
        Of each case the goals, then the rest.
    rows : tuple of tuple of Form
        What the forms of each case were made from.
    errors : FormErrors
        Of the query.
    """

    query: Query
    cases: tuple[Case, ...]
    joint: Joint
    forms: Forms
    rows: tuple[tuple[Form, ...], ...]
    errors: FormErrors


def question_of(query: Query, cases: Sequence[Case], *, apart: bool = False) -> Question:
    """Prepare some cases.

    Of a case without goals the conditions on scores are the goals, so that a largest value below 0
    refutes it; one without conditions either is met everywhere, by 0.

    Parameters
    ----------
    query : Query
    cases : sequence of Case
    apart : bool
        Do not propagate the difference of two networks alike, as a baseline to measure against.

    Raises
    ------
    SpecError
        If a number of a form is not finite, or so large that float64 ends near.
    FamilyError
        If a member's folded weights are not finite.
    """
    errors = FormErrors(query)
    for number, each in enumerate(query.applications):
        if each.family is not None:
            # Looked at before anything else: members that are no numbers prove anything.
            errors.of_family(number)
    joint = join(query, cases, apart=apart)
    whole, parts, rows = [], [], []
    for number, case in enumerate(cases):
        others = [each.form for each in case.conditions]
        goals = case.goals
        if not goals:
            # What is about features alone is met or not by where a point lies.
            goals = tuple(form for form in others if form.scores) or tuple(others) or (Form(),)
            others = [form for form in others if form not in goals]
        others += _inside(query, joint, number)
        own = (*goals, *others)
        _expect_moderate(own)
        whole.append(replace(case, goals=goals))
        rows.append(own)
        bound = np.array([errors.over(form, query.points) for form in own])
        parts.append(_forms(own, joint, bound, len(goals)))
    return Question(query, tuple(whole), joint, stacked(parts), tuple(rows), errors)


def _expect_moderate(forms: Sequence[Form]) -> None:
    for form in forms:
        terms = (form.constant, *(term[2] for term in (*form.features, *form.scores)))
        if not all(abs(number) <= _MOST for number in terms):
            raise SpecError(f"a number of this claim is too large to reckon with: above {_MOST:g}")


def _forms(rows: Sequence[Form], joint: Joint, errors: Floats, goals: int) -> Forms:
    """Write forms down over the joint input and the scores of the two networks."""
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
    return Forms.of_case(inputs, own, change, constant, errors, np.arange(count) < goals)


def _inside(query: Query, joint: Joint, case: int) -> list[Form]:
    """Forms that keep each point in its box, where the joint region alone does not."""
    found = []
    lower, upper = joint.regions[case]
    for p, (box, matrix) in enumerate(zip(query.points, joint.points, strict=True)):
        up, down = np.maximum(matrix, 0), np.minimum(matrix, 0)
        least = up @ lower + down @ upper
        most = up @ upper + down @ lower
        for i in range(box.dimension):
            if least[i] < box.lower[i]:
                found.append(Form(((p, i, 1.0),), (), -float(box.lower[i])))
            if most[i] > box.upper[i]:
                found.append(Form(((p, i, -1.0),), (), float(box.upper[i])))
    return found


class FormErrors:
    """Bounds how far rounding may move forms; 0 where the claim is about the reals.

    Parameters
    ----------
    query : Query
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._known: dict[tuple[int, int | None], Evaluation] = {}
        self._bounds: dict[tuple[int, int | None, bytes], tuple[Interval, ...]] = {}
        self._found: dict[tuple[int, int | None, bytes, bytes], float] = {}
        self._any: dict[tuple[int, bytes], float] = {}
        self._hyper: dict[int, HyperNetwork] = {}

    def over(self, form: Form, boxes: Sequence[Box], members: Sequence[int] | None = None) -> float:
        """Bound how far rounding may move a form.

        Parameters
        ----------
        form : Form
        boxes : sequence of Box
            Where each point lies.
        members : sequence of int, optional
            One of each family; by default all of them.
        """
        query = self._query
        if query.reals:
            return 0.0
        rows: dict[int, Floats] = {}
        for application, label, coefficient in form.scores:
            labels = query.applications[application].network.labels
            rows.setdefault(application, np.zeros(labels))[label] += coefficient
        total = 0.0
        for a, row in rows.items():
            if not row.any():
                continue
            each = query.applications[a]
            box = boxes[each.point]
            if each.family is None:
                total += self._error(a, None, box, row)
            elif members is None:
                total += self._of_any(a, box, row)
            else:
                total += self._error(a, members[each.family], box, row)
        return total

    def of_family(self, application: int) -> HyperNetwork:
        """Return the hyper-network of the family that an application is of.

        Raises
        ------
        FamilyError
            If a member's folded weights are not finite.
        """
        if application not in self._hyper:
            each = self._query.applications[application]
            assert each.family is not None
            members = self._query.families[each.family]
            self._hyper[application] = expect_finite(members, each.network)
        return self._hyper[application]

    def bounds(self, application: int, box: Box) -> tuple[Interval, ...]:
        """Bound the layers of an application, of any member where it is of a family."""
        each = self._query.applications[application]
        if each.family is None:
            return network_bounds(each.network.stack, box)
        return hyper_bounds(self.of_family(application), box)

    def _of_any(self, application: int, box: Box, row: Floats) -> float:
        """Bound what rounding may do to a form of any member's scores.

        No score is off by more than a confidence may be, and no two together are.
        """
        each = self._query.applications[application]
        assert each.family is not None
        members = self._query.families[each.family]
        key = (application, box.lower.tobytes() + box.upper.tobytes())
        if key not in self._any:
            bounds = self.bounds(application, box)
            found = confidence_error(each.network.graph, members.family.parameters, bounds, box)
            self._any[key] = found
        sizes = np.abs(row)
        often = sizes.max() if np.count_nonzero(sizes) <= 2 else sizes.sum()
        return float(self._any[key] * often * (1.0 + 1e-12))

    def _error(self, application: int, member: int | None, box: Box, row: Floats) -> float:
        place = box.lower.tobytes() + box.upper.tobytes()
        key = (application, member, place, row.tobytes())
        if key not in self._found:
            if len(self._found) > _KEPT:
                self._found.clear()
                self._bounds.clear()
            evaluation = self._evaluation(application, member)
            known = self._bounds.get((application, member, place))
            if known is None:
                known = network_bounds(self._stack(application, member), box)
                self._bounds[application, member, place] = known
            self._found[key] = evaluation.form_error(known, box, row)
        return self._found[key]

    def _stack(self, application: int, member: int | None) -> Stack:
        each = self._query.applications[application]
        if member is None or each.family is None:
            return each.network.stack
        return self._query.families[each.family].member(member)

    def _evaluation(self, application: int, member: int | None) -> Evaluation:
        key = (application, member)
        if key not in self._known:
            each = self._query.applications[application]
            network = each.network
            parameters = {name: value[None] for name, value in network.parameters.items()}
            if member is not None and each.family is not None:
                parameters = self._query.families[each.family].family.take([member])
            while len(self._known) >= _EVALUATED:
                self._known.pop(next(iter(self._known)))
            self._known[key] = evaluation_of(network.graph, parameters)
        return self._known[key]
