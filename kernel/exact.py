"""Members and their leaks again in whole numbers: exact but for exponentials and roots.

A second account of `leaveout.kernel.linear` and `leaveout.kernel.family` by other arithmetic; only
the ends of the region are taken as they are. Every array is whole numbers times a power of two;
sums and products are exact. Losses of one output are covered, but for the squared hinge; designs
are inputs, scaled inputs and bins.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .design import Region
from .family import Family
from .linear import Problem
from .model import LinearModel
from .numbers import Floats, Rejected, need
from .tails import sqrt

_BITS = 240  # bits after the point of what exponentials give

_OFF = Fraction(1, 2**200)
"""Far above the error of a slope or curvature of weight 1, and of Decimal's functions."""

_CONTEXT = Context(prec=90)
_PAD = Fraction(2**100 + 1, 2**100)

MOST = 10_000
"""Rows up to which this takes minutes at most."""


class NotCoveredError(Rejected):
    """The model is of a kind that whole numbers do not cover."""


def _cover(holds: bool, what: str) -> None:
    if not holds:
        raise NotCoveredError(what)


class Whole(NamedTuple):
    """Numbers n 2**e."""

    n: NDArray[Any]  # of Python's whole numbers
    e: int

    @staticmethod
    def of(values: Floats) -> Whole:
        """Convert floats exactly."""
        mantissa, exponent = np.frexp(np.asarray(values, np.float64))
        exponent = np.where(mantissa == 0, 0, exponent - 53)
        least = int(exponent.min(initial=0))
        whole = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
        return Whole(whole * (2 ** (exponent - least).astype(object)), least)

    def __matmul__(self, other: Whole) -> Whole:
        return Whole(np.dot(self.n, other.n), self.e + other.e)

    def times(self, other: Whole) -> Whole:
        """Multiply entry by entry."""
        return Whole(self.n * other.n, self.e + other.e)

    def plus(self, other: Whole, sign: int = 1) -> Whole:
        """Add, or subtract, entry by entry."""
        e = min(self.e, other.e)
        return Whole(self.n * 2 ** (self.e - e) + sign * other.n * 2 ** (other.e - e), e)

    @property
    def T(self) -> Whole:  # noqa: N802 - as of arrays
        """The transpose."""
        return Whole(self.n.T, self.e)

    def fractions(self) -> list[Fraction]:
        """Return the entries."""
        power = Fraction(2) ** self.e
        return [each * power for each in np.asarray(self.n, object).reshape(-1).tolist()]

    def square(self) -> Fraction:
        """Return the sum of squares."""
        flat = np.asarray(self.n, object).reshape(-1)
        return Fraction(int(np.dot(flat, flat))) * Fraction(2) ** (2 * self.e)


def root(value: Fraction) -> Fraction:
    """Return at least the square root."""
    return sqrt(max(value, Fraction(0)))[1]


def _decimal(value: Fraction) -> Decimal:
    return _CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))


def _exp(value: Fraction) -> Fraction:
    """Return the exponential to a relative error far below `_OFF`."""
    return Fraction(_CONTEXT.exp(_decimal(value)))


def _whole(values: list[Fraction]) -> Whole:
    """Round to `_BITS` bits after the point."""
    return Whole(np.array([int(each * 2**_BITS) for each in values], object), -_BITS)


def _loss(problem: Problem, scores: list[Fraction]) -> tuple[Whole, Whole]:
    """Return slopes and curvatures times weights, each with an error below `_OFF` a weight."""
    slope, curve = [], []
    target, weights = problem.target.tolist(), problem.weights.tolist()
    for m, y, w in zip(scores, map(Fraction, target), map(Fraction, weights), strict=True):
        need(abs(m) < 10_000, "a fitted score is too large")
        if problem.kind == "logistic":
            p = 1 / (1 + _exp(-m)) if m > 0 else 1 - 1 / (1 + _exp(m))
            first, second = p - y, p * (1 - p)
        elif problem.kind == "squared":
            first, second = m - y, Fraction(1)
        elif problem.kind == "poisson":
            need(m < 60, "a fitted score is too large")
            second = _exp(m)
            first = second - y
        else:
            _cover(problem.kind == "gamma", f"whole numbers do not cover {problem.kind}")
            need(m > -60 and y < 2**60, "a fitted score is too large")
            second = y * _exp(-m)
            first = 1 - second
        slope.append(w * first)
        curve.append(w * second)
    return _whole(slope), _whole(curve)


