"""All leave-out models of one convex fit: each within a proved distance of a centre.

A member minimises F_S(t) = sum over rows j outside S of w_j l(y_j, t x_j) + t' P t / 2, where S is
a unit of rows that leave together. Everything is told from F's own curvature at the fitted t, in
coordinates in which that curvature is about the identity: for a matrix R, given, z = R' x. The
proofs are in ``docs/linear-proof.md``; the sources are Bach (2010), and Sherman, Morrison and
Woodbury.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .numbers import EXP, PAD, TINY, UNIT, Floats, gamma, lengths, need, no_less, no_more, spectral

Integers = NDArray[np.int64]

SMOOTH = ("logistic", "softmax", "poisson", "gamma")
"""Losses whose third derivative is at most the second times the change of the scores."""

KINDS = (*SMOOTH, "squared", "hinge")

_NUMBERS = 2**22  # numbers of a block
_FAR = 1e-3  # most error of a fitted score that is told; beyond it nothing is


class Loss(NamedTuple):
    """Derivatives of the loss of some rows, and what rounding may have changed in them."""

    slope: Floats  # shape (rows, outputs), times the weights
    curve: Floats  # shape (rows, outputs): of softmax the shares p, else the second derivative
    lost: Floats  # shape (rows,): Euclidean, of the slope
    relative: float  # of the curvature
    gap: Floats  # shape (rows,): how far the score is from where the curvature jumps; else empty


def loss(kind: str, scores: Floats, target: Floats, weights: Floats, off: float) -> Loss:
    """Return the loss's derivatives at scores known up to ``off``, shape (rows, outputs)."""
    need(0.0 <= off < _FAR, "the fitted scores are too large for float64")
    relative, gap, score = 4.0 * EXP + 4.0 * off, np.empty(0), scores[:, 0]
    if kind == "softmax":
        scaled = np.exp(scores - scores.max(axis=1, keepdims=True))
        curve = scaled / scaled.sum(axis=1, keepdims=True)
        relative += gamma(scores.shape[1] + 4)
        slope = curve.copy()
        slope[np.arange(len(slope)), target.astype(np.int64)] -= 1.0
        lost = np.full(len(slope), relative + 4.0 * UNIT)
    elif kind == "logistic":
        sign = np.where(target > 0, -1.0, 1.0)
        with np.errstate(over="ignore"):
            wrong, right = 1.0 / (1.0 + np.exp(-sign * score)), 1.0 / (1.0 + np.exp(sign * score))
        slope, curve = sign * wrong, wrong * right
        lost = wrong * relative
    elif kind in ("poisson", "gamma"):
        with np.errstate(over="ignore"):
            mean = np.exp(score) if kind == "poisson" else target * np.exp(-score)
        slope = mean - target if kind == "poisson" else 1.0 - mean
        curve, lost = mean, mean * relative + 2.0 * UNIT * np.abs(slope)
    elif kind == "squared":
        slope, curve = score - target, np.ones(len(score))
        lost = off + 2.0 * UNIT * np.abs(slope)
    else:
        need(kind == "hinge", f"no such loss: {kind}")
        sign = np.where(target > 0, 1.0, -1.0)
        short, rounding = 1.0 - sign * score, 4.0 * UNIT * (1.0 + np.abs(score))
        slope, curve = -2.0 * sign * np.maximum(short, 0.0), np.where(short > 0, 2.0, 0.0)
        lost, relative = 2.0 * off + rounding, 2.0 * UNIT
        gap = no_more(np.maximum(np.abs(short) - off - rounding, 0.0))
    w = weights[:, None]
    return Loss(
        slope.reshape(scores.shape) * w, curve.reshape(scores.shape) * w,
        no_less(lost * weights + TINY), relative + 2.0 * UNIT, gap,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Problem:
    """A convex fit: its rows in the order of their units, and its penalty."""

    kind: str  # one of `KINDS`
    rows: Callable[[int, int], Floats]  # design rows from one place to another, (rows, columns)
    target: Floats  # shape (rows,): a label's number of softmax, 0 or 1 of logistic and hinge
    weights: Floats  # shape (rows,): not negative
    penalty: Floats  # shape (columns,): not negative; the same for every output
    starts: Integers  # shape (units + 1,): where the rows of each unit begin
    outputs: int = 1  # of softmax the labels

    def __post_init__(self) -> None:
        need(self.kind in KINDS, f"no such loss: {self.kind}")
        need(self.outputs >= 2 if self.kind == "softmax" else self.outputs == 1, "outputs")
        count, starts = len(self.target), self.starts
        need(self.weights.shape == (count,), "one weight a row")
        need((self.weights >= 0) & np.isfinite(self.weights), "a weight is negative or no number")
        need((self.penalty >= 0) & np.isfinite(self.penalty), "a penalty is negative or no number")
        need(np.isfinite(self.target), "a target is no number")
        need(starts[0] == 0 and starts[-1] == count and np.all(np.diff(starts) > 0), "units")
        if self.kind == "softmax":
            whole = (self.target >= 0) & (self.target < self.outputs)
            need(whole & (np.floor(self.target) == self.target), "a target is no label")
        elif self.kind in ("logistic", "hinge"):
            need((self.target == 0) | (self.target == 1), "a target is neither 0 nor 1")
        elif self.kind == "poisson":
            need(self.target >= 0, "a target is negative")
        elif self.kind == "gamma":
            need(self.target > 0, "a target is not positive")

    @property
    def tie(self) -> float:
        """What keeps each column's coefficients of softmax at a sum of 0, as at the minimum."""
        return float(np.sum(self.weights)) / 8.0 if self.kind == "softmax" else 0.0

    @property
    def single(self) -> bool:
        """Whether each row leaves alone."""
        return len(self.starts) == len(self.target) + 1

    def blocks(self, width: int) -> Iterator[tuple[int, int, Floats]]:
        """Yield design rows in blocks of a memory of some numbers a row."""
        step = max(16, _NUMBERS // max(width, 1))
        for first in range(0, len(self.target), step):
            last = min(first + step, len(self.target))
            rows = self.rows(first, last)
            need(rows.shape == (last - first, len(self.penalty)), "the design's shape")
            need(np.isfinite(rows), "a design value is no number")
            yield first, last, rows

    def unit_blocks(self, width: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of units, each as many as a memory of some numbers a row holds, or one."""
        starts, first, most = self.starts, 0, max(16, _NUMBERS // width)
        while first < len(starts) - 1:
            last = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
            last = max(last, first + 1)
            yield first, last
            first = last

    def penalty_slope(self, t: Floats) -> Floats:
        """Return the penalty's gradient at parameters, shape (..., outputs, columns)."""
        found = t * self.penalty
        if self.kind == "softmax":
            found = found + self.tie * t.sum(axis=-2, keepdims=True)
        return found


@dataclass(frozen=True, eq=False)
class Curvature:
    """What one look at all rows tells, in the coordinates of ``R``."""

    theta: Floats  # shape (outputs, columns)
    R: Floats  # shape (outputs * columns, outputs * columns)
    sizes: Floats  # shape (columns,): the largest absolute value of each design column
    slope: Floats  # shape (rows, outputs)
    curve: Floats  # shape (rows, outputs)
    lost: Floats  # shape (rows,)
    gram: Floats  # shape (rows, outputs, outputs): z' z
    gap: Floats  # shape (rows,) or empty
    norms: Floats  # shape (rows, outputs): at least those of z
    residue: float  # at least the norm of F's gradient at theta, in these coordinates
    fourth: float  # at least the root of sum of D (z' u)^4 for any u of length 1
    spread: float  # at least the largest norm of a z, of softmax of a difference of two
    slip: float  # at least what rounding changes in a z, Euclidean
    relative: float  # error of the curvatures
    eta: float  # F's curvature lies between 1 - eta and 1 + eta

    @property
    def floor(self) -> float:
        """The least curvature of F."""
        return float(no_more(1.0 - self.eta))


def whiten(rows: Floats, R: Floats, outputs: int) -> Floats:
    """Return z of design rows and outputs, shape (rows, outputs, parameters)."""
    columns, width = rows.shape[1], R.shape[1]
    if outputs == 1:
        return (rows @ R)[:, None, :]
    by_output = R.reshape(outputs, columns, width)
    return np.stack([rows @ each for each in by_output], axis=1)


def _slip(sizes: Floats, R: Floats, outputs: int) -> float:
    """Bound what rounding changes in any z."""
    norms = lengths(R).reshape(outputs, -1)
    return float(gamma(len(sizes) + 2) * no_less((norms * sizes).sum(axis=1)).max() * PAD)


def score_error(sizes: Floats, theta: Floats, more: int = 2) -> float:
    """Bound what rounding changes in a score of rows up to these sizes, and in their sum."""
    total = no_less((np.abs(theta) * sizes).sum(axis=-1)).max()
    return float(gamma(len(sizes) + more) * total * PAD)


def whole_norms(norms: Floats) -> Floats:
    """Return Frobenius norms of z from those of its outputs, shape (rows, outputs)."""
    return norms[:, 0] if norms.shape[1] == 1 else lengths(norms)


def _spreads(gram: Floats, width: int) -> Floats:
    """Return at least the norm of each row's z, of softmax of any difference of its outputs."""
    own = np.einsum("iqq->iq", gram)
    squares = own
    if gram.shape[1] > 1:
        pairs = own[:, :, None] + own[:, None, :] - 2.0 * gram
        squares = pairs.reshape(len(gram), -1)
    wrong = gamma(width + 8) * 4.0 * own.max(axis=1)
    return np.asarray(no_less(np.sqrt(no_less(np.maximum(squares.max(axis=1), 0.0) + wrong))))


def survey(problem: Problem, theta: Floats, R: Floats) -> Curvature:
    """Look at all rows once.

    Raises
    ------
    Rejected
        If the numbers of the problem are not what they must be, or too large to tell anything.
    """
    outputs, columns, width = problem.outputs, len(problem.penalty), R.shape[1]
    need(theta.shape == (outputs, columns) and R.shape == (outputs * columns,) * 2, "shapes")
    need(np.isfinite(theta).all() and np.isfinite(R).all(), "a coefficient is no number")
    count, softmax = len(problem.target), problem.kind == "softmax"
    sizes = np.zeros(columns)
    for _, _, rows in problem.blocks(columns):
        np.maximum(sizes, np.abs(rows).max(axis=0), out=sizes)
    slip, off = _slip(sizes, R, outputs), score_error(sizes, theta)
    slope, curve = np.empty((count, outputs)), np.empty((count, outputs))
    lost, gram = np.empty(count), np.empty((count, outputs, outputs))
    gap = np.empty(count if problem.kind == "hinge" else 0)
    bend, fourth, gradient = np.zeros((width, width)), np.zeros((width, width)), np.zeros(width)
    relative, blocks, block = 0.0, 0, 1
    for first, last, rows in problem.blocks(outputs * width):
        each = loss(
            problem.kind, rows @ theta.T, problem.target[first:last],
            problem.weights[first:last], off,
        )  # fmt: skip
        z = whiten(rows, R, outputs)
        flat = z.reshape(-1, width)
        curves = each.curve.reshape(-1, 1)
        bend += flat.T @ (curves * flat)
        gram[first:last] = z @ z.transpose(0, 2, 1)
        if problem.kind in SMOOTH:
            # Sum of D (z' u)^4 <= sum of D |z|^2 (z' u)^2; of softmax |z| is the spread's.
            largest = _spreads(gram[first:last], width)
            fourth += flat.T @ ((each.curve * largest[:, None] ** 2).reshape(-1, 1) * flat)
        if softmax:
            weight = np.maximum(problem.weights[first:last], TINY)[:, None]
            mean = np.einsum("iq,iqe->ie", each.curve / np.sqrt(weight), z)
            bend -= mean.T @ mean
            fourth -= mean.T @ (largest[:, None] ** 2 * mean)
        gradient += flat.T @ each.slope.reshape(-1)
        slope[first:last], curve[first:last], lost[first:last] = each.slope, each.curve, each.lost
        if len(gap):
            gap[first:last] = each.gap
        relative, blocks = each.relative, blocks + 1
        block = max(block, (last - first) * outputs)
    sums = gamma(block + blocks + 8)
    squares = no_less(np.maximum(np.einsum("iqq->iq", gram), 0.0)) * (1 + gamma(width + 2))
    norms = no_less(np.sqrt(squares))
    # The rows' part of the curvature and the penalty's, each with what rounding may hide.
    total = float(no_less((curve * norms**2).sum()) * (1.0 + sums))
    mass = float(no_less((curve * norms).sum()) * (1.0 + sums))
    twice = 3.0 if softmax else 1.0
    hidden = twice * (total * (relative + 2.0 * sums) + 2.0 * slip * mass + slip**2 * curve.sum())
    folded = R.reshape(outputs, columns, width)
    weighted = problem.penalty_slope(np.moveaxis(folded, 2, 0))
    bend += np.moveaxis(weighted, 0, 2).reshape(-1, width).T @ R
    size = np.moveaxis(problem.penalty_slope(np.moveaxis(np.abs(folded), 2, 0)), 0, 2)
    penalty = (size.reshape(-1, width).T @ np.abs(R)) * gamma(outputs * columns + 8)
    apart = bend - np.eye(width)
    eta = float(lengths(apart.reshape(-1)) + no_less(hidden) + lengths(penalty.reshape(-1)))
    eta = float(no_less(eta + 4.0 * UNIT))
    pulled = problem.penalty_slope(theta).reshape(-1)
    gradient += R.T @ pulled
    size_of_slope = np.abs(slope)
    missing = (
        sums * float(no_less((size_of_slope * norms).sum()))
        + slip * float(no_less(size_of_slope.sum()))
        + float(no_less((lost * (whole_norms(norms) + slip * outputs)).sum()))
        + gamma(outputs * columns + 8)
        * float(no_less((problem.penalty_slope(np.abs(theta)).reshape(-1) * lengths(R)).sum()))
    )
    residue = float(lengths(gradient) + no_less(missing * (1.0 + sums)))
    spread = float(no_less(_spreads(gram, width).max() + twice * slip))
    wide = no_less(spectral(fourth)) + no_less(hidden * 4.0 * spread**2)
    wide = float(no_less(np.sqrt(no_less(wide))))
    need(np.isfinite([eta, residue, spread, slip, total]), "the problem is beyond float64")
    return Curvature(
        theta, R, sizes, slope, curve, lost, gram, gap, no_less(norms + slip),
        residue, wide, spread, slip,
        float(no_less(relative + 4 * UNIT)), eta,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Members:
    """The members: for each unit a centre, and how far from it the member may lie.

    The centre of a unit is ``theta + K sum of b_j x_j`` over its rows, with K = R R', unless it was
    measured at coefficients of its own. Distances are Euclidean in the coordinates of ``R``.
    """

    b: Floats  # shape (rows, outputs)
    step: Floats  # shape (units,): at least the centre's distance from theta
    floor: Floats  # shape (units,): the least curvature left at theta; 0 if none is proved
    wrong: Floats  # shape (units,): at least the gradient that rounding leaves of a unit's own
    radius: Floats  # shape (units,): infinite if nothing is proved
    measured: Integers  # shape (m,): units, ascending, with centres of their own
    centres: Floats  # shape (m, outputs, columns)


def members(problem: Problem, at: Curvature, tolerance: float = 0.0) -> Members:
    """Bound every member.

    Parameters
    ----------
    at : Curvature
        From `survey`.
    tolerance : float
        A member is whatever has a gradient of at most this Euclidean norm; 0 is the minimum alone.
    """
    need(0.0 <= tolerance < np.inf, "a tolerance is a number of at least 0")
    if problem.single:
        b, step, left, wrong = _alone(problem, at)
    else:
        b, step, left, wrong = _together(problem, at)
    floor = no_more(np.maximum(no_more(at.floor) - left, 0.0) * (2.0 - PAD))
    residue = no_less(at.residue + wrong + at.eta * step + tolerance * lengths(lengths(at.R)))
    none, empty = np.zeros(0, np.int64), np.zeros((0, *at.theta.shape))
    radius = weakest(problem, at, residue, floor, step)
    return Members(b, step, floor, no_less(wrong), radius, none, empty)


def weakest(
    problem: Problem, at: Curvature, residue: Floats, floor: Floats, step: Floats
) -> Floats:
    """Return how far minima may be from points, infinite where nothing is proved, shape (n,).

    Parameters
    ----------
    residue : ndarray
        At least the gradients left at the points, but for what changes of curvature add.
    floor : ndarray
        At most the least curvature at ``theta`` of what is minimised.
    step : ndarray
        At least the points' distances from ``theta``.
    """
    if problem.kind == "hinge":
        bands = _Bands.at_fit(problem, at)
        return bands.radius(no_less(residue + bands.pull(step)), floor, step)
    if problem.kind == "squared":
        return _quotient(residue, floor)
    moved = at.spread * step * PAD
    near = _excess(moved) * (1.0 + at.eta) * step
    fourth = at.fourth * np.sqrt(1.0 + at.eta) * PAD
    residue = no_less(residue + np.minimum(near, _growth(moved) * fourth / 2.0 * step**2))
    return np.minimum(
        _ball(residue, floor, moved, at.spread), _inside(residue, floor, step, fourth)
    )


def _growth(moved: Floats) -> Floats:
    """Return at least 2 (e^s - 1 - s) / s^2."""
    found = 2.0 * _excess(moved) / np.maximum(moved, 1e-2)
    return np.where(moved < 1e-2, 1.0 + moved / 3.0 * 1.01, found)


def _inside(residue: Floats, floor: Floats, step: Floats, fourth: float) -> Floats:
    """Return e with e (a - q (|d| + e / 2)) > g, infinite if there is none."""
    left = np.maximum(no_more(floor) - no_less(fourth * step), 0.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        root = np.sqrt(np.maximum(left**2 - 2.0 * fourth * residue, 0.0))
        e = 2.0 * residue / (left + root) * (1.0 + 1e-9)
        fine = no_more(e) * no_more(np.maximum(left - fourth * e / 2.0 * PAD, 0.0)) > residue
    return np.where(fine & np.isfinite(e), no_less(e), np.inf)


def fit_radius(problem: Problem, at: Curvature) -> float:
    """Bound how far the fitted coefficients are from F's minimum, in the coordinates of ``R``."""
    residue, floor = np.array([at.residue]), np.array([at.floor])
    return float(weakest(problem, at, residue, floor, np.zeros(1))[0])


def _quotient(residue: Floats, floor: Floats) -> Floats:
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        found = np.where(floor > 0, residue / np.where(floor > 0, floor, 1.0) * PAD, np.inf)
    return np.where(np.isfinite(found), no_less(found), np.inf)


def _excess(moved: Floats) -> Floats:
    """Return at least (e^s - 1 - s) / s."""
    s = np.minimum(moved, 700.0)
    few = s / 2.0 * (1.0 + s / 3.0 * 1.01)
    many = (np.expm1(s) - s) / np.maximum(s, 1e-2) * (1.0 + 1e-10)
    return np.where(moved < 1e-2, few, np.where(moved < 700.0, many, np.inf))


def _ball(residue: Floats, floor: Floats, moved: Floats, spread: float) -> Floats:
    """Return -ln(1 - f) / k for f = k e^s g / a, infinite from f = 1 on."""
    k = max(spread, TINY) * PAD
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        grown = np.exp(np.minimum(moved, 700.0)) * (1.0 + 1e-13) * residue
        f = k * grown / np.where(floor > 0, floor, 1.0) * PAD + TINY
        fine = (floor > 0) & (moved < 700.0) & (f < 1.0 - 1e-9) & np.isfinite(f)
        found = -np.log1p(-np.where(fine, f, 0.5)) / k * (1.0 + 1e-13)
    return np.where(fine, no_less(found), np.inf)


Steps = tuple[Floats, Floats, Floats, Floats]
"""b, the centres' distances, the curvature that leaves, and the gradient that rounding leaves."""


def _alone(problem: Problem, at: Curvature) -> Steps:
    outputs, width = problem.outputs, at.R.shape[1]
    norms = whole_norms(at.norms)
    size = at.curve.max(axis=1)
    hidden = no_less(
        size * norms**2 * (4.0 * at.relative + gamma(width + 4 * outputs + 12) * outputs)
        + size * at.slip * outputs * 2.0 * norms
    )
    if outputs == 1:
        leaving = at.curve[:, 0] * at.gram[:, 0, 0]
        left = no_less(leaving + hidden)
        fine = left < 1.0
        b = np.where(fine, at.slope[:, 0] / np.where(fine, 1.0 - leaving, 1.0), 0.0)[:, None]
        rest = np.abs((1.0 - leaving) * b[:, 0] - at.slope[:, 0])
        step = no_less(np.abs(b[:, 0]) * norms)
    else:
        curves = _curves(at.curve, problem.weights)
        leaving = curves @ at.gram
        left = no_less(spectral(_root_form(at.curve, problem.weights, at.gram)) + hidden)
        eye = np.eye(outputs)
        fine = left < 1.0
        safe = np.where(fine[:, None, None], eye - leaving, eye)
        b = np.linalg.solve(safe, at.slope[:, :, None])[:, :, 0]
        b = np.where(fine[:, None] & np.isfinite(b), b, 0.0)
        rest = lengths(np.einsum("iqr,ir->iq", eye - leaving, b) - at.slope)
        square = np.maximum(np.einsum("iq,iqr,ir->i", b, at.gram, b), 0.0)
        wrong = gamma(width + 4 * outputs + 8) * lengths(b) ** 2 * norms**2
        step = no_less(np.sqrt(no_less(square + wrong)) + at.slip * outputs * lengths(b))
    most = lengths(b) if outputs > 1 else np.abs(b[:, 0])
    rounding = gamma(4 * outputs + 8) * (most * (1.0 + size * norms**2) + lengths(at.slope))
    wrong = no_less((rest + hidden * most + at.lost + rounding) * norms)
    # Where nothing is proved, what is left of the gradient is not told either.
    return b, step, np.where(fine, left, np.inf), wrong


def _curves(curve: Floats, weights: Floats) -> Floats:
    """Return the second derivatives of softmax, shape (rows, outputs, outputs)."""
    share = curve / np.maximum(weights, TINY)[:, None]
    found = -curve[:, :, None] * share[:, None, :]
    at = np.arange(curve.shape[1])
    found[:, at, at] += curve
    return found


def _root_form(curve: Floats, weights: Floats, gram: Floats) -> Floats:
    """Return B' G B, shape (rows, outputs, outputs), where B B' is the second derivative."""
    share = curve / np.maximum(weights, TINY)[:, None]
    root = np.sqrt(share)
    B = -share[:, :, None] * root[:, None, :]
    at = np.arange(curve.shape[1])
    B[:, at, at] += root
    B *= np.sqrt(weights)[:, None, None]
    return B.transpose(0, 2, 1) @ gram @ B


def _together(problem: Problem, at: Curvature) -> Steps:
    """Bound members whose units have several rows, one after the other."""
    units, outputs, width = len(problem.starts) - 1, problem.outputs, at.R.shape[1]
    b = np.zeros((len(problem.target), outputs))
    step, left, wrong = np.zeros(units), np.full(units, np.inf), np.zeros(units)
    for begin, end in problem.unit_blocks(outputs * width):
        first = int(problem.starts[begin])
        rows = problem.rows(first, int(problem.starts[end]))
        z = whiten(rows, at.R, outputs)
        for here in range(begin, end):
            own = slice(int(problem.starts[here]), int(problem.starts[here + 1]))
            part = z[own.start - first : own.stop - first]
            b[own], step[here], left[here], wrong[here] = _unit(problem, at, own, part)
    return b, step, left, wrong


def _unit(
    problem: Problem, at: Curvature, own: slice, z: Floats
) -> tuple[Floats, float, float, float]:
    rows, outputs, width = z.shape
    W, r = z.reshape(-1, width), at.slope[own].reshape(-1)
    weights = problem.weights[own]
    if outputs == 1:
        D = at.curve[own, 0]
        root = np.sqrt(D)

        def bent(v: Floats) -> Floats:
            return D * v

        scaled = root[:, None] * W
    else:
        blocks = _curves(at.curve[own], weights)
        share = at.curve[own] / np.maximum(weights, TINY)[:, None]
        mean = np.einsum("iq,iqe->ie", share, z)
        scaled = (np.sqrt(at.curve[own])[:, :, None] * (z - mean[:, None, :])).reshape(-1, width)

        def bent(v: Floats) -> Floats:
            by_row = np.einsum("iqr,ir->iq", blocks, v.reshape(rows, outputs))
            return np.asarray(by_row.reshape(-1))

    size = float(at.curve[own].max())
    norms = whole_norms(at.norms[own])
    total = float(no_less((at.curve[own].max(axis=1) * norms**2).sum()))
    hidden = total * (4.0 * at.relative + 4.0 * gamma(width + rows * outputs + 16))
    hidden += 2.0 * at.slip * outputs * float(no_less((at.curve[own].max(axis=1) * norms).sum()))
    small = len(W) <= width
    bend = scaled @ scaled.T if small else scaled.T @ scaled
    left = float(no_less(spectral(bend) + no_less(hidden)))
    if not left < 1.0:
        return np.zeros((rows, outputs)), 0.0, np.inf, 0.0
    pulled = W.T @ r
    b: Floats
    if small and outputs == 1:
        b = np.asarray(np.linalg.solve(np.eye(len(W)) - D[:, None] * (W @ W.T), r), np.float64)
    else:
        b = r + bent(W @ np.linalg.solve(np.eye(width) - scaled.T @ scaled, pulled))
    along: Floats = W.T @ b
    rest = along - W.T @ bent(W @ along) - pulled
    sum_b, all_norms = float(lengths(b)), float(lengths(norms))
    rounding = gamma(width + 4 * rows * outputs + 16) * all_norms * (
        sum_b * (1.0 + 2.0 * size * all_norms**2) + float(lengths(r))
    ) + at.slip * outputs * float(no_less(np.abs(b).sum()))
    step = float(no_less(float(lengths(along)) + rounding))
    wrong = float(lengths(rest)) + rounding * (2.0 + left) + float(no_less(hidden)) * step
    wrong += float(no_less((at.lost[own] * norms).sum()))
    wrong += at.slip * outputs * float(no_less(np.abs(r).sum()))
    return b.reshape(rows, outputs), step, left, float(no_less(wrong))


@dataclass(frozen=True, eq=False)
class _Bands:
    """Rows of squared hinge in the order in which a step can carry them over the kink."""

    reach: Floats  # shape (rows,): a step must be longer than this
    bend: Floats  # shape (rows,): at least the curvature of the first rows together
    pull_: Floats  # shape (rows,): the part of their pull that does not grow with the step

    @staticmethod
    def of(reach: Floats, bend: Floats, pull: Floats) -> _Bands:
        """Sort rows, each of which has a reach, a curvature and a pull."""
        order = np.argsort(reach, kind="stable")
        lost = 1.0 + gamma(len(order) + 8)
        bends, pulls = np.cumsum(bend[order]) * lost, np.cumsum(pull[order]) / lost
        return _Bands(reach[order], no_less(bends), no_more(pulls))

    @staticmethod
    def at_fit(problem: Problem, at: Curvature) -> _Bands:
        """Return the bands of steps from the fit."""
        norm, twice = at.norms[:, 0], 2.0 * problem.weights
        reach = no_more(at.gap / np.maximum(norm, TINY))
        return _Bands.of(reach, twice * norm**2, twice * at.gap * norm)

    def pull(self, step: Floats) -> Floats:
        """Return at least the gradient that rows carried over by a step leave."""
        count = np.searchsorted(self.reach, step, side="right") - 1
        some = count >= 0
        found = np.where(some, step * self.bend[count] - self.pull_[count], 0.0)
        return np.asarray(no_less(np.maximum(found, 0.0) + 8.0 * UNIT * self.pull_[count] * some))

    def radius(self, residue: Floats, floor: Floats, step: Floats) -> Floats:
        """Return a distance at which the gradient certainly points outwards."""
        found = np.full(len(residue), np.inf)
        first = _quotient(residue, floor)
        for factor in (16.0, 8.0, 4.0, 2.0, 1.5, 1.2, 1.05, 1.01, 1.0 + 1e-6):
            far = np.where(np.isfinite(first), first * factor, 0.0)
            # The curvature of the rows that such a step may carry over goes.
            count = np.searchsorted(self.reach, no_less(step + far), side="right") - 1
            gone = np.where(count >= 0, self.bend[count], 0.0)
            left = no_more(np.maximum(floor - gone, 0.0))
            fine = np.isfinite(first) & (no_more(far * left) > residue)
            found = np.where(fine, no_less(far), found)
        return found


def measure(
    problem: Problem,
    at: Curvature,
    known: Members,
    units: Integers,
    centres: Floats,
    tolerance: float = 0.0,
) -> Members:
    """Replace the centres of some units by coefficients at which the gradient is measured.

    Parameters
    ----------
    units : ndarray of int64, shape (m,)
        Ascending, none of them measured before.
    centres : ndarray of float64, shape (m, outputs, columns)
        Any numbers: good ones make small distances.
    """  # fmt: skip
    need(units.ndim == 1 and np.all(np.diff(units) > 0), "units")
    need((units >= 0) & (units < len(known.radius)) & ~np.isin(units, known.measured), "units")
    need(centres.shape == (len(units), *at.theta.shape), "the centres' shape")
    need(np.isfinite(centres), "a centre is no number")
    radius = known.radius.copy()
    together = max(1, min(256 // problem.outputs, 4 * _NUMBERS // at.R.shape[1] ** 2))
    for begin in range(0, len(units), together):
        chosen = slice(begin, begin + together)
        radius[units[chosen]] = _measure_radii(
            problem, at, known, units[chosen], centres[chosen], tolerance
        )
    order = np.argsort(np.concatenate([known.measured, units]), kind="stable")
    b = known.b.copy()
    chosen_units = np.isin(np.arange(len(radius)), units)
    b[np.repeat(chosen_units, np.diff(problem.starts))] = 0.0
    return Members(
        b, known.step, known.floor, known.wrong, radius,
        np.concatenate([known.measured, units])[order],
        np.concatenate([known.centres, centres])[order],
    )  # fmt: skip


def _measure_radii(
    problem: Problem, at: Curvature, known: Members, units: Integers, centres: Floats, slack: float
) -> Floats:
    count, outputs, columns = centres.shape
    off = score_error(at.sizes, centres)
    delta = centres - at.theta
    size = np.abs(delta) + 2.0 * UNIT * (np.abs(centres) + np.abs(at.theta))
    off_delta = score_error(at.sizes, size, more=4)
    gradient, lost = np.zeros((count, outputs, columns)), np.zeros(count)
    total, moved, blocks, block = np.zeros(count), np.zeros(count), 0, 1
    width, hinge = at.R.shape[1], problem.kind == "hinge"
    gone, hidden = np.zeros((count * hinge, width, width)), np.zeros(count)
    norms = whole_norms(at.norms)
    starts, ends = problem.starts[units], problem.starts[units + 1]
    near: list[list[tuple[Floats, Floats]]] = [[] for _ in range(count)]
    for first, last, rows in problem.blocks(outputs * (columns + 3 * count)):
        target, weights = problem.target[first:last], problem.weights[first:last]
        scores = np.einsum("id,mqd->miq", rows, centres, optimize=True)
        apart = np.einsum("id,mqd->miq", rows, delta, optimize=True)
        reach = apart.max(axis=2) - apart.min(axis=2) if outputs > 1 else np.abs(apart[:, :, 0])
        np.maximum(moved, reach.max(axis=1), out=moved)
        slopes = np.empty_like(scores)
        for m in range(count):
            each = loss(problem.kind, scores[m], target, weights, off)
            own = slice(max(starts[m] - first, 0), max(ends[m] - first, 0))
            each.slope[own] = 0.0
            slopes[m] = each.slope
            lost[m] += float((each.lost * norms[first:last]).sum())
            total[m] += float(np.abs(each.slope).sum())
            if hinge:
                # New curvature only helps; what the fit had is gone here, or may go nearby.
                norm, bend = norms[first:last], at.curve[first:last, 0].copy()
                leaves = np.where(target > 0, scores[m, :, 0], -scores[m, :, 0]) >= 1.0
                leaves[own] = True
                some = np.flatnonzero(leaves & (bend > 0))
                z, heavy = rows[some] @ at.R, bend[some]
                gone[m] += z.T @ (heavy[:, None] * z)
                lose = 4.0 * at.relative + 4.0 * gamma(width + last + 16)
                hidden[m] += float((heavy * norm[some] * (norm[some] * lose + 2.0 * at.slip)).sum())
                bend = np.where(leaves, 0.0, bend * norm**2)
                far = no_more(each.gap / np.maximum(norm, TINY))
                kept = np.argsort(far)[:4096]
                if len(kept) < len(far):  # of those beyond nothing is known
                    bend[kept[-1]] = np.inf
                near[m].append((far[kept], bend[kept]))
        gradient += np.einsum("id,miq->mqd", rows, slopes, optimize=True)
        blocks, block = blocks + 1, max(block, last - first)
    sums = gamma(block + blocks + 8)
    flat = (gradient + problem.penalty_slope(centres)).reshape(count, -1)
    across = float(no_less((lengths(at.R).reshape(outputs, -1) * at.sizes).sum(axis=1)).max())
    pulled = problem.penalty_slope(np.abs(centres)).reshape(count, -1) + np.abs(flat)
    residue = no_less(
        lengths(flat @ at.R)
        + sums * no_less(total) * across
        + no_less(lost * (1.0 + sums))
        + gamma(flat.shape[1] + 8) * no_less(pulled @ lengths(at.R))
        + slack * lengths(lengths(at.R))
    )
    floor = known.floor[units]
    if hinge:
        left = no_less(spectral(gone, 8) + no_less(hidden * (1.0 + sums)))
        return _between(residue, no_more(np.maximum(at.floor - left, 0.0)), near)
    if problem.kind == "squared":
        return _quotient(residue, floor)
    return _ball(residue, floor, no_less(moved + off_delta * 2.0), at.spread)


def _between(residue: Floats, floor: Floats, near: list[list[tuple[Floats, Floats]]]) -> Floats:
    """Return radii of squared hinge around measured centres."""
    found = np.empty(len(residue))
    for m, parts in enumerate(near):
        reach, bend = (np.concatenate(each) for each in zip(*parts, strict=True))
        bands, own = _Bands.of(reach, bend, np.zeros_like(bend)), slice(m, m + 1)
        found[own] = bands.radius(residue[own], floor[own], np.zeros(1))
    return found
