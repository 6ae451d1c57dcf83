"""Half-spaces in which counter-examples lie, and what linear forms can be in them.

For multipliers that are not negative, a form is at most itself plus multiples of half-spaces. Any
multipliers give a valid bound; they are chosen one half-space after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.backward import Forms, largest
from leaveout.verifier.checker.rounding import UNIT, gamma

__all__ = ["HalfSpaces", "contract", "largest_within"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_ROUNDS = 6
"""Half-spaces added to one form."""

_FLAT = 1e-9
"""Half-spaces missed by less than this share of their width are not missed."""

_CANCELLED = 1e-12
"""Slopes of which no more than this is left are 0."""

_AT_ONCE = 2**20
"""Coefficients of half-spaces looked at together."""

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(eq=False)
class HalfSpaces:
    """Half-spaces ``rows x + shift >= 0`` of some nodes; each holds what matters of its node.

    Attributes
    ----------
    rows : ndarray of float64, shape (n, most, inputs)
    shift, width : ndarray of float64, shape (n, most)
        The width is how much a row varied in the box when it was added.
    count : ndarray of int64, shape (n,)
        How many each node has; the rest is 0.
    """

    rows: Floats
    shift: Floats
    width: Floats
    count: Integers

    @staticmethod
    def none(nodes: int, most: int, inputs: int) -> HalfSpaces:
        """Return room for some half-spaces of each node."""
        return HalfSpaces(
            np.zeros((nodes, most, inputs)),
            np.zeros((nodes, most)),
            np.zeros((nodes, most)),
            np.zeros(nodes, np.int64),
        )

    def add(self, of: Integers, forms: Forms, least: Floats, lower: Floats, upper: Floats) -> None:
        """Add ``slopes x + constant >= least``, unless that holds in all of a node's box.

        Numbers out of float64's range say nothing and are not added.

        Parameters
        ----------
        of : ndarray of int64, shape (r,), ascending
            The node of each.
        forms : Forms
            What adding a single number to the constants rounds need not be charged yet.
        least : ndarray of float64, shape (r,)
        lower, upper : ndarray of float64, shape (n, inputs)
            Boxes of all nodes.
        """
        slopes, (low, high) = forms.slopes, (lower[of], upper[of])
        with np.errstate(invalid="ignore", over="ignore"):
            shift = forms.constant - least
            shift += 8 * UNIT * (np.abs(forms.constant) + np.abs(least))
            lowest = shift + np.minimum(slopes * low, slopes * high).sum(axis=1)
            width = (np.abs(slopes) * (high - low)).sum(axis=1)
        kept = np.isfinite(shift) & np.isfinite(slopes).all(axis=1) & np.isfinite(width)
        kept = np.flatnonzero(kept & ~(lowest >= 0.0))
        own = of[kept]
        place = self.count[own] + np.arange(len(own)) - np.searchsorted(own, own)
        self.rows[own, place] = slopes[kept]
        self.shift[own, place], self.width[own, place] = shift[kept], width[kept]
        np.add.at(self.count, own, 1)


def contract(
    forms: Forms, least: Floats, lower: Floats, upper: Floats
) -> tuple[Floats, Floats, Flags]:
    """Keep of boxes where ``slopes x + constant >= least`` is possible.

    Parameters
    ----------
    forms : Forms
    least : ndarray of float64, shape (r,)
    lower, upper : ndarray of float64, shape (r, inputs)

    Returns
    -------
    lower, upper : ndarray of float64, shape (r, inputs)
    empty : ndarray of bool, shape (r,)
        Where it is possible nowhere.

    Raises
    ------
    RejectedError
        If that cannot be told in float64.
    """
    slack = largest(forms, lower, upper) - least
    slack += 4 * UNIT * (np.abs(slack) + np.abs(least) + np.abs(forms.constant))
    empty = slack < 0.0
    slack = np.maximum(slack, 0.0)[:, None]
    width = upper - lower
    steep = np.abs(forms.slopes)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        keep = slack / steep * (1.0 + 1e-9) + 1e-9 * width
        keep += 4 * UNIT * (np.abs(lower) + np.abs(upper))
    cutting = (steep * width > slack) & (keep < width)
    rising = forms.slopes > 0.0
    low = np.where(cutting & rising, np.maximum(lower, upper - keep), lower)
    high = np.where(cutting & ~rising, np.minimum(upper, lower + keep), upper)
    return low, high, empty


def largest_within(
    forms: Forms, of: Integers, lower: Floats, upper: Floats, given: HalfSpaces
) -> tuple[Floats, Flags]:
    """Bound each form over its own box and the half-spaces of its node.

    One after the other, the half-space that the form's maximiser misses by most gets the
    multiplier that is best by itself.

    Parameters
    ----------
    forms : Forms
    of : ndarray of int64, shape (r,)
        Node of each.
    lower, upper : ndarray of float64, shape (r, inputs)
    given : HalfSpaces

    Returns
    -------
    bounds : ndarray of float64, shape (r,)
    empty : ndarray of bool, shape (r,)
        Where a half-space was met that nothing of the box is in.

    Raises
    ------
    RejectedError
        If a bound over the box alone cannot be told in float64.

    Notes
    -----
    A form and its half-spaces are exact: their rounding is charged already. Up to six products are
    added to every coefficient, and the sum is evaluated over the box: with n inputs fewer than
    2 n + 64 roundings of the sum of absolute terms, which is rounded itself, for which it is
    doubled. What is taken from a coefficient goes into the constant, at the most it can be.
    """
    bounds, empty = largest(forms, lower, upper), np.zeros(len(of), bool)
    clipped = np.flatnonzero(given.count[of] > 0)
    if not len(clipped):
        return bounds, empty
    most, inputs = int(given.count[of[clipped]].max()), lower.shape[1]
    step = max(1, _AT_ONCE // max(most * inputs, 1))
    for begin in range(0, len(clipped), step):
        at = clipped[begin : begin + step]
        part = Forms(forms.slopes[at], forms.constant[at])
        with np.errstate(all="ignore"):
            found, nowhere = _clipped(part, of[at], lower[at], upper[at], given, most)
        bounds[at], empty[at] = np.minimum(bounds[at], found), nowhere
    return bounds, empty


def _clipped(
    forms: Forms, of: Integers, lower: Floats, upper: Floats, given: HalfSpaces, most: int
) -> tuple[Floats, Flags]:
    """Return bounds by some multipliers, infinite where there are none, and where all is empty."""
    count, inputs = lower.shape
    best, empty = np.full(count, np.inf), np.zeros(count, bool)
    rows, shift, width = given.rows[of, :most], given.shift[of, :most], given.width[of, :most]
    now, constant = forms.slopes.copy(), forms.constant.copy()
    far = np.maximum(np.abs(lower), np.abs(upper))
    size = np.abs(constant) + (np.abs(now) * far).sum(axis=1)
    room = 2 * gamma(2 * inputs + 64)
    left = np.arange(count)
    for _ in range(_ROUNDS):
        x = np.where(now > 0.0, upper, lower)
        value = shift + (rows @ x[:, :, None])[:, :, 0]
        missed = np.where(value < 0.0, -value / width, 0.0)
        farthest = missed.max(axis=1)
        going = np.flatnonzero(farthest > _FLAT)
        if not len(going):
            break
        if len(going) < len(left):
            left, rows, shift, width = left[going], rows[going], shift[going], width[going]
            now, constant, far, size = now[going], constant[going], far[going], size[going]
            lower, upper, value = lower[going], upper[going], value[going]
            missed, farthest = missed[going], farthest[going]
        # The first of those that are missed about equally.
        chosen = np.argmax(missed * (1.0 + _FLAT) >= farthest[:, None], axis=1)
        one = np.arange(len(left))
        row, own = rows[one, chosen], shift[one, chosen]
        t, falling = _multiplier(
            now, row, value[one, chosen], _FLAT * width[one, chosen], upper - lower
        )
        terms = np.abs(own) + (np.abs(row) * far).sum(axis=1)
        if falling.any():
            top = own + np.maximum(row * lower, row * upper).sum(axis=1)
            empty[left[falling]] = (top + room * terms + _TINY < 0.0)[falling]
        moved = now + t[:, None] * row
        # What rounding leaves of slopes that cancel must not decide where the maximiser is.
        rest = np.where(np.abs(moved) <= _CANCELLED * np.abs(now), moved, 0.0)
        now = moved - rest
        constant = constant + t * own + np.maximum(rest * lower, rest * upper).sum(axis=1)
        size = size + t * terms
        found = constant + np.maximum(now * lower, now * upper).sum(axis=1)
        found += room * size + _TINY * (16 + far.sum(axis=1))
        # Numbers out of range bound nothing.
        sound = np.isfinite(found) & np.isfinite(now).all(axis=1)
        best[left] = np.minimum(best[left], np.where(sound, found, np.inf))
    return best, empty


def _multiplier(
    now: Floats, row: Floats, value: Floats, small: Floats, width: Floats
) -> tuple[Floats, Flags]:
    """Return the multiplier with the least maximum over the box, or 0 where it falls for ever.

    The maximum is convex and piecewise linear in the multiplier. Its slope is the row's value at
    the maximiser, which grows where slopes of the form change their sign, one after the other.
    """
    turning = (row * np.where(now > 0.0, 1.0, -1.0) < 0.0) & (width > 0.0)
    step = np.where(turning, -now / row, np.inf)
    order = np.argsort(step, axis=1, kind="stable")
    gains = np.take_along_axis(np.where(turning, np.abs(row) * width, 0.0), order, axis=1)
    slope = value[:, None] + np.cumsum(gains, axis=1)
    enough = (slope >= -small[:, None]) & np.take_along_axis(turning, order, axis=1)
    falling = ~enough.any(axis=1)
    one = np.arange(len(row))
    t = step[one, order[one, np.argmax(enough, axis=1)]]
    # Any that is not negative will do.
    return np.where(~falling & np.isfinite(t) & (t > 0.0), t, 0.0), falling
