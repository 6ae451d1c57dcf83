"""Newton's method to the minimum of a convex fit, as near as float64 comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from leaveout.arrays import Floats, Integers
from leaveout.errors import LinearError
from leaveout.kernel.linear import Curvature, Problem, loss, whiten
from leaveout.kernel.model import LinearModel
from leaveout.kernel.numbers import UNIT

_STEPS = 200
_HALVINGS = 40
_CHORDS = 40
_OFF = 1e-9
_SETTLED = 1e-3
"""What the last step may change of a score; where rows are separated, each step changes about 1."""

_APART = (
    "the fit has no minimum: some rows can be told apart without error, so that the coefficients "
    "grow without end; set a penalty, or a larger one"
)
_NO_MINIMUM = {
    "poisson": "the fit has no minimum: the numbers to predict are too large, all 0, or 0 wherever "
    "a column is not, so that a coefficient falls without end; scale them, or set a penalty",
    "gamma": "the fit has no minimum in float64: scale the numbers to predict",
    "squared": "the fit has no minimum in float64: scale the columns and the numbers to predict",
}
"""Why, for fits whose rows cannot be told apart."""


def minimise(problem: Problem, start: Floats | None = None) -> Floats:
    """Return the minimum, shape (outputs, columns).

    Raises
    ------
    LinearError
        If there is none, or more than one.
    """
    shape = problem.outputs, len(problem.penalty)
    theta = np.zeros(shape) if start is None else start.copy()
    value, gradient, hessian = _look(problem, theta)
    least = np.inf
    for _ in range(_STEPS):
        factor = _factor(hessian)
        direction = linalg.cho_solve(factor, gradient.reshape(-1))
        with np.errstate(over="ignore", invalid="ignore"):
            norm = float(np.sqrt(np.maximum(direction @ gradient.reshape(-1), 0.0)))
        # Quadratic convergence ends where rounding begins.
        scale = np.sqrt(1.0 + abs(value))
        if norm < 1e-14 * scale or (norm < 1e-6 * scale and norm > least / 4.0):
            if _farthest(problem, direction.reshape(shape)) < _SETTLED:
                return theta
            break
        least = min(least, norm)
        length = 1.0
        for _ in range(_HALVINGS):
            tried = theta - length * direction.reshape(shape)
            found, slope, bend = _look(problem, tried)
            spare = 64.0 * UNIT * abs(value)
            if np.isfinite(found) and found <= value - 1e-4 * length * norm**2 + spare:
                break
            length /= 2.0
        else:
            break
        theta, value, gradient, hessian = tried, found, slope, bend
        if not np.isfinite(theta).all():
            break
    raise LinearError(_NO_MINIMUM.get(problem.kind, _APART))


def _farthest(problem: Problem, direction: Floats) -> float:
    """Return the most that a step changes a score."""
    blocks = problem.blocks(len(problem.penalty))
    return max(float(np.abs(rows @ direction.T).max()) for _, _, rows in blocks)


def whitener(problem: Problem, theta: Floats) -> Floats:
    """Return R with R R' about the inverse of the curvature at coefficients."""
    _, _, hessian = _look(problem, theta)
    factor, _ = _factor(hessian)
    eye = np.eye(len(factor))
    return np.ascontiguousarray(linalg.solve_triangular(factor, eye, trans="N", lower=False))


def _factor(hessian: Floats) -> tuple[Floats, bool]:
    """Return the upper factor U of U'U; raise if the curvature is not positive."""
    size = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    safe = np.where(size > 0, size, 1.0)
    try:
        factor, _ = linalg.cho_factor(hessian / safe / safe[:, None], lower=False)
    except (linalg.LinAlgError, ValueError):
        factor = None
    if factor is None or np.abs(np.diag(factor)).min() < 1e-7 or (size == 0).any():
        wrong = "" if (size > 0).all() else f", such as column {int(np.argmin(size))}, constantly 0"
        raise LinearError(
            f"some design columns are combinations of the others{wrong}, so the minimum is not "
            "unique: drop columns, or set a penalty"
        )
    return np.triu(factor) * safe, False


