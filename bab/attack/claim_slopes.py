"""Claims as ascent problems: goals and limits are linear forms over two networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.confidences import ForwardPass, Nets, Sloped
from leaveout.bab.attack.local_networks import jacobians
from leaveout.bab.attack.slp import Model
from leaveout.bab.forms import Forms
from leaveout.models import Stack

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Rows:
    """The forms of m lanes, padded to equal number by ones that are neither goal nor limit.

    Attributes
    ----------
    inputs : ndarray, shape (m, k, d)
    scores, change : ndarray, shape (m, k, scores)
    constant : ndarray, shape (m, k, 1)
    goal, limit : ndarray of bool, shape (m, k, 1)
    """

    inputs: Floats
    scores: Floats
    change: Floats
    constant: Floats
    goal: NDArray[np.bool_]
    limit: NDArray[np.bool_]

    @staticmethod
    def of(forms: Forms, cases: NDArray[np.int64]) -> Rows:
        """Return the forms of some cases, one lane each."""
        rows, goal, limit = forms.rows_of_cases(cases)
        return Rows(
            forms.inputs[rows],
            forms.scores[rows],
            forms.change[rows],
            forms.constant[rows][..., None],
            goal[..., None],
            limit[..., None],
        )

    def values(self, points: Floats, scores: Floats, change: Floats | None) -> Floats:
        """Evaluate all forms at points of each lane, shape (m, k, p).

        Parameters
        ----------
        points : ndarray, shape (m or 1, p, d)
        scores, change : ndarray, shape (m or 1, p, scores)
        """
        values = self.inputs @ points.transpose(0, 2, 1) + self.scores @ scores.transpose(0, 2, 1)
        if change is not None:
            values += self.change @ change.transpose(0, 2, 1)
        return np.asarray(values + self.constant)


@dataclass(frozen=True, eq=False)
class FormPairs:
    """The least goal of each lane, and its most violated limit."""

    network: Nets  # the first network
    seconds: Nets | None  # the second one of each lane; None where there is none
    rows: Rows
    lower: Floats  # shape (m, p, d)
    upper: Floats  # shape (m, p, d)
    slack: Floats  # shape (m, 1): of each lane

    @property
    def slacks(self) -> tuple[Floats, ...]:
        """See `leaveout.bab.attack.slp.Problem`."""
        return (self.slack,) if self.rows.limit.any() else ()

    def at(self, points: Floats, widths: tuple[float, ...] | None) -> Model:
        """See `leaveout.bab.attack.slp.Problem`."""
        rows = self.rows
        own = ForwardPass.through(self.network, points, widths)
        other = None if self.seconds is None else ForwardPass.through(self.seconds, points, widths)
        values = rows.values(
            points, own.scores, None if other is None else other.scores - own.scores
        )
        width = 0.0 if widths is None else widths[-1]
        value, weights = _least(np.where(rows.goal, values, np.inf), width)
        goal = Sloped(value, self._slope(weights, own, other))
        if not self.slacks:
            return Model((goal,), ())
        some: NDArray[np.bool_] = np.asarray(rows.limit.any(axis=1))
        value, weights = _least(np.where(rows.limit, values, np.inf), 0.0)
        # Where a lane has none, one that is met anywhere.
        value, weights = np.where(some, value, 1.0), np.where(some[..., None], weights, 0.0)
        return Model((goal,), (Sloped(-value, -self._slope(weights, own, other)),))

    def _slope(self, weights: Floats, own: ForwardPass, other: ForwardPass | None) -> Floats:
        """Return the slopes of weighted sums of forms, weights (m, p, k)."""
        rows = self.rows
        top = weights @ rows.scores
        if other is None:
            return np.asarray(own.slopes(top) + weights @ rows.inputs)
        change = weights @ rows.change
        slope = own.slopes(top - change) + weights @ rows.inputs
        return np.asarray(slope + other.slopes(change))


def _least(values: Floats, width: float) -> tuple[Floats, Floats]:
    """Return the least value over k, and each one's share, (m, p, k).

    With a width the minimum is smoothed.
    """
    least = values.min(axis=1)
    if width == 0.0 or values.shape[1] == 1:
        shares = np.zeros_like(values)
        np.put_along_axis(shares, values.argmin(axis=1)[:, None], 1.0, axis=1)
        return least, shares.transpose(0, 2, 1)
    with np.errstate(invalid="ignore"):
        shares = np.exp((least[:, None] - values) / width)
    total = shares.sum(axis=1)
    return least - width * np.log(total), (shares / total[:, None]).transpose(0, 2, 1)


@dataclass(frozen=True, eq=False)
class WholeForms:
    """Every goal and every limit of one lane."""

    network: Stack  # the first network
    second: Stack | None  # of one network
    forms: Forms  # of all cases
    case: int
    lower: Floats  # shape (d,)
    upper: Floats  # shape (d,)
    slack: Floats  # shape (rows,): of the case's rows

    @property
    def slacks(self) -> tuple[float, ...]:
        """See `leaveout.bab.attack.slp.Problem`."""
        goal = self.forms.goal[self.forms.case(self.case)]
        return tuple(self.slack[~goal].tolist())

    def at(self, points: Floats, widths: tuple[float, ...] | None) -> Model:
        """See `leaveout.bab.attack.slp.Problem`; nothing is smoothed."""
        forms, rows = self.forms, self.forms.case(self.case)
        flat = points.reshape(-1, points.shape[-1]).astype(np.float64)
        scores, jacobian = jacobians(self.network, flat)
        change = np.zeros_like(scores)
        slopes = forms.inputs[rows] + forms.scores[rows] @ jacobian
        if self.second is not None:
            others, other_jacobian = jacobians(self.second, flat)
            change = others - scores
            slopes = slopes + forms.change[rows] @ (other_jacobian - jacobian)
        values = forms.values(flat, scores, change, rows)
        goals, limits = [], []
        for k, goal in enumerate(forms.goal[rows].tolist()):
            value = values[k].reshape(points.shape[:-1])
            slope = slopes[:, k].reshape(points.shape)
            if goal:
                goals.append(Sloped(value, slope))
            else:
                limits.append(Sloped(-value, -slope))
        return Model(tuple(goals), tuple(limits))