class Exact(NamedTuple):
    """All members of a fit: centres minus the fit, and radii."""

    R: Whole
    apart: Whole  # shape (units, columns)
    radius: list[Fraction | None]


def members(problem: Problem, theta: Floats, R: Floats, family: Family, place: int) -> Exact:
    """Bound members about the centres of a family; see ``docs/linear-proof.md``."""
    known = family.parts[place].members
    count, columns = len(problem.target), len(problem.penalty)
    A, t, W, P = (
        Whole.of(each) for each in (problem.rows(0, count), theta[0], R, np.diag(problem.penalty))
    )
    # Of less, `_OFF` a weight would not cover what `_whole` rounds.
    light = (problem.weights > 0) & (problem.weights < 2.0**-36)
    _cover(not light.any(), "whole numbers cover no weight between 0 and 2^-36")
    total = sum(map(Fraction, problem.weights.tolist()), Fraction(0))
    slope, curve = _loss(problem, (A @ t).fractions())
    Z = A @ W
    weighted = Whole(Z.n * curve.n[:, None], Z.e + curve.e)
    eye = Whole.of(np.eye(columns))
    E = (Z.T @ weighted).plus(W.T @ (P @ W)).plus(eye, -1)
    squares = [Fraction(int(np.dot(z, z))) * Fraction(2) ** (2 * Z.e) for z in Z.n]
    widest = root(max(squares))
    eta = root(E.square()) + _OFF * total * widest**2
    rho = root((slope @ Z).plus(W.T @ (P @ t)).square()) + _OFF * total * widest
    b = Whole.of(known.b[:, 0])
    smooth = problem.kind != "squared"
    fourth = Fraction(0)
    if smooth:
        squared = Whole.of(np.array(family.parts[place].at.fourth)).fractions()[0] ** 2
        lengths = Whole(np.array([int(np.dot(z, z)) for z in Z.n], object), 2 * Z.e)
        bend = Whole(weighted.n * lengths.n[:, None], weighted.e + lengths.e)
        need(_exceeds(squared - _OFF * total * widest**4, Z.T @ bend), "the fourth moment")
        fourth = root(squared * (1 + eta))
    steps, radius = [], []
    for unit in range(len(problem.starts) - 1):
        own = slice(int(problem.starts[unit]), int(problem.starts[unit + 1]))
        z, bz = Whole(Z.n[own], Z.e), Whole(b.n[own], b.e)
        weight = sum(map(Fraction, problem.weights[own].tolist()), Fraction(0))
        bend = Whole(z.n * curve.n[own][:, None], Z.e + curve.e)
        left = _norm(bend, z) + _OFF * weight * widest**2
        floor = 1 - eta - left
        at = int(np.searchsorted(known.measured, unit))
        if at < len(known.measured) and known.measured[at] == unit:
            centre = Whole.of(known.centres[at][0])
            steps.append(centre.plus(t, -1))
            scores = (A @ centre).fractions()
            again, _ = _loss(problem, scores)
            again.n[own] = 0
            gradient = (again @ Z).plus(W.T @ (P @ centre))
            g = root(gradient.square()) + _OFF * total * widest
            moved = max(map(abs, (A @ steps[-1]).fractions())) if smooth else Fraction(0)
            radius.append(_ball(g, floor, moved, widest, smooth))
            continue
        d = bz @ z
        steps.append(W @ d)
        zd = z @ d
        bent = Whole(zd.n * curve.n[own], zd.e + curve.e)
        bracket = d.plus(bent @ z, -1).plus(Whole(slope.n[own], slope.e) @ z, -1)
        step = root(d.square())
        g = rho + eta * step + root(bracket.square()) + _OFF * weight * widest * (1 + widest * step)
        moved = widest * step if smooth else Fraction(0)
        if smooth:
            excess = _excess(moved)
            short = moved < Fraction(1, 100)
            growth = 1 + moved / 3 * Fraction(101, 100) if short else 2 * excess / moved
            g += min(excess * (1 + eta) * step, growth * fourth / 2 * step**2)
        found = _ball(g, floor, moved, widest, smooth)
        told = float(known.radius[unit])
        if smooth and np.isfinite(told) and (found is None or Fraction(told) < found):
            e = Fraction(told)
            found = e if e * (floor - fourth * (step + e / 2)) > g else found
        radius.append(found)
    power = min(each.e for each in steps)
    apart = np.array([each.n * 2 ** (each.e - power) for each in steps], object)
    return Exact(W, Whole(apart, power), radius)


