"""Charts drawn as SVG without dependencies: axes and what lies on them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise

from leaveout.verifier.amounts import plain
from leaveout.verifier.page.markup import Child, Html, join_children, tag

Point = tuple[float, float]

SIZE = (440, 240)  # width and height of a chart that is shown beside others

_LEFT, _RIGHT, _TOP, _BOTTOM = 10, 14, 28, 40
_CHARACTER = 8  # width of a digit beside the axis, as wide as narrow pages show it

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_DECADES = 6
_STRIPE = 4.0
_LEAST = 1.5  # height of the lowest bar


@dataclass(frozen=True)
class Axis:
    """A chart axis."""

    low: float
    high: float
    ticks: tuple[float, ...]
    title: str = ""
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return the position of a number on the axis, from 0 to 1."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(max(low, value))
        return min(1.0, max(0.0, (value - low) / (high - low)))


def round_ticks(least: float, greatest: float, about: int = 5, whole: bool = False) -> list[float]:
    """Return evenly spaced round numbers from at most `least` to `greatest`."""
    if greatest <= least:
        greatest = least + (abs(least) or 1.0)
    size = max(greatest / about - least / about, 1.0 if whole else 1e-300)
    power = 10.0 ** math.floor(math.log10(size))
    steps = [each * power for each in _STEPS if not whole or (each * power).is_integer()]
    step = next((each for each in steps if each >= size * (1 - 1e-9)), 10 * power)
    first = math.floor(least / step + 1e-9)
    last = max(first + 1, math.ceil(greatest / step - 1e-9))
    return [float(f"{step * at:.12g}") for at in range(first, last + 1)]


def linear(least: float, greatest: float, title: str = "", about: int = 5) -> Axis:
    """Return an axis with round ticks that starts and ends at ticks."""
    ticks = tuple(round_ticks(least, greatest, about))
    return Axis(ticks[0], ticks[-1], ticks, title)


def logarithmic(least: float, greatest: float, title: str = "") -> Axis:
    """Return a logarithmic axis with ticks at powers of ten."""
    first, last = math.floor(math.log10(least)), math.ceil(math.log10(greatest))
    last = max(last, first + 1)
    every = -(-(last - first) // _DECADES)
    ticks = tuple(float(f"1e{at}") for at in range(first, last + 1, every))
    return Axis(10.0**first, 10.0**last, ticks, title, logarithmic=True)


@dataclass(frozen=True)
class Frame:
    """A rectangle with axes, in picture units from the top left."""

    x: Axis
    y: Axis
    left: float
    top: float
    right: float
    bottom: float

    def at(self, x: float, y: float) -> Point:
        """Return the position of a point, clamped to the frame."""
        return (
            self.left + self.x.share(x) * (self.right - self.left),
            self.bottom - self.y.share(y) * (self.bottom - self.top),
        )

    def path(self, points: Iterable[Point], closed: bool = False) -> str:
        """Return the corners of a line as a path's ``d`` attribute."""
        return outline([self.at(*each) for each in points], closed)


def chart_frame(x: Axis, y: Axis, size: tuple[int, int] = SIZE) -> Frame:
    """Return the frame of a chart of a size, with room for the axis texts."""
    left = _LEFT + _CHARACTER * max(len(_tick_text(each)) for each in y.ticks)
    return Frame(x, y, left, _TOP, size[0] - _RIGHT, size[1] - _BOTTOM)


def outline(corners: Iterable[Point], closed: bool = False) -> str:
    """Return picture positions as a path's ``d`` attribute."""
    return f"M{' L'.join(f'{x:.1f} {y:.1f}' for x, y in corners)}{'z' if closed else ''}"


def staircase(at: Sequence[float], values: Sequence[float], back: bool = False) -> list[Point]:
    """Return the corners of a staircase.

    Each value holds up to the next place, or with ``back`` down to the previous one.
    """
    corners = [(at[0], values[0])]
    for (before, old), (place, new) in pairwise(zip(at, values, strict=True)):
        corners += [(before, new) if back else (place, old), (place, new)]
    return corners


