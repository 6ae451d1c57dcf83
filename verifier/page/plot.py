"""A small chart drawn here, so that it needs nothing installed: axes, and where numbers lie."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from leaveout.verifier.page.amounts import plain
from leaveout.verifier.page.markup import Child, Html, joined, tag

__all__ = ["Axis", "bar", "linear", "logarithmic", "path", "plot", "steps", "stripes", "upright"]

_WIDTH, _HEIGHT = 440, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 22, 40
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_DECADES = 6
_STRIPE = 4.0
_LEAST = 1.5
"""Height of the lowest bar."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes
    ----------
    low, high : float
    ticks : tuple of float
    title : str
    logarithmic : bool
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    title: str
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return where a number lies, from 0 to 1."""
        low, high = self.low, self.high
        value = min(high, max(low, value))
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return (value - low) / (high - low)


def linear(least: float, greatest: float, title: str) -> Axis:
    """Return an axis with about five round ticks, whose ends are two of them."""
    span = greatest - least
    if not span > 0:
        span = abs(greatest) or 1.0
        greatest = least + span
    size = span / 5
    power = 10.0 ** math.floor(math.log10(size))
    step = next((each * power for each in _STEPS if each * power >= 0.999 * size), 10 * power)
    first, last = math.floor(least / step + 1e-9), math.ceil(greatest / step - 1e-9)
    ticks = tuple(float(f"{step * at:.12g}") for at in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks, title)


def logarithmic(least: float, greatest: float, title: str) -> Axis:
    """Return an axis on which equal ratios are equally far, with a tick at powers of ten."""
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(greatest))
    last = max(last, first + 1)
    every = -(-(last - first) // _DECADES)
    ticks = tuple(float(f"1e{at}") for at in range(first, last + 1, every))
    return Axis(10.0**first, 10.0**last, ticks, title, logarithmic=True)


def x_of(axis: Axis, value: float) -> float:
    """Return where a number lies from the left of a chart, in its units."""
    return _LEFT + axis.share(value) * (_WIDTH - _LEFT - _RIGHT)


def y_of(axis: Axis, value: float) -> float:
    """Return where a number lies from the top of a chart, in its units."""
    return _HEIGHT - _BOTTOM - axis.share(value) * (_HEIGHT - _TOP - _BOTTOM)


def path(x: Axis, y: Axis, points: Points, closed: bool = False) -> str:
    """Return the corners of a line as the ``d`` of a path."""
    corners = " L".join(f"{x_of(x, at):.1f} {y_of(y, value):.1f}" for at, value in points)
    return f"M{corners}{'z' if closed else ''}"


def steps(at: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the corners of a staircase: each value holds up to the next place."""
    corners = [(at[0], values[0])]
    for place, before, value in zip(at[1:], values[:-1], values[1:], strict=True):
        corners += [(place, before), (place, value)]
    return corners


def bar(
    x: Axis,
    y: Axis,
    sides: tuple[float, float],
    ends: tuple[float, float],
    style: str,
    striped: bool = False,
) -> Html:
    """Return a bar; one of the least count can still be seen.

    Parameters
    ----------
    x, y : Axis
    sides, ends : tuple of float
        Where it begins and ends along each axis.
    style : str
        Its classes.
    striped : bool
    """
    left, right = (x_of(x, side) for side in sides)
    low, high = (y_of(y, end) for end in ends)
    tall = max(_LEAST, low - high)
    left, wide = left + 0.5, right - left - 1
    outline = f"M{_px(left)} {_px(low)}h{_px(wide)}v{_px(-tall)}h{_px(-wide)}z"
    lines = stripes(left, low - tall, wide, tall) if striped else None
    return joined(tag("path", d=outline, class_=style), lines)


def stripes(left: float, top: float, wide: float, tall: float) -> Html:
    """Return stripes across a bar, so that it differs from others without colours."""
    count = int(tall // _STRIPE)
    lines = [f"M{_px(left)} {_px(top + _STRIPE * (at + 0.5))}h{_px(wide)}" for at in range(count)]
    return tag("path", d=" ".join(lines), class_="stripes") if lines else Html()


def upright(x: Axis, value: float, name: str) -> Html:
    """Return a dashed line across a chart, and what it is called."""
    at = x_of(x, value)
    side = "end" if at > _WIDTH / 2 else "start"
    return tag(
        "g",
        tag("line", x1=_px(at), x2=_px(at), y1=_TOP - 6, y2=_HEIGHT - _BOTTOM),
        tag("text", name, x=_px(at - 5 if side == "end" else at + 5), y=_TOP + 2, class_=side),
        class_="upright",
    )


def plot(x: Axis, y: Axis, said: str, *drawn: Child) -> Html:
    """Return a chart.

    Parameters
    ----------
    x, y : Axis
    said : str
        What it shows, for those who do not see it.
    *drawn : Child
        Put over the axes.
    """
    bottom = _HEIGHT - _BOTTOM
    lines = [
        tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=_px(y_of(y, each)), y2=_px(y_of(y, each)))
        for each in y.ticks
    ]
    ups = [
        tag("text", plain(each), x=_LEFT - 6, y=_px(y_of(y, each) + 4), class_="up")
        for each in y.ticks
    ]
    along = [
        tag("text", plain(each), x=_px(x_of(x, each)), y=bottom + 16, class_="along")
        for each in x.ticks
    ]
    return tag(
        "svg",
        tag("g", lines, class_="lines"),
        drawn,
        tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=bottom, y2=bottom, class_="base"),
        tag("g", ups, along, aria_hidden="true"),
        tag("text", y.title, x=2, y=12, class_="name"),
        tag("text", x.title, x=_WIDTH - _RIGHT, y=_HEIGHT - 6, class_="name end"),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=said,
        class_="plot",
    )


def _px(value: float) -> str:
    return f"{value:.1f}"
