"""How inputs become design columns, and the largest value of a linear function over a set of them.

Bins and splines are columns of one input. Over an interval their values lie in the convex hull of
finitely many rows: the indicator rows of the bins it meets, and the Bezier points of the spline's
pieces. So a linear function is largest at one of these rows, or at least no larger anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .numbers import Floats, gamma, lengths, need, no_less

Integers = NDArray[np.int64]

PARTS = 8
"""Parts of a spline's piece, each with Bezier points of its own."""

_MOST_PAIRS = 3000  # vectors of which all pairs are multiplied


@dataclass(frozen=True, eq=False)
class Column:
    """The design columns of one input.

    Degree -1 is the input itself, 0 the indicators of the bins between ``knots``, more the basis of
    splines with these knots, constant beyond them.
    """

    at: int
    degree: int = -1
    knots: Floats | None = None  # ascending; of splines with ``degree`` more on both sides
    bias: bool = True  # whether the last column is kept, which the others imply

    def __post_init__(self) -> None:
        need(self.at >= 0 and -1 <= self.degree <= 5, "a column")
        knots = self.knots
        need((self.degree < 0) == (knots is None), "knots are of bins and splines")
        if knots is not None:
            need(knots.ndim == 1 and np.all(np.isfinite(knots)), "a knot is no number")
            # Only inner knots must differ: the ends of a spline may be repeated.
            inner = knots[self.degree : len(knots) - self.degree]
            need(np.all(np.diff(knots) >= 0) and np.all(np.diff(inner) > 0), "knots must ascend")
            need(len(inner) >= (1 if self.degree == 0 else 2), "too few knots")

    @property
    def width(self) -> int:
        """The number of design columns."""
        if self.knots is None:
            return 1
        basis = len(self.knots) + 1 if self.degree == 0 else len(self.knots) - self.degree - 1
        return basis - (not self.bias)

    def values(self, x: Floats) -> Floats:
        """Return the columns at inputs, shape (n, width)."""
        knots = self.knots
        if knots is None:
            return x[:, None]
        if self.degree == 0:
            found = np.zeros((len(x), len(knots) + 1))
            found[np.arange(len(x)), np.searchsorted(knots, x, side="right")] = 1.0
        else:
            low, high = knots[self.degree], knots[-self.degree - 1]
            inside = np.clip(x, low, high)
            found = self._blossom(self._span(inside), np.tile(inside, (self.degree, 1)))
        return found if self.bias else np.ascontiguousarray(found[:, :-1])

    def hull(self, low: float, high: float) -> Floats:
        """Return rows whose convex hull holds the values over an interval."""
        assert self.knots is not None
        knots, p = self.knots, self.degree
        if p == 0:
            begin, end = np.searchsorted(knots, [low, high], side="right")
            rows = np.eye(len(knots) + 1)[begin : end + 1]
            return rows if self.bias else rows[:, :-1]
        first, last = knots[p], knots[-p - 1]
        low, high = min(max(low, first), last), min(max(high, first), last)
        inner = knots[(knots > low) & (knots < high)]
        ends: Floats = np.unique(np.concatenate([[low], inner, [high]]))
        if len(ends) == 1:
            return self.values(ends)
        parts = np.linspace(0.0, 1.0, (PARTS if p > 1 else 1) + 1)[:-1]
        starts = (ends[:-1, None] + np.diff(ends)[:, None] * parts).reshape(-1)
        stops = np.append(starts[1:], ends[-1])
        span = np.repeat(self._span(ends[:-1]), len(parts))
        points = []
        for late in range(p + 1):
            args = np.stack([stops if k < late else starts for k in range(p)])
            points.append(self._blossom(span, args))
        found = np.unique(np.concatenate(points), axis=0)
        return found if self.bias else np.ascontiguousarray(found[:, :-1])

    def _span(self, x: Floats) -> Integers:
        assert self.knots is not None
        p = self.degree
        found = np.searchsorted(self.knots, x, side="right") - 1
        return np.clip(found, p, len(self.knots) - p - 2)

    def _blossom(self, span: Integers, args: Floats) -> Floats:
        """Return all basis splines' blossoms, shape (n, basis); args has shape (degree, n)."""
        assert self.knots is not None
        t, p, count = self.knots, self.degree, len(span)
        known = np.tile(np.eye(p + 1), (count, 1, 1))
        for r in range(1, p + 1):
            u = args[r - 1]
            for j in range(p, r - 1, -1):
                low, high = t[span - p + j], t[span + j - r + 1]
                share = (u - low) / (high - low)
                known[:, j] = (1.0 - share)[:, None] * known[:, j - 1] + share[:, None] * known[
                    :, j
                ]
        found = np.zeros((count, len(t) - p - 1))
        at = span[:, None] - p + np.arange(p + 1)
        found[np.arange(count)[:, None], at] = known[:, p]
        return found


