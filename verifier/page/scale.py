"""A numeric axis: its ends, its ticks, and where a number lies on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Scale", "scale"]

_INSET = 1.0
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """An axis.

    Attributes
    ----------
    low, high : float
    ticks : tuple of float
    """

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> str:
        """Return where a number lies, in per cent of the width of what is drawn."""
        share = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return f"{_INSET + share * (100 - 2 * _INSET):.3f}%"


def scale(values: list[float], shares: bool) -> Scale:
    """Return an axis with round ticks that holds some numbers, and 0.

    Parameters
    ----------
    values : list of float
    shares : bool
        Whether they are shares of a whole: the axis then goes from 0 to 1.
    """
    low, high = min(0.0, *values), max(0.0, *values)
    if shares and low >= 0 and high <= 1:
        return Scale(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))
    if high == low:
        return Scale(0.0, 1.0, (0.0, 1.0))
    size = high / 4 - low / 4
    power = 10.0 ** math.floor(math.log10(size)) if size > 1e-300 else 1e-300
    step = next((each * power for each in _STEPS if each * power >= size), 10 * power)
    first, last = math.floor(low / step), math.ceil(high / step)
    ticks = tuple(float(f"{step * at:.12g}") for at in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], ticks)
