"""Smooth activations: each declared once, and bounded between points where it is known.

A function is kept as its values and slopes at knots, a step h apart. Between two knots the cubic
through both is off by at most ``h^4 / 384`` times the largest fourth derivative, and its slope by
``h^3 sqrt(3) / 216`` times that. Where curvature keeps its sign, slopes at knots tell which cell
holds the extremum of ``a f(z) - c z``, and there the cubic's own extremum is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .numbers import UNIT, Floats

Kinds = NDArray[np.int8]
"""By neuron: 0 for a ReLU, else the position in `FUNCTIONS`."""

HALF, REACH = 4096, 2.0**20
"""Knots on either side of 0, and the largest input for which float32 errors are declared."""

VALUE, SLOPE = 1e-10, 5e-8
"""Errors of the cubics' values and slopes, for fourth derivatives of up to 8."""

_BEND = 1.4185040087908283
_ROOT, _CUBE = math.sqrt(2 / math.pi), 0.044715


@dataclass(frozen=True)
class Function:
    """An activation: flat far below 0, of slope ``rising`` far above, and convex or not between."""

    name: str
    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    bend: float | None  # curvature changes its sign here and at the negative; None for nowhere
    convex: bool  # whether it is convex below the first bend
    floor: float  # f + floor is never negative
    rising: float
    error: tuple[float, float]  # of onnxruntime in float32: absolute, and relative to the value
    tilt: float = 0.0  # unless 0, the absolute one is at most this share of the input
    rounded: float = 0.0  # how far the rounded numbers in its forms of several nodes move it
    touch: Callable[[Floats], Floats] | None = None  # of a closed form: where it has a slope
    least: float = -math.inf  # readers give it nothing below this, and no rounding does

    @property
    def step(self) -> float:
        """Distance of knots: bends are knots."""
        return self.bend / round(self.bend * 128) if self.bend else 1 / 128

    @property
    def off(self) -> float:
        """How far its cubics are off at most, in whatever form it is written."""
        return VALUE + self.rounded


def _sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def _hump(z: float) -> float:
    """Return the slope of a sigmoid."""
    small = math.exp(-abs(z))
    return small / (1 + small) ** 2


def _normal(z: float) -> float:
    return math.erfc(-z / math.sqrt(2)) / 2


ROOTED = 2.0**-20
"""What `InverseRoot` adds to a mean of squares and the rest of an epsilon, both at least 0."""


def _cubic(z: float) -> float:
    return 2 * _ROOT * (z + _CUBE * z**3)


FUNCTIONS = (
    Function("Relu", lambda z: max(z, 0), lambda z: z > 0, None, True, 0.0, 1.0, (0.0, 0.0)),
    Function("Sigmoid", _sigmoid, _hump, 0.0, True, 0.0, 0.0, (4e-7, 0.0)),
    Function("Tanh", math.tanh, lambda z: 4 * _hump(2 * z), 0.0, True, 1.0, 0.0, (7e-7, 0.0)),
    Function(
        "Gelu", lambda z: z * _normal(z),
        lambda z: _normal(z) + z * math.exp(-z * z / 2) / math.sqrt(2 * math.pi),
        math.sqrt(2), False, 0.17, 1.0, (2.0**-21, 2.0**-21), 2.0**-23, 1e-8,
    ),
    Function(
        "GeluTanh", lambda z: z * _sigmoid(_cubic(z)),
        lambda z: _sigmoid(_cubic(z))
        + z * _hump(_cubic(z)) * 2 * _ROOT * (1 + 3 * _CUBE * z * z),
        _BEND, False, 0.1701, 1.0, (2.0**-19, 2.0**-21), 2.0**-21, 1e-8,
    ),
    Function(
        "Silu", lambda z: z * _sigmoid(z), lambda z: _sigmoid(z) + z * _hump(z),
        2.3993572805154675, False, 0.2785, 1.0, (2.0**-17, 2.0**-21), 2.0**-21,
    ),
    Function(
        "Softplus", lambda z: max(z, 0.0) + math.log1p(math.exp(-abs(z))), _sigmoid,
        None, True, 0.0, 1.0, (2.0**-22, 2.0**-22),
    ),
    Function(
        "Elu", lambda z: z if z > 0 else math.expm1(z), lambda z: 1.0 if z > 0 else math.exp(z),
        None, True, 1.0, 1.0, (2.0**-22, 2.0**-22),
    ),
    Function(
        "Square", lambda z: z * z, lambda z: 2 * z,
        None, True, 0.0, 0.0, (2.0**-120, 2.0**-23), touch=lambda slope: slope / 2,
    ),
    Function(
        "InverseRoot", lambda z: (np.maximum(z, 0.0) + ROOTED) ** -0.5,
        lambda z: -0.5 * (np.maximum(z, 0.0) + ROOTED) ** -1.5,
        None, True, 0.0, 0.0, (2.0**-120, 2.0**-21),
        touch=lambda slope: (-2 * slope) ** (-2 / 3) - ROOTED, least=0.0,
    ),
)  # fmt: skip
"""By kind; 0 is the ReLU, whose rules are exact and not here."""