def bar(frame: Frame, sides: Point, ends: Point, style: str, striped: bool = False) -> Html:
    """Return a bar that is visible even at the smallest count."""
    (left, low), (right, high) = (frame.at(*each) for each in zip(sides, ends, strict=True))
    tall = max(_LEAST, low - high)
    left, wide = left + 0.5, right - left - 1
    corners = [(left, low), (left, low - tall), (left + wide, low - tall), (left + wide, low)]
    lines = stripes(left, low - tall, wide, tall) if striped else None
    return join_children(tag("path", d=outline(corners, closed=True), class_=style), lines)


def stripes(left: float, top: float, wide: float, tall: float) -> Html:
    """Return stripes across a bar that distinguish it without colour."""
    heights = [top + _STRIPE * (at + 0.5) for at in range(int(tall // _STRIPE))]
    lines = [outline([(left, each), (left + wide, each)]) for each in heights]
    return tag("path", d=" ".join(lines), class_="stripes") if lines else Html()


def vertical_marker(frame: Frame, value: float, name: str) -> Html:
    """Return a labelled dashed vertical line across a chart."""
    at, _ = frame.at(value, frame.y.low)
    right = at > (frame.left + frame.right) / 2
    return tag(
        "g",
        tag("path", d=outline([(at, frame.top - 6), (at, frame.bottom)])),
        _text((at - 5 if right else at + 5, frame.top + 2), name, "end" if right else "start"),
        class_="upright",
    )


def key(name: Child, *drawn: Child) -> Html:
    """Return a legend entry, whose sample is 28 by 14."""
    swatch = tag("svg", drawn, viewBox="0 0 28 14", class_="swatch", aria_hidden="true")
    return tag("span", swatch, name, class_="key")


def axes(frame: Frame, *drawn: Child) -> Html:
    """Return the axes, and what is drawn above the tick lines."""
    lines, ups = [], []
    for each in frame.y.ticks:
        _, y = frame.at(frame.x.low, each)
        lines.append(outline([(frame.left, y), (frame.right, y)]))
        ups.append(_text((frame.left - 6, y + 4), _tick_text(each), "end"))
    along = [
        _text((frame.at(each, frame.y.low)[0], frame.bottom + 16), _tick_text(each), "along")
        for each in frame.x.ticks
    ]
    base = outline([(frame.left, frame.bottom), (frame.right, frame.bottom)])
    return join_children(
        tag("path", d=" ".join(lines), class_="lines"),
        drawn,
        tag("path", d=base, class_="base"),
        tag("g", ups, along, aria_hidden="true"),
        _text((2, frame.top - 16), frame.y.title, "name"),
        _text((frame.right, frame.bottom + 34), frame.x.title, "name end"),
    )


def plot(frame: Frame, said: str, *drawn: Child, style: str = "") -> Html:
    """Return a chart."""
    return tag(
        "svg",
        axes(frame, *drawn),
        viewBox=f"0 0 {frame.right + _RIGHT:g} {frame.bottom + _BOTTOM:g}",
        role="img",
        aria_label=said,
        class_=f"plot {style}".strip(),
    )


def picture(width: int, height: int, said: str, *drawn: Child) -> Html:
    """Return a complete SVG file in the colours of a page, light or dark."""
    style = resources.files("leaveout.verifier.page").joinpath("chart.css").read_text("utf-8")
    return tag(
        "svg",
        tag("title", said),
        tag("style", Html(style)),
        tag("rect", width=width, height=height, rx=6, class_="paper"),
        drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        class_="plot",
    )


def _text(at: Point, words: str, style: str) -> Html | None:
    return tag("text", words, x=f"{at[0]:.1f}", y=f"{at[1]:.1f}", class_=style) if words else None


def _tick_text(tick: float) -> str:
    return f"{tick:,.0f}" if tick.is_integer() and abs(tick) < 1e7 else plain(tick)
