"""Listed values in the kernels' units: rows in a region, and their hull.

The kernels' input is y = x - origin. A row v stands for the real number v - origin; what is kept
is that number rounded, s = fl(v - origin). Rounding is monotone and leaves floats alone, so for
floats l and u

    l <= v - origin <= u   implies   l <= s <= u,

and the rows with s in a region include all rows in it, however small values are beside the origin.
In the other direction v - origin lies within one float of s, so hulls are widened by one float.
No region is empty by a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders import Box, Choices

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Listed:
    """Features restricted to listed values, shifted."""

    tables: tuple[Choices, ...]  # rows in shifted units, rounded once

    @classmethod
    def of(cls, box: Box, origin: Floats) -> Listed:
        """Shift the listed values of a box."""
        return cls(
            tuple(
                Choices(each.columns, each.values - origin[each.columns], exact=True)
                for each in box.choices
            )
        )

    def shrink(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Shrink shifted regions to the hulls of the rows in them."""
        empty: NDArray[np.bool_] = np.any(lower > upper, axis=1)
        lower, upper = lower.copy(), upper.copy()
        for table in self.tables:
            at = table.columns
            low, high, none = table.snap(lower[:, at], upper[:, at])
            lower[:, at] = np.maximum(lower[:, at], np.nextafter(low, -np.inf))
            upper[:, at] = np.minimum(upper[:, at], np.nextafter(high, np.inf))
            empty = empty | none
        return lower, upper, empty
