"""Bounds of linear forms by propagation alone, before a case is searched."""

from __future__ import annotations

import math
from fractions import Fraction

from leaveout.bab.joint_claim import FormErrors
from leaveout.encoders.query import Case, Form, Query


class Propagation:
    """Upper bounds over the cases of one query, propagating each network once."""

    def __init__(self, query: Query, errors: FormErrors) -> None:
        self._query, self._errors = query, errors
        self._scores = [
            applied.bounds(query.points[each.point])[-1]
            for applied, each in zip(errors.applied, query.applications, strict=True)
        ]

    def upper(self, case: Case) -> float:
        """Bound the least goal over a case's counter-examples; infinite if unknown."""
        conditions = [self._upper(each.form) for each in case.conditions]
        if case.goals and any(bound < 0.0 for bound in conditions):
            return -math.inf
        return min([self._upper(form) for form in case.goals] or conditions, default=math.inf)

    def _upper(self, form: Form) -> float:
        total = Fraction(form.constant)
        for point, feature, c in form.features:
            box = self._query.points[point]
            total += Fraction(c) * Fraction(float((box.upper if c > 0 else box.lower)[feature]))
        for application, label, c in form.scores:
            scores = self._scores[application]
            end = float((scores.upper if c > 0 else scores.lower)[label])
            if not math.isfinite(end):
                return math.inf
            total += Fraction(c) * Fraction(end)
        error = float(self._errors.over([form])[0])
        if not math.isfinite(error):
            return math.inf
        try:
            value = float(total + Fraction(error))
        except OverflowError:
            return math.inf
        # Above what is summed exactly, by more than adding the errors up may have lost.
        return value + 1e-12 * (abs(value) + error)