def _norm(bend: Whole, z: Whole) -> Fraction:
    """Bound the norm of a unit's curvature: of one row the trace, else by a fourth power."""
    if len(z.n) == 1:
        return sum(bend.times(z).fractions(), Fraction(0))
    whole = bend.T @ z
    square = whole @ whole
    return root(root(root((square @ square).square())))


def _exceeds(bound: Fraction, matrix: Whole) -> bool:
    """Return whether a symmetric matrix lies below a multiple of the identity, by elimination."""
    width = len(matrix.n)
    # Rounded to some bits of the bound; what that changes is taken off it.
    shift = 120 - bound.numerator.bit_length() + bound.denominator.bit_length()
    scale = Fraction(2) ** (shift + matrix.e)
    rows = [[-int(each * scale) for each in row] for row in matrix.n.tolist()]
    for k in range(width):
        rows[k][k] += int(bound * Fraction(2) ** shift) - width - 1
    before = 1
    for k in range(width):
        pivot = rows[k][k]
        if pivot <= 0:
            return False
        for i in range(k + 1, width):
            first = rows[i][k]
            rows[i] = [
                (pivot * one - first * two) // before
                for one, two in zip(rows[i], rows[k], strict=True)
            ]
        before = pivot
    return True


def _excess(s: Fraction) -> Fraction:
    """Return at least (e^s - 1 - s) / s."""
    if s < Fraction(1, 100):
        return s / 2 * (1 + s / 3 * Fraction(101, 100))
    need(s < 700, "a step is too long")
    return (_exp(s) * _PAD - 1 - s) / s


def _ball(
    g: Fraction, floor: Fraction, moved: Fraction, widest: Fraction, smooth: bool
) -> Fraction | None:
    """Return the radius; None if nothing is proved."""
    if floor <= 0:
        return None
    if not smooth:
        return g / floor
    if moved > 700:
        return None
    f = widest * _exp(moved) * _PAD * g / floor
    if f >= 1 or not widest:
        return None
    if f < Fraction(1, 2**40):
        return (f + f * f) / widest
    return Fraction(-_CONTEXT.ln(_decimal(1 - f * _PAD))) * _PAD / widest


