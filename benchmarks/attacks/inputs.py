"""Sets of inputs as plain data: drawn, enumerated, and asked whether they hold a point."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders import Box, Choices

__all__ = ["Inputs", "box_of", "random_box"]

Floats = NDArray[np.float64]

_MOST = 1024


@dataclass(frozen=True, eq=False)
class Inputs:
    """A set of float32 points, read from a case by code of its own.

    Attributes
    ----------
    lower, upper : ndarray of float64, shape (d,)
    tables : tuple of (columns, rows)
        Rows that lie between the bounds.
    """

    lower: Floats
    upper: Floats
    tables: tuple[tuple[NDArray[np.int64], Floats], ...]

    @staticmethod
    def of(box: dict[str, Any]) -> Inputs:
        """Read a set."""
        lower, upper = np.array(box["lower"], float), np.array(box["upper"], float)
        tables = []
        for each in box["tables"]:
            columns = np.asarray(each["columns"], np.int64)
            rows = np.asarray(each["rows"], np.float32).astype(float).reshape(-1, len(columns))
            # A bound rounds as listed values do: 0.1 lies in [0, 0.1].
            low, high = lower[columns].astype(np.float32), upper[columns].astype(np.float32)
            low, high = np.minimum(low, lower[columns]), np.maximum(high, upper[columns])
            lower[columns], upper[columns] = low, high
            inside = ((rows >= low) & (rows <= high)).all(axis=1)
            tables.append((columns, rows[inside]))
        return Inputs(lower, upper, tuple(tables))

    def contains(self, points: Floats) -> NDArray[np.bool_]:
        """Whether points, shape (p, d), lie in the set: every bit counts."""
        fine = ((points >= self.lower) & (points <= self.upper)).all(axis=1)
        for columns, rows in self.tables:
            fine &= (points[:, None, columns] == rows[None]).all(axis=2).any(axis=1)
        return np.asarray(fine & (points == points.astype(np.float32)).all(axis=1))

    def moved(self, points: Floats, rng: np.random.Generator) -> Floats:
        """Return float32 points of the set near some points; listed ones take a nearest row."""
        found = np.clip(points, self.lower, self.upper)
        for columns, rows in self.tables:
            if len(rows):
                away = np.abs(found[:, None, columns] - rows[None]).sum(axis=2)
                found[:, columns] = rows[away.argmin(axis=1)]
        found = found.astype(np.float32)
        found = np.where(found < self.lower, np.nextafter(found, np.float32(np.inf)), found)
        found = np.where(found > self.upper, np.nextafter(found, np.float32(-np.inf)), found)
        found = found.astype(float)
        return found[self.contains(found)]

    def sample(self, rng: np.random.Generator, count: int) -> Floats:
        """Draw points: uniform, corners, and of tables any row as often."""
        width = self.upper - self.lower
        share = rng.random((count, len(width)))
        corner = rng.random(count) < 0.25
        share[corner] = np.round(share[corner])
        points = self.lower + share * width
        for columns, rows in self.tables:
            if len(rows):
                points[:, columns] = rows[rng.integers(len(rows), size=count)]
        return self.moved(points, rng)

    def every(self) -> Floats | None:
        """Return all points, or None where they are too many."""
        listed = np.concatenate([np.zeros(0, np.int64), *(columns for columns, _ in self.tables)])
        free = np.setdiff1d(np.arange(len(self.lower)), listed)
        if (self.lower[free] != self.upper[free]).any():
            return None
        if math.prod(len(rows) for _, rows in self.tables) > _MOST:
            return None
        points = []
        for chosen in itertools.product(*(rows for _, rows in self.tables)):
            point = self.lower.copy()
            for (columns, _), row in zip(self.tables, chosen, strict=True):
                point[columns] = row
            points.append(point)
        found = np.asarray(points).reshape(-1, len(self.lower))
        return found[self.contains(found)]


def box_of(box: dict[str, Any]) -> Box:
    """Return the box of leaveout."""
    tables = tuple(
        Choices(np.asarray(each["columns"], np.int64), np.asarray(each["rows"], float))
        for each in box["tables"]
    )
    return Box(np.asarray(box["lower"], float), np.asarray(box["upper"], float), tables)


def random_box(rng: np.random.Generator, width: int, *, listed: float = 0.3) -> dict[str, Any]:
    """Draw a set: features alike or of wildly different ranges, some of them listed."""
    same = rng.random() < 0.5
    sides = [_side(rng, "unit" if same else None) for _ in range(width)]
    lower, upper = [a for a, _ in sides], [b for _, b in sides]
    free = [int(i) for i in rng.permutation(width)]
    tables = []
    while free and rng.random() < listed:
        taken = [free.pop() for _ in range(min(len(free), int(rng.integers(1, 3))))]
        tables.append(_table(rng, taken, lower, upper))
    return {"lower": lower, "upper": upper, "tables": tables}


def _side(rng: np.random.Generator, way: str | None) -> tuple[float, float]:
    way = way or str(rng.choice(["unit", "signed", "far", "point", "thin", "wide", "tiny", "odd"]))
    a, b = np.sort(rng.random(2))
    low, high = {
        "unit": (0.0, 1.0),
        "signed": (-a, b),
        "far": (1000.0 * (1 + a), 1000.0 * (1 + a) + b),
        "point": (a, a),
        "thin": (a, a + 1e-5 * b),
        "wide": (-100.0 * a, 300.0 * b),
        "tiny": (-1e-8 * a, 1e-8 * b),
        "odd": (a, b),
    }[way]
    if way == "odd":
        # Bounds that are no float32 numbers.
        return float(low), float(high)
    low, high = np.float32(low), np.float32(high)
    return float(min(low, high)), float(max(low, high))


def _table(
    rng: np.random.Generator, columns: list[int], lower: list[float], upper: list[float]
) -> dict[str, Any]:
    count = int(rng.integers(1, 6))
    rows = []
    for _ in range(count):
        row = []
        for c in columns:
            value = np.float32(lower[c] + rng.random() * (upper[c] - lower[c]))
            row.append(float(np.clip(value, lower[c], upper[c]).astype(np.float32)))
        rows.append(row)
    rows = [
        row
        for row in rows
        if all(lower[c] <= v <= upper[c] for c, v in zip(columns, row, strict=True))
    ]
    if not rows:
        # No float32 number may lie between the bounds: then one that does is made.
        for c in columns:
            lower[c] = float(np.float32(lower[c]))
            upper[c] = max(upper[c], lower[c])
        rows = [[lower[c] for c in columns]]
    return {"columns": columns, "rows": rows}