def objective(problem: Problem, scores: Floats, first: int, last: int) -> float:
    """Return the loss of some rows."""
    target, w = problem.target[first:last], problem.weights[first:last]
    if problem.kind == "softmax":
        top = scores.max(axis=1)
        own = scores[np.arange(len(scores)), target.astype(np.int64)]
        return float(w @ (top + np.log(np.exp(scores - top[:, None]).sum(axis=1)) - own))
    score = scores[:, 0]
    if problem.kind == "logistic":
        return float(w @ np.logaddexp(0.0, np.where(target > 0, -score, score)))
    with np.errstate(over="ignore", invalid="ignore"):
        if problem.kind == "poisson":
            return float(w @ (np.exp(score) - target * score))
        if problem.kind == "gamma":
            return float(w @ (target * np.exp(-score) + score))
        if problem.kind == "squared":
            return float(w @ (score - target) ** 2) / 2.0
    short = np.maximum(1.0 - np.where(target > 0, score, -score), 0.0)
    return float(w @ short**2)


def _look(problem: Problem, theta: Floats) -> tuple[float, Floats, Floats]:
    """Return the objective, its gradient and its curvature at coefficients."""
    outputs, columns = theta.shape
    width = outputs * columns
    value = 0.0
    gradient, hessian = np.zeros(theta.shape), np.zeros((outputs, columns, outputs, columns))
    for first, last, rows in problem.blocks(columns * 2):
        scores = rows @ theta.T
        value += objective(problem, scores, first, last)
        with np.errstate(over="ignore", invalid="ignore"):
            each = loss(
                problem.kind, scores, problem.target[first:last], problem.weights[first:last], _OFF
            )
            gradient += each.slope.T @ rows
            for q in range(outputs):
                hessian[q, :, q] += rows.T @ (each.curve[:, q, None] * rows)
            if problem.kind == "softmax":
                share = each.curve / np.maximum(problem.weights[first:last], 1e-300)[:, None]
                for q in range(outputs):
                    for other in range(q + 1):
                        both = (each.curve[:, q] * share[:, other])[:, None]
                        part = rows.T @ (both * rows)
                        hessian[q, :, other] -= part
                        if other != q:
                            hessian[other, :, q] -= part
    pulled = problem.penalty_slope(theta)
    with np.errstate(over="ignore", invalid="ignore"):
        value += float((pulled * theta).sum()) / 2.0
    eye = np.eye(width).reshape(width, outputs, columns)
    found = hessian.reshape(width, width) + problem.penalty_slope(eye).reshape(width, width)
    return value, gradient + pulled, found


def refit(
    problem: Problem, at: Curvature, units: Integers, start: Floats, near: float = 0.0
) -> Floats:
    """Return the minima without some units, shape (units, outputs, columns).

    All move together, by the curvature at the fit without their own rows, which needs a product of
    all rows with all coefficients a step; what does not settle gets Newton's own steps. A gradient
    of ``near``, in the coordinates of the fit, is near enough.
    """
    theta = start.copy()
    steps = [_own_step(problem, at, unit) for unit in units.tolist()]
    waiting = np.array([each is not None for each in steps])
    last = np.full(len(units), np.inf)
    unsettled = ~waiting
    for _ in range(_CHORDS):
        chosen = np.flatnonzero(waiting)
        if not len(chosen):
            break
        gradient = _gradients(problem, theta[chosen], units[chosen])
        for place, g in zip(chosen.tolist(), gradient, strict=True):
            pulled = g.reshape(-1) @ at.R
            norm = float(np.linalg.norm(pulled))
            if norm < max(near, 1e-12) or (norm < 1e-7 and norm > last[place] / 2.0):
                waiting[place] = False
                continue
            if not norm < last[place] * 0.7:
                waiting[place], unsettled[place] = False, True
                continue
            last[place] = norm
            own = steps[place]
            assert own is not None
            theta[place] -= (at.R @ own(pulled)).reshape(theta.shape[1:])
    for place in np.flatnonzero(unsettled | waiting).tolist():
        theta[place] = minimise(without(problem, int(units[place])), start[place])
    return theta