def check_leaks(
    model: LinearModel,
    family: Family,
    region: Region,
    label: int,
    upper: float,
    multipliers: Mapping[int, Floats],
) -> None:
    """Check a claim of `leaveout.kernel.family.check_leaks` in whole numbers.

    Raises
    ------
    Rejected
        If the claim is not proved, or the model is of a kind that this does not cover.
    """  # fmt: skip
    design = model.design
    _cover(model.outputs == 1 and len(model.labels) == 2, "whole numbers cover two labels")
    _cover(model.tolerance == 0, "whole numbers cover exact minima only, no tolerance")
    _cover(design.mix is None, "whole numbers cover no columns that a pipeline mixes")
    _cover(all(each.degree <= 0 for each in design.columns), "whole numbers cover no splines")
    _cover(len(model.X) <= MOST, f"whole numbers cover up to {MOST:,} rows")
    need(0 <= label < 2 and np.isfinite(upper), "the claim")
    found = members(model.problems[0], model.coefficients, family.parts[0].at.R, family, 0)
    sign = 1 if label else -1
    own = Whole.of(sign * model.coefficients[0])
    apart = Whole(sign * found.apart.n, found.apart.e)
    t = np.broadcast_to(multipliers[1 - label], (len(family),)).astype(np.float64)
    need((t >= 0) & np.isfinite(t), "a multiplier is negative or no number")
    # (1 - t) own - t apart, unit by unit.
    factor = Whole.of(t)
    rest = Whole.of(np.ones(len(t))).plus(factor, -1)
    slopes = Whole(rest.n[:, None] * own.n[None], rest.e + own.e).plus(
        Whole(factor.n[:, None] * apart.n, factor.e + apart.e), -1
    )
    ends = Whole.of(np.stack([region.lower, region.upper]))
    last = design.width - (design.constant != 0)
    V = Whole(slopes.n[:, :last], slopes.e)
    power = Fraction(2) ** (V.e + ends.e)
    best = np.maximum(V.n * ends.n[0], V.n * ends.n[1])
    most = [sum(row) * power for row in best.tolist()]
    for each in region.listed:
        products = Whole(V.n[:, each.at], V.e) @ Whole.of(np.ascontiguousarray(each.rows.T))
        top = [max(row) * Fraction(2) ** products.e for row in products.n.tolist()]
        most = [one + two for one, two in zip(most, top, strict=True)]
    if design.constant != 0:
        constant = Fraction(design.constant)
        power = Fraction(2) ** slopes.e
        most = [one + n * power * constant for one, n in zip(most, slopes.n[:, -1], strict=True)]
    sizes = [Fraction(each) for each in region.sizes.tolist()]
    # A served score sums its terms in any order.
    unit = Fraction(design.width + 2, 2**53) / (1 - Fraction(design.width + 2, 2**53))
    served = unit * sum(a * abs(b) for a, b in zip(sizes, own.fractions(), strict=True))
    reach = _reach(region, found.R)
    for i, value in enumerate(most):
        e_i = found.radius[i]
        need(e_i is not None, f"unit {i} is not bounded")
        assert e_i is not None
        moved = Whole(apart.n[i], apart.e).fractions()
        theirs = unit * sum(a * abs(b) for a, b in zip(sizes, moved, strict=True))
        slack = (e_i * reach) * (1 + unit) + served + theirs
        bound = value + Fraction(t[i]) * slack + served
        need(bound <= Fraction(upper), f"label {label}: unit {i} is not bounded by {upper}")


def _reach(region: Region, R: Whole) -> Fraction:
    """Bound |R' x| over a region, as `Region.reach` does."""
    design = region.design
    last = design.width - (design.constant != 0)
    rows = Whole(R.n[:last], R.e)
    (low, high), e = Whole.of(np.stack([region.lower, region.upper]))
    middle, half = Whole(low + high, e - 1), Whole(high - low, e - 1)
    centre = middle @ rows
    if design.constant != 0:
        centre = centre.plus(Whole(R.n[-1], R.e).times(Whole.of(np.array(design.constant))))
    groups = [
        Whole((half.n[k] * rows.n[k])[None], half.e + rows.e) for k in range(last) if half.n[k] != 0
    ]
    for each in region.listed:
        folded = Whole(rows.n[each.at], rows.e)
        mean = Whole.of(each.rows.mean(axis=0)) @ folded
        centre = centre.plus(mean)
        groups.append((Whole.of(each.rows) @ folded).plus(Whole(mean.n[None], mean.e), -1))
    groups.insert(0, Whole(centre.n[None], centre.e))
    total = Fraction(0)
    for one in groups:
        for two in groups:
            products = one @ two.T
            total += max(abs(each) for each in products.n.reshape(-1).tolist()) * (
                Fraction(2) ** products.e
            )
    return root(total)
