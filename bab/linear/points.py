"""Inputs of a region that make linear functions of design columns large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leaveout.arrays import Floats, Integers
from leaveout.encoders import Box
from leaveout.kernel.design import Column, Design, Region

_GRID = 65  # values of a feature that splines read

_LINE = 257
"""Points of a line at once; each round of a line search looks at one part between two of them."""

_ROUNDS = 6


@dataclass(frozen=True, eq=False)
class _Axis:
    """A feature, or features that take listed values together: some of their values."""

    at: Integers  # shape (g,)
    inputs: Floats  # shape (k, g)
    columns: Integers  # shape (w,): column values that read them
    values: Floats  # shape (k, w): these columns' values
    moves: bool  # whether every value between two is in the box, too


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs to choose from: of each axis a value."""

    region: Region
    axes: tuple[_Axis, ...]

    @staticmethod
    def of(design: Design, box: Box, region: Region) -> Points:
        """Return the inputs of a box at which linear functions are looked for."""
        tables = [(each.columns, each.values) for each in box.choices]
        listed = {int(at) for columns, _ in tables for at in columns}
        free = [at for at in range(design.inputs) if at not in listed]
        given = [(columns, values, False) for columns, values in tables]
        for at in free:
            read = [each for each in design.columns if each.at == at]
            values = _values(read, float(box.lower[at]), float(box.upper[at]))
            given.append((np.array([at]), values[:, None], True))
        first = np.concatenate([[0], np.cumsum([each.width for each in design.columns])])
        axes = []
        for inputs, rows, moves in given:
            place = {int(at): k for k, at in enumerate(inputs)}
            own = [i for i, each in enumerate(design.columns) if each.at in place]
            read = [design.columns[i] for i in own]
            parts = [each.values(rows[:, place[each.at]]) for each in read]
            columns = np.concatenate(
                [np.zeros(0, np.int64), *(np.arange(first[i], first[i + 1]) for i in own)]
            )
            found = np.concatenate([np.zeros((len(rows), 0)), *parts], axis=1)
            found = (found - design.shift[columns]) / design.scale[columns]
            axes.append(_Axis(inputs, rows, columns, found, moves))
        return Points(region, tuple(axes))

    def best(self, slopes: Floats) -> Integers:
        """Return of each axis the value at which a function is largest, shape (axes,)."""
        own = self.region.pull(slopes[None])[0][0]
        return np.array([np.argmax(each.values @ own[each.columns]) for each in self.axes])

    def point(self, chosen: Integers) -> Floats:
        """Return the input of a choice."""
        x = np.empty(self.region.design.inputs)
        for axis, k in zip(self.axes, chosen.tolist(), strict=True):
            x[axis.at] = axis.inputs[k]
        return x

    def near(self, values: Floats) -> Floats:
        """Return an input whose column values are about these, shape (values,)."""
        design, x = self.region.design, np.empty(self.region.design.inputs)
        for axis in self.axes:
            own = values[axis.columns]
            k = int(np.argmin(np.square(axis.values - own).sum(axis=1)))
            x[axis.at] = axis.inputs[k]
            if axis.moves and len(axis.columns) == 1:
                (at,) = axis.columns
                if len(axis.inputs) == 2:  # an input as it is, between its ends
                    moved = own[0] * design.scale[at] + design.shift[at]
                    x[axis.at] = np.clip(moved, axis.inputs.min(), axis.inputs.max())
        return x

    def reach(self, own: Floats, theirs: Floats, t: float, most: float) -> Floats | None:
        """Return an input with large ``own`` at which ``theirs`` is at most ``most``, if found.

        Parameters
        ----------
        own, theirs : ndarray, shape (width,)
            Functions of design columns.
        t : float
            The multiplier at which the bound is lowest: the best input lies between the largest of
            ``own - t theirs`` for slightly larger and slightly smaller multipliers.
        most : float
        """
        low = self._beyond(own, theirs, t, 1.0, lambda found: found <= most)
        if low is None:
            return None
        high = self._beyond(own, theirs, t, -1.0, lambda found: found > most)
        x = self.point(low)
        # Where even N's largest score is at an allowed input, that is the best.
        best = self.best(own) if high is None else high
        return self._walk(x, low, best, own, theirs, most)

    def _beyond(
        self, own: Floats, theirs: Floats, t: float, side: float, fits: Callable[[float], bool]
    ) -> Integers | None:
        """Return the best choice for a multiplier on one side of t, as near as one fits."""
        for apart in (1e-9, 1e-7, 1e-5, 1e-3, 0.1, 1.0, np.inf):
            slopes = own - t * max(0.0, 1.0 + side * apart) * theirs
            if apart == np.inf and side > 0:
                slopes = -theirs
            chosen = self.best(slopes)
            if fits(float(self._at(self.point(chosen)[None], theirs)[0])):
                return chosen
        return None

    def _walk(
        self, x: Floats, low: Integers, high: Integers, own: Floats, theirs: Floats, most: float
    ) -> Floats:
        """Move axes towards better values as far as they go, those that gain most first."""
        mine, other = (self.region.pull(each[None])[0][0] for each in (own, theirs))
        moves = []
        for k in np.flatnonzero(low != high).tolist():
            axis = self.axes[k]
            step = axis.values[high[k]] - axis.values[low[k]]
            gain, cost = step @ mine[axis.columns], step @ other[axis.columns]
            if gain > 0:
                moves.append((cost / gain, k))
        for _, k in sorted(moves):
            axis = self.axes[k]
            y = x.copy()
            y[axis.at] = axis.inputs[high[k]]
            if self._at(y[None], theirs)[0] <= most:
                x = y
            elif axis.moves:
                x = self._between(x, y, own, theirs, most)
        return x

    def _between(self, x: Floats, y: Floats, own: Floats, theirs: Floats, most: float) -> Floats:
        """Return the best allowed point on the line from an allowed point."""
        best, low, high = x, 0.0, 1.0
        for _ in range(_ROUNDS):
            shares = np.linspace(low, high, _LINE)[:, None]
            line = np.clip(x + shares * (y - x), np.minimum(x, y), np.maximum(x, y))
            allowed = self._at(line, theirs) <= most
            if not allowed.any():
                break
            k = int(np.argmax(np.where(allowed, self._at(line, own), -np.inf)))
            best = line[k]
            low, high = float(shares[max(k - 1, 0), 0]), float(shares[min(k + 1, _LINE - 1), 0])
        return best

    def _at(self, points: Floats, slopes: Floats) -> Floats:
        return np.asarray(self.region.design(points) @ slopes)


def _values(read: list[Column], low: float, high: float) -> Floats:
    """Return values of a feature at which what its columns say is extreme, or nearly so."""
    found = [np.array([low, high])]
    for each in read:
        if each.knots is not None:
            found.append(each.knots[(each.knots > low) & (each.knots < high)])
            if each.degree > 1:
                found.append(np.linspace(low, high, _GRID))
    if not read:
        return np.array([low])
    return np.unique(np.clip(np.concatenate(found), low, high))