def without(problem: Problem, unit: int) -> Problem:
    """Return the fit without the rows of a unit: they weigh nothing."""
    weights = problem.weights.copy()
    weights[problem.starts[unit] : problem.starts[unit + 1]] = 0.0
    return Problem(
        problem.kind, problem.rows, problem.target, weights, problem.penalty, problem.starts,
        problem.outputs,
    )  # fmt: skip


def _own_step(problem: Problem, at: Curvature, unit: int) -> Callable[[Floats], Floats] | None:
    """Return Newton's step from a gradient without a unit; None where little curvature is left."""
    first, last = int(problem.starts[unit]), int(problem.starts[unit + 1])
    z = whiten(problem.rows(first, last), at.R, problem.outputs)
    curve = at.curve[first:last]
    if problem.outputs > 1:
        share = curve / np.maximum(problem.weights[first:last], 1e-300)[:, None]
        z = z - np.einsum("iq,iqe->ie", share, z)[:, None, :]
    F = (np.sqrt(curve)[:, :, None] * z).reshape(-1, z.shape[2])
    few = len(F) < F.shape[1]
    left = np.eye(min(F.shape)) - (F @ F.T if few else F.T @ F)
    try:
        factor = linalg.cho_factor(left)
    except linalg.LinAlgError:
        return None
    if not np.diag(factor[0]).min() > 1e-4:
        return None
    if few:
        return lambda g: g + F.T @ linalg.cho_solve(factor, F @ g)
    return lambda g: np.asarray(linalg.cho_solve(factor, g))


def _gradients(problem: Problem, theta: Floats, units: Integers) -> Floats:
    found = problem.penalty_slope(theta)
    starts, ends = problem.starts[units], problem.starts[units + 1]
    count, outputs, columns = theta.shape
    for first, last, rows in problem.blocks(columns + 8 * count * outputs):
        # All units' scores below each other, shape (count * rows, outputs).
        scores = (theta.reshape(-1, columns) @ rows.T).reshape(count, outputs, len(rows))
        with np.errstate(over="ignore", invalid="ignore"):
            each = loss(
                problem.kind, scores.transpose(0, 2, 1).reshape(-1, outputs),
                np.tile(problem.target[first:last], count),
                np.tile(problem.weights[first:last], count), _OFF,
            )  # fmt: skip
        slopes = each.slope.reshape(count, len(rows), outputs)
        for m in range(count):
            slopes[m, max(starts[m] - first, 0) : max(ends[m] - first, 0)] = 0.0
        flat = slopes.transpose(0, 2, 1).reshape(-1, len(rows))
        found += (flat @ rows).reshape(theta.shape)
    return found


def with_rows(model: LinearModel, places: Integers) -> LinearModel:
    """Return the model with some of its rows, at ascending places; coefficients stay."""
    groups = model.groups
    return replace(
        model, X=model.X[places], y=model.y[places], weights=model.weights[places],
        names=model.names[places],
        groups=None if groups is None else replace(groups, cells=groups.cells[places]),
    )  # fmt: skip


def coefficients_of(
    problems: tuple[Problem, ...], start: Floats | None = None
) -> NDArray[np.float64]:
    """Return the minima of all fits of a model, shape (outputs, columns)."""
    found, first = [], 0
    for problem in problems:
        own = None if start is None else start[first : first + problem.outputs]
        found.append(minimise(problem, own))
        first += problem.outputs
    return np.concatenate(found)
