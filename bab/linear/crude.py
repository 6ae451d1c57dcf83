"""Bounds of linear forms by propagation alone: what is known of a case before it is searched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from leaveout.bab.linear.question import bounded
from leaveout.encoders.query import Condition, Form, Query

__all__ = ["Crude"]


class Crude:
    """Upper bounds over the counter-examples of cases of one query.

    Each network is propagated once, when first asked for.

    Parameters
    ----------
    query : Query
    """

    def __init__(self, query: Query) -> None:
        self.query = query
        self._known = [bounded(each, query.points[each.point]) for each in query.applications]

    def upper(self, case: Sequence[Condition], goals: Sequence[Form]) -> float:
        """Bound the least goal over the counter-examples of a case; infinite if nothing is known.

        Parameters
        ----------
        case : sequence of Condition
        goals : sequence of Form
            Without any, the conditions' own forms.

        Returns
        -------
        float
            Minus infinity where a condition holds nowhere. Of scores as the query takes them:
            computed in float32, or over the reals.
        """
        conditions = [self._upper(each.form) for each in case]
        if goals and any(bound < 0.0 for bound in conditions):
            return -math.inf
        return min([self._upper(form) for form in goals] or conditions, default=math.inf)

    def _upper(self, form: Form) -> float:
        total = Fraction(form.constant)
        for point, feature, c in form.features:
            box = self.query.points[point]
            total += Fraction(c) * Fraction(float((box.upper if c > 0 else box.lower)[feature]))
        rows = [np.zeros(each.network.labels) for each in self.query.applications]
        for application, label, c in form.scores:
            scores = self._known[application][1][-1]
            end = float((scores.upper if c > 0 else scores.lower)[label])
            if not math.isfinite(end):
                return math.inf
            total += Fraction(c) * Fraction(end)
            rows[application][label] += c
        error = 0.0
        if not self.query.reals:
            for row, applied, (evaluation, bounds) in zip(
                rows, self.query.applications, self._known, strict=True
            ):
                if row.any():
                    box = self.query.points[applied.point]
                    error += evaluation.form_error(bounds, box, row)
        if not math.isfinite(error):
            return math.inf
        try:
            value = float(total + Fraction(error))
        except OverflowError:
            return math.inf
        # Above what is summed exactly, by more than adding the errors up may have lost.
        return value + 1e-12 * (abs(value) + error)