KIND = {each.name: kind for kind, each in enumerate(FUNCTIONS)}


@dataclass(frozen=True, eq=False)
class Curve:
    """A function, raised by its floor, at its knots."""

    function: Function
    values: Floats
    slopes: Floats
    pieces: tuple[tuple[int, int, int], ...]  # first and last knot, and the sign of curvature

    @staticmethod
    @cache
    def of(kind: int) -> Curve:
        """Tabulate a function."""
        own = FUNCTIONS[kind]
        if own.touch:
            return Convex(own, np.zeros(0), np.zeros(0), ())
        knots = [i * own.step for i in range(-HALF, HALF + 1)]
        values, slopes = ([f(z) for z in knots] for f in (own.value, own.slope))
        at = HALF if own.bend is None else round(own.bend / own.step)
        ends, sign = sorted({0, HALF - at, HALF + at, 2 * HALF}), 1 if own.convex else -1
        pieces = tuple((a, b, sign * (-1) ** i) for i, (a, b) in enumerate(pairwise(ends)))
        return Curve(own, np.array(values) + own.floor, np.array(slopes), pieces)

    def at(self, z: Floats) -> tuple[Floats, Floats]:
        """Return values and slopes."""
        step = self.function.step
        place = np.clip(z / step + HALF, 0, 2 * HALF)
        i = np.nan_to_num(np.minimum(place, 2 * HALF - 1)).astype(np.int64)
        t, first, (a, b, c) = place - i, self.values[i], self._cell(i)
        beyond = self.function.rising * np.maximum(z - HALF * step, 0.0)
        return first + t * (a + t * (b + t * c)) + beyond, (a + t * (2 * b + t * 3 * c)) / step

    def _cell(self, i: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """Return the coefficients of cubics, without the constant ones."""
        step = self.function.step
        rise = self.values[i + 1] - self.values[i]
        m, n = self.slopes[i] * step, self.slopes[i + 1] * step
        return m, 3 * rise - 2 * m - n, m + n - 2 * rise

    def _corners(self, low: Floats, high: Floats) -> list[Floats]:
        step = self.function.step
        inner = {(j - HALF) * step for a, b, _ in self.pieces for j in (a, b)}
        return [low, high, *(np.clip(z, low, high) for z in sorted(inner))]

    def top(self, a: Floats, c: Floats, low: Floats, high: Floats) -> Floats:
        """Bound the largest ``a f(z) - c z`` over [low, high] from above."""
        step, off = self.function.step, self.function.off
        with np.errstate(all="ignore"):
            ratio = np.where(a == 0, 0.0, c / a)
            points = self._corners(low, high)
            for begin, end, sign in self.pieces:
                ordered = np.maximum.accumulate(sign * self.slopes[begin : end + 1])
                i = np.searchsorted(ordered, sign * ratio, "right") - 1
                i = begin + np.clip(i, 0, end - begin - 1)
                m, b, e = self._cell(i)
                # Of m - ratio h + 2 b t + 3 e t^2 the root where it crosses 0 as the slope does;
                # rounding may put it just outside the cell.
                m = m - ratio * step
                root = sign * np.sqrt(np.maximum(b * b - 3 * e * m, 0.0))
                t = np.where(sign * b >= 0, -m / (b + root), (root - b) / (3 * e))
                t = np.clip(np.where(np.isnan(t), 0.5, t), 0.0, 1.0)
                points.append(np.clip((i - HALF + t) * step, low, high))
            best = np.full(np.broadcast_shapes(a.shape, low.shape), -np.inf)
            for z in points:
                value = self.at(z)[0]
                size = np.abs(a) * (off + 16 * UNIT * value) + 16 * UNIT * np.abs(c * z)
                np.maximum(best, a * value - c * z + size, out=best)
        return np.where(best > -np.inf, best, np.inf)

    def steepness(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Bound slopes over [low, high]."""
        found = [self.at(z)[1] for z in self._corners(low, high)]
        return np.minimum.reduce(found) - SLOPE, np.maximum.reduce(found) + SLOPE

    def size(self, here: Floats) -> Floats:
        """Bound values and changes, given what `pair_ends` says, shape (n, 11, r, width)."""
        found: Floats = 2 + np.abs(here[:, :9]).sum(1)
        return found

    def ends(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Bound values over [low, high], raised by the floor."""
        one, zero = np.ones_like(low), np.zeros_like(low)
        return np.maximum(-self.top(-one, zero, low, high), 0.0), self.top(one, zero, low, high)


@dataclass(frozen=True, eq=False)
class Convex(Curve):
    """A function by its closed form; concave, turned over, it lies below each of its tangents."""

    def at(self, z: Floats) -> tuple[Floats, Floats]:
        """Return values and slopes."""
        return self.function.value(z), self.function.slope(z)

    def top(self, a: Floats, c: Floats, low: Floats, high: Floats) -> Floats:
        """Bound the largest ``a f(z) - c z`` over [low, high] from above."""
        assert self.function.touch
        low, high = self._within(low, high)
        with np.errstate(all="ignore"):
            near = self.function.touch(np.where(a == 0, 0.0, c / a))
            near = np.where(np.isnan(near), high, near)
            found = []
            for z in (low, high, np.clip(near, low, high)):
                value, slope = self.at(z)
                steep = (np.abs(a * slope) + np.abs(c)) * (high - low)
                pad = 16 * UNIT * (np.abs(a) * value + np.abs(c * z) + steep)
                found.append(a * value - c * z + pad)
            rise = a * slope - c
            tangent = found.pop() + np.maximum(rise * (low - z), rise * (high - z))
            best = np.where(a < 0, tangent, np.maximum(*found))
        return np.where(best > -np.inf, best, np.inf)

    def _within(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the part of ranges that it may be given."""
        low = np.maximum(low, self.function.least)
        return low, np.maximum(low, high)

    def steepness(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Bound slopes over [low, high]."""
        least, most = (self.function.slope(z) for z in self._within(low, high))
        return least - 8 * UNIT * np.abs(least), most + 8 * UNIT * np.abs(most)

    def size(self, here: Floats) -> Floats:
        """Bound values, which are largest at the ends, and changes, given what `pair_ends` says."""
        ends = [*self._within(here[:, 0], here[:, 1]), *self._within(here[:, 4], here[:, 5])]
        values = sum(self.function.value(z) for z in ends)
        steepest, farthest = np.abs(here[:, 6:8]).max(1), np.abs(here[:, 2:4]).max(1)
        found: Floats = super().size(here) + values + steepest * farthest
        return found


def by_kind(kinds: Kinds) -> list[tuple[Curve, NDArray[np.int64]]]:
    """Return the curves of smooth neurons, each with the neurons that have it."""
    return [(Curve.of(int(k)), np.flatnonzero(kinds == k)) for k in np.unique(kinds[kinds > 0])]


def floors(kinds: Kinds) -> Floats:
    """Return what is added to each neuron's output."""
    return np.array([own.floor for own in FUNCTIONS])[kinds]


def declared_error(kind: int, inputs: Floats, values: Floats) -> Floats:
    """Return how far onnxruntime's float32 values may be off, of absolute inputs and values."""
    (absolute, relative), tilt = FUNCTIONS[kind].error, FUNCTIONS[kind].tilt
    near = np.minimum(absolute, tilt * inputs) if tilt else absolute
    known = (inputs <= REACH) | (FUNCTIONS[kind].touch is not None)
    return np.where(known, near + VALUE + relative * values, np.inf)


def pair_ends(kinds: Kinds, low: Floats, high: Floats, below: Floats, above: Floats) -> Floats:
    """Return what bounds smooth pairs, shape (n, 11, width): see `tops`.

    Ranges of z, of dz and of z + dz, and of m in ``f(z + dz) - f(z) = m dz``: a slope between. Then
    how far the two may be apart at dz = 0, where they are written in different forms, and, where
    slopes have no common bound, how far values are.
    """
    pad = 4 * UNIT * (np.abs(low) + np.abs(high) + np.abs(below) + np.abs(above))
    least, most = low + below - pad, high + above + pad
    found = np.stack([low, high, below, above, least, most, *np.zeros((5, *low.shape))], 1)
    found[:, 9], found[:, 10] = -np.inf, np.inf
    for curve, at in by_kind(kinds):
        hull = np.minimum(low, least)[:, at], np.maximum(high, most)[:, at]
        found[:, 6, at], found[:, 7, at] = curve.steepness(*hull)
        found[:, 8, at] = 2 * curve.function.rounded
        if curve.function.touch:
            before = curve.ends(low[:, at], high[:, at])
            after = curve.ends(least[:, at], most[:, at])
            found[:, 9, at], found[:, 10, at] = after[0] - before[1], after[1] - before[0]
    return found


def change_of(ends: Floats) -> tuple[Floats, Floats]:
    """Return the least and the greatest change of outputs."""
    found = [ends[:, m] * ends[:, d] for m in (6, 7) for d in (2, 3)]
    least, most = np.minimum.reduce(found) - ends[:, 8], np.maximum.reduce(found) + ends[:, 8]
    return np.maximum(least, ends[:, 9]), np.minimum(most, ends[:, 10])


def tops(
    kinds: Kinds, ends: Floats, apart: NDArray[np.bool_], a: Floats, b: Floats | None,
    cz: Floats, cd: Floats | None,
) -> Floats:  # fmt: skip
    """Return the largest ``a h + b dh - cz z - cd dz`` of smooth pairs, shape (n, r, width).

    *Apart*, that is ``(a - b) f(z) - (cz - cd) z`` and ``b f(w) - cd w`` with w = z + dz; else
    ``a f(z) - cz z`` and ``(b m - cd) dz``, which is largest at a corner.
    """
    found = np.full(a.shape, -np.inf)
    for curve, at in by_kind(kinds):
        own, here = a[..., at], ends[:, :, None, at]
        steep = cz[..., at]
        if b is None or cd is None:
            found[..., at] = curve.top(own, steep, here[:, 0], here[:, 1])
            continue
        away, second, change = apart[:, None, at], b[..., at], cd[..., at]
        room = 8 * UNIT * (np.abs(own) + np.abs(second)) * curve.size(here)
        other = np.where(away, second, 0.0)
        best = curve.top(own - other, steep - np.where(away, change, 0.0), here[:, 0], here[:, 1])
        joint = [(second * here[:, m] - change) * here[:, d] for m in (6, 7) for d in (2, 3)]
        alone = curve.top(other, np.where(away, change, 0.0), here[:, 4], here[:, 5])
        together = np.maximum.reduce(joint) + np.abs(second) * here[:, 8]
        found[..., at] = best + np.where(away, alone, together) + room
    return found
