"""Cases of a query as linear forms over a joint input, with float32 errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from leaveout.arrays import Floats
from leaveout.bab.forms import Forms, concatenate_forms
from leaveout.deadline import NEVER, Deadline, OverdueError
from leaveout.encoders import Applied, Box, Interval
from leaveout.encoders.joint import Joint, ends_of, join
from leaveout.encoders.query import Case, Form, Query
from leaveout.errors import SpecError

_MOST = 1e200
"""Largest coefficient, so that sums of products with float32 numbers stay far below 1e300."""

_SHARE = 0.25  # share of a claim's time after which networks are bounded by plain intervals alone
_ANALYSED = 0.75  # share of it after which rounding that is not known counts as without bound

_EASY = 2**20
"""Networks with fewer numbers, those of members included, are analysed however late it is."""

_FOLDED = 2.0**-27
"""Allowed effect on a form of folding networks in float64, relative to that of float32."""


@dataclass(frozen=True, eq=False)
class JointClaim:
    """A claim in the form that engines use."""

    query: Query  # points, applications and families; its cases are not used
    cases: tuple[Case, ...]  # with goals: the requested ones, or else the case's conditions
    joint: Joint
    forms: Forms  # the goals of each case, then its other forms
    rows: tuple[tuple[Form, ...], ...]  # what each case's forms were made from
    sides: tuple[int, ...]  # number of last forms of each case that keep points in their boxes
    errors: FormErrors  # of the query


def join_claim(
    query: Query, cases: Sequence[Case], *, apart: bool = False, seconds: float | None = None
) -> JointClaim:
    """Return the joint claim of some cases; a share of the seconds may go into bounds of networks.

    Without goals, the conditions on scores are the goals, so that a negative value excludes the
    case; without any, the goal is 0.
    """
    errors = FormErrors(query, Deadline.after(seconds))
    for each in errors.applied:
        if each.members is not None:
            # Checked first: members with non-finite numbers would prove anything.
            _ = each.hyper
    joint = join(query, cases, apart=apart)
    whole, parts, rows, sides = [], [], [], []
    for number, case in enumerate(cases):
        others = [each.form for each in case.conditions]
        goals = case.goals
        if not goals:
            # Conditions on features alone depend only on where a point is.
            goals = tuple(form for form in others if form.scores) or tuple(others) or (Form(),)
            others = [form for form in others if form not in goals]
        inside = _inside(query, joint, number)
        own = (*goals, *others, *inside)
        _expect_moderate(own)
        whole.append(replace(case, goals=goals))
        rows.append(own)
        sides.append(len(inside))
    # For all forms together, so that bounds are computed once and reused.
    errors.over([form for own in rows for form in own])
    for case, own in zip(whole, rows, strict=True):
        parts.append(_forms(own, joint, errors.over(own), len(case.goals)))
    return JointClaim(
        query, tuple(whole), joint, concatenate_forms(parts), tuple(rows), tuple(sides), errors
    )


def _expect_moderate(forms: Sequence[Form]) -> None:
    for form in forms:
        terms = (form.constant, *(term[2] for term in (*form.features, *form.scores)))
        if not all(abs(number) <= _MOST for number in terms):
            raise SpecError(f"a number in this claim is too large to compute with: above {_MOST:g}")


def _forms(rows: Sequence[Form], joint: Joint, errors: Floats, goals: int) -> Forms:
    """Return forms over the joint input and the scores of the two networks."""
    count, scores = len(rows), joint.first.labels
    inputs = np.zeros((count, joint.box.dimension))
    own, change = np.zeros((count, scores)), np.zeros((count, scores))
    constant = np.zeros(count)
    for k, form in enumerate(rows):
        for point, feature, coefficient in form.features:
            matrix = joint.points[point]
            at = slice(matrix.starts[feature], matrix.starts[feature + 1])
            inputs[k, matrix.columns[at]] += coefficient * matrix.values[0, at]
        for application, label, coefficient in form.scores:
            place = joint.places[application]
            own[k, place.start + label] += coefficient
            if place.second:
                change[k, place.start + label] += coefficient
        constant[k] = form.constant
    return Forms.of_case(inputs, own, change, constant, errors, np.arange(count) < goals)


def _inside(query: Query, joint: Joint, case: int) -> list[Form]:
    """Return forms that keep each point in its box where the joint region does not."""
    found = []
    lower, upper = joint.regions[case]
    for p, (box, matrix) in enumerate(zip(query.points, joint.points, strict=True)):
        least, most = ends_of(matrix, lower, upper)
        for i in np.flatnonzero((least < box.lower) | (most > box.upper)).tolist():
            if least[i] < box.lower[i]:
                found.append(Form(((p, i, 1.0),), (), -float(box.lower[i])))
            if most[i] > box.upper[i]:
                found.append(Form(((p, i, -1.0),), (), float(box.upper[i])))
    return found


class FormErrors:
    """Bounds of the rounding error of forms, in float32 or in folding exact claims."""

    def __init__(
        self,
        query: Query,
        deadline: Deadline = NEVER,
        known: tuple[tuple[Interval, ...], ...] | None = None,
    ) -> None:
        self._query, self._deadline, self._known = query, deadline, known
        self._bounding, self._analysing = deadline.part(_SHARE), deadline.part(_ANALYSED)
        self.applied = tuple(
            Applied(each.network, None if each.family is None else query.families[each.family])
            for each in query.applications
        )
        self._anywhere: dict[tuple[tuple[int, int, float], ...], float] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return FormErrors, (self._query, NEVER, self.bounds)

    @cached_property
    def bounds(self) -> tuple[tuple[Interval, ...], ...]:
        """Bounds of each application's pre-activations, over the whole set of its point."""
        return self._known or tuple(
            applied.bounds(self._query.points[each.point], deadline=self._bounding)
            for applied, each in zip(self.applied, self._query.applications, strict=True)
        )

    def over(
        self,
        forms: Sequence[Form],
        boxes: Sequence[Box] | None = None,
        members: Sequence[int] | None = None,
        hidden: Sequence[Sequence[Interval]] | None = None,
    ) -> Floats:
        """Bound the effect of rounding on some forms."""
        if boxes is not None:
            return self._bound_errors(forms, boxes, members, hidden)
        new = {form.scores: form for form in forms if form.scores not in self._anywhere}
        if new:
            found = self._bound_errors([*new.values()])
            self._anywhere.update(zip(new, found.tolist(), strict=True))
        return np.array([self._anywhere[form.scores] for form in forms])

    def _bound_errors(
        self,
        forms: Sequence[Form],
        boxes: Sequence[Box] | None = None,
        members: Sequence[int] | None = None,
        hidden: Sequence[Sequence[Interval]] | None = None,
    ) -> Floats:
        """Bound the evaluation errors of some forms; infinity for what takes too long."""
        total = np.zeros(len(forms))
        rows = [np.zeros((len(forms), each.network.labels)) for each in self.applied]
        for k, form in enumerate(forms):
            for application, label, coefficient in form.scores:
                rows[application][k, label] += coefficient
        for a, (each, row) in enumerate(zip(self._query.applications, rows, strict=True)):
            asked = row.any(axis=1)
            if not asked.any():
                continue
            member = members[each.family] if members and each.family is not None else None
            box = (boxes or self._query.points)[each.point]
            whole = boxes is None and member is None
            known = hidden[a] if hidden is not None else self.bounds[a] if whole else None
            deadline = self._analysing if boxes is None else self._deadline
            if boxes is None and self.applied[a].size < _EASY:
                deadline = NEVER
            try:
                found = self.applied[a].rounding(box, member, known, deadline)
                total[asked] += found.of_forms(row[asked])
            except OverdueError:
                total[asked] = np.inf
        return _FOLDED * total if self._query.reals else total