@dataclass(frozen=True, eq=False)
class Design:
    """From inputs to design columns: each column's values, moved and scaled, mixed, and a constant.

    ``(values - shift) / scale``, times ``mix`` plus ``offset`` where there is a mix, then
    ``constant`` as the last column where it is not 0.
    """

    inputs: int
    columns: tuple[Column, ...]
    shift: Floats  # shape (values,)
    scale: Floats  # shape (values,): positive
    mix: Floats | None = None  # shape (values, mixed)
    offset: Floats | None = None  # shape (mixed,)
    constant: float = 1.0

    def __post_init__(self) -> None:
        count = sum(each.width for each in self.columns)
        need(all(each.at < self.inputs for each in self.columns), "a column reads no input")
        need(self.shift.shape == (count,) and self.scale.shape == (count,), "shifts and scales")
        need(np.isfinite(self.shift) & np.isfinite(self.scale) & (self.scale > 0), "scales")
        need((self.mix is None) == (self.offset is None), "a mix has an offset")
        if self.mix is not None and self.offset is not None:
            need(self.mix.ndim == 2 and len(self.mix) == count, "the mix's shape")
            need(self.offset.shape == self.mix.shape[1:], "the offset's shape")
            need(np.isfinite(self.mix).all() and np.isfinite(self.offset).all(), "the mix")
        need(np.isfinite(self.constant), "the constant")

    @staticmethod
    def plain(inputs: int, constant: float = 1.0) -> Design:
        """Return the design whose columns are the inputs."""
        columns = tuple(Column(at) for at in range(inputs))
        return Design(inputs, columns, np.zeros(inputs), np.ones(inputs), constant=constant)

    @cached_property
    def is_plain(self) -> bool:
        """Whether the columns are the inputs, unmixed and in their order."""
        same = [each.at for each in self.columns] == list(range(self.inputs))
        direct = all(each.knots is None for each in self.columns)
        scaled = bool(np.any(self.shift != 0) or np.any(self.scale != 1))
        return same and direct and not scaled and self.mix is None

    @property
    def width(self) -> int:
        """The number of design columns."""
        mixed = len(self.shift) if self.mix is None else self.mix.shape[1]
        return mixed + (self.constant != 0)

    @property
    def roundings(self) -> int:
        """How many roundings any score of an input, or bound of it, has at most."""
        return 2 * (self.width + len(self.shift)) + 96

    @cached_property
    def spare(self) -> Floats:
        """What a spline's rounding is relative to, besides its values, shape (values,)."""
        splines = np.repeat(
            [each.degree > 0 for each in self.columns], [each.width for each in self.columns]
        )
        return np.where(splines, no_less((1.0 + np.abs(self.shift)) / self.scale), 0.0)

    def __call__(self, points: Floats) -> Floats:
        """Return the design rows of inputs, shape (n, width)."""
        return self._finish(self._values(points))

    def with_sizes(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the design rows of inputs, and sizes to which their rounding is relative."""
        values = self._values(points)
        sizes = no_less(np.abs(values) + self.spare)
        if self.mix is not None and self.offset is not None:
            sizes = no_less(sizes @ np.abs(self.mix) + np.abs(self.offset))
        if self.constant != 0:
            constant = np.full((len(sizes), 1), abs(self.constant))
            sizes = np.concatenate([sizes, constant], axis=1)
        return self._finish(values), sizes

    def _values(self, points: Floats) -> Floats:
        if self.is_plain:
            return np.asarray(points, np.float64)
        parts = [each.values(points[:, each.at]) for each in self.columns]
        return np.asarray((np.concatenate(parts, axis=1) - self.shift) / self.scale)

    def _finish(self, found: Floats) -> Floats:
        if self.mix is not None and self.offset is not None:
            found = found @ self.mix + self.offset
        if self.constant == 0:
            return found
        return np.concatenate([found, np.full((len(found), 1), self.constant)], axis=1)


@dataclass(frozen=True, eq=False)
class Listed:
    """Columns that together lie in the convex hull of some rows."""

    at: Integers  # shape (g,)
    rows: Floats  # shape (v, g)


@dataclass(frozen=True, eq=False)
class Region:
    """A set of inputs as sets of column values: intervals, and hulls of rows."""

    design: Design
    lower: Floats  # shape (values,): of the columns that no row lists
    upper: Floats  # shape (values,)
    listed: tuple[Listed, ...]

    @staticmethod
    def of(
        design: Design,
        lower: Floats,
        upper: Floats,
        choices: Sequence[tuple[Integers, Floats]] = (),
    ) -> Region:
        """Return the region of a box some of whose inputs together take listed rows."""
        need(lower.shape == upper.shape == (design.inputs,), "the box has other features")
        need(np.all(lower <= upper) and np.isfinite([lower, upper]).all(), "the box is empty")
        widths = [each.width for each in design.columns]
        first = np.concatenate([[0], np.cumsum(widths)])
        places = [np.arange(first[k], first[k + 1]) for k in range(len(widths))]
        # Of each choice and each other input, the columns that read it.
        owner = {int(at): k for k, (inputs, _) in enumerate(choices) for at in inputs}
        low, high = np.zeros(first[-1]), np.zeros(first[-1])
        listed: list[Listed] = []
        for k, (inputs, rows) in enumerate(choices):
            need(rows.ndim == 2 and rows.shape[1] == len(inputs) and len(rows) > 0, "listed rows")
            need(np.all(np.isfinite(rows)), "a listed value is no number")
            place = {int(at): j for j, at in enumerate(inputs)}
            own = [i for i, each in enumerate(design.columns) if owner.get(each.at) == k]
            if own:
                read = [design.columns[i] for i in own]
                values = [each.values(rows[:, place[each.at]]) for each in read]
                at = np.concatenate([places[i] for i in own])
                listed.append(Listed(at, np.concatenate(values, axis=1)))
        for i, each in enumerate(design.columns):
            if each.at in owner:
                continue
            if each.knots is None:
                low[places[i]], high[places[i]] = lower[each.at], upper[each.at]
            else:
                rows = each.hull(float(lower[each.at]), float(upper[each.at]))
                listed.append(Listed(places[i], rows))
        low, high = (low - design.shift) / design.scale, (high - design.shift) / design.scale
        moved = tuple(
            Listed(each.at, (each.rows - design.shift[each.at]) / design.scale[each.at])
            for each in listed
        )
        for group in moved:
            low[group.at] = high[group.at] = 0.0
        return Region(design, low, high, moved)

    @cached_property
    def sizes(self) -> Floats:
        """At least the absolute value of each design column, shape (width,)."""
        design, found = self.design, np.maximum(np.abs(self.lower), np.abs(self.upper))
        for each in self.listed:
            found[each.at] = np.abs(each.rows).max(axis=0)
        # A value of a spline may leave the hull by what rounding does to it.
        found = no_less(found * (1.0 + gamma(64)) + gamma(64) + design.spare)
        if design.mix is not None and design.offset is not None:
            found = no_less(found @ np.abs(design.mix) + np.abs(design.offset))
        if design.constant != 0:
            found = np.append(found, abs(design.constant))
        return np.asarray(found)

    @property
    def roundings(self) -> int:
        """How many roundings any score of an input, or bound of it, has at most."""
        return self.design.roundings

    def pull(self, slopes: Floats) -> tuple[Floats, Floats]:
        """Return functions of design columns, shape (m, width), as functions of column values."""
        design = self.design
        fixed = design.constant * slopes[:, -1] if design.constant != 0 else np.zeros(len(slopes))
        own = slopes[:, :-1] if design.constant != 0 else slopes
        if design.mix is not None and design.offset is not None:
            return own @ design.mix.T, fixed + own @ design.offset
        return own, fixed

    def largest(self, slopes: Floats) -> Floats:
        """Return the largest value of linear functions of design columns, not rounded upwards."""
        own, found = self.pull(slopes)
        middle, half = (self.lower + self.upper) / 2.0, (self.upper - self.lower) / 2.0
        found = found + own @ middle + np.abs(own) @ half
        for each in self.listed:
            found += (own[:, each.at] @ each.rows.T).max(axis=1)
        return found

    def error(self, magnitudes: Floats) -> Floats:
        """Bound what rounding changes in sums of terms up to ``magnitudes @ sizes``."""
        return np.asarray(no_less(gamma(self.roundings) * (magnitudes @ self.sizes)))

    def reach(self, R: Floats) -> float:
        """Bound the Euclidean norm of R' x over the region; R has a row for each design column.

        R' x is a centre plus, for each column and each listed group, one of a few vectors. The
        square of its length is at most the sum of the largest products of any two of these.
        """
        own, centre = self.pull(np.ascontiguousarray(R.T))
        own = np.ascontiguousarray(own.T)  # shape (values, parameters)
        middle, half = (self.lower + self.upper) / 2.0, (self.upper - self.lower) / 2.0
        centre = centre + middle @ own
        free = np.flatnonzero(half > 0)
        vectors, sizes = [half[free, None] * own[free]], [1] * len(free)
        for each in self.listed:
            rows = each.rows @ own[each.at]
            mean = rows.mean(axis=0)
            centre = centre + mean
            vectors.append(rows - mean)
            sizes.append(len(rows))
        rounding = float(self.error(lengths(R)[None])[0]) * 4.0
        every = np.concatenate([centre[None], *vectors])
        norms = lengths(every)
        first = np.concatenate([[0], np.cumsum([1, *sizes])])[:-1]
        away = float(no_less(np.maximum.reduceat(norms, first).sum()))
        if len(every) > _MOST_PAIRS:
            return float(no_less(away + rounding))
        pairs = np.maximum.reduceat(np.maximum.reduceat(np.abs(every @ every.T), first), first, 1)
        lost = gamma(every.shape[1] + len(first) ** 2 + 8) * away**2
        return float(no_less(min(away, float(np.sqrt(no_less(pairs.sum() + lost)))) + rounding))


def leaks(
    region: Region,
    own: Floats,
    apart: Floats,
    slack: Floats,
    t: Floats,
    level: float = 0.0,
    objective: Floats | None = None,
) -> Floats:
    """Bound N's score where a member's is at most a level.

    Parameters
    ----------
    region : Region
    own : ndarray, shape (width,)
        N's coefficients of the score, or of the difference of two.
    apart : ndarray, shape (m, width)
        The members' centres minus N's.
    slack : ndarray, shape (m,)
        At least what members, and rounding of either, may differ from their centres.
    t : ndarray, shape (m,)
        Multipliers, not negative: any are valid, and good ones make low bounds.
    level : float
    objective : ndarray, shape (m, width), optional
        What is bounded instead of ``own``.

    Returns
    -------
    ndarray, shape (m,)
        For t >= 0, no input with (own + apart) x <= level + slack has own x above max over the
        region of own x - t ((own + apart) x - level - slack).
    """  # fmt: skip
    need((t >= 0) & np.isfinite(t), "a multiplier is negative or no number")
    # With a multiplier of 0 nothing is asked of the member, however far it may be.
    slack = np.where(t > 0, slack, 0.0)
    theirs = own + apart
    told = own if objective is None else objective
    found = region.largest(told - t[:, None] * theirs)
    size = np.abs(told) + t[:, None] * (np.abs(own) + np.abs(apart))
    found = found + region.error(size) + t * (level + slack)
    return found + gamma(8) * (np.abs(found) + t * (abs(level) + slack))
