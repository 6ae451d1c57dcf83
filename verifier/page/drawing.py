"""The curves of a chart: bands, steps, markers and labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from leaveout.verifier.page.markup import Child, Html, join_children, tag
from leaveout.verifier.page.placing import baseline, places
from leaveout.verifier.page.plot import (
    Axis,
    Frame,
    chart_frame,
    linear,
    plot,
    round_ticks,
    staircase,
)
from leaveout.verifier.page.series import Chart, Series

Corners = list[tuple[float, float]]

_SYMBOLS = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "m-3.5-3.5h7v7h-7z",
    "m0-4.5l4.2 8h-8.4z",
    "m0-5l5 5l-5 5l-5-5z",
    "m0 4.5l4.2-8h-8.4z",
    "m-1.6-4.6h3.2v3h3v3.2h-3v3h-3.2v-3h-3v-3.2h3z",
)
"""Of the curves of a chart, so that they differ without colours."""

_MARKED = 7
_TICK = 80
_LETTER = 18


def curve(at: int, line: str, marks: Sequence[tuple[float, float]]) -> Html:
    """Return a curve with its markers."""
    symbols = "".join(f"M{x:.1f} {y:.1f}{_SYMBOLS[at]}" for x, y in marks)
    return join_children(
        tag("path", d=line, class_=f"line c{at}"), tag("path", d=symbols, class_=f"marks c{at}")
    )


def draw_chart(chart: Chart, size: tuple[int, int], said: str, style: str) -> Html:
    """Return a chart as an SVG element."""
    margin = max(0.5, chart.reach * 0.03)
    frame = chart_frame(_along(chart, margin, size[0] // _TICK), _heights(chart), size)
    scale = 100 if chart.shares else 1
    lower, upper = (
        [
            [(x, scale * y) for x, y in _corners(each, min(1.0, margin), upper=which)]
            for each in chart.series
        ]
        for which in (False, True)
    )
    zeros = {
        at: [(0.0, scale * each.curve.lower[0]), (frame.x.high, scale * each.curve.lower[0])]
        for at, each in enumerate(chart.series)
        if each.curve.at[0] == 0
    }
    # Bands first, then the dashed lines, then the curves, so that the surest is in front.
    parts: list[Child] = []
    for at, each in enumerate(chart.series):
        if not each.exact:
            band = frame.path([*lower[at], *upper[at][::-1]], closed=True)
            parts.append(tag("path", d=band, class_=f"between c{at}"))
            parts.append(tag("path", d=frame.path(upper[at]), class_=f"line thin c{at}"))
    for at, zero in zeros.items():
        parts.append(tag("path", d=frame.path(zero), class_=f"line thin dashed c{at}"))
    for at, each in enumerate(chart.series):
        marks = [frame.at(x, scale * y) for x, y in _marker_places(each, at, len(chart.series))]
        parts.append(curve(at, frame.path(lower[at]), marks))
    parts.append(_labels(chart, frame, lower, [*zeros.values(), *upper]))
    return plot(frame, said, parts, style=style)


def _along(chart: Chart, margin: float, about: int) -> Axis:
    """Return the x axis, extended past the last place to draw the last step."""
    low, high = float(min(0, *(each.curve.at[0] for each in chart.series))), chart.reach + margin
    ticks = [
        each for each in round_ticks(low, high, max(3, about), whole=True) if low <= each <= high
    ]
    return Axis(low, high, tuple(ticks), f"number of {chart.unit}")


def _heights(chart: Chart) -> Axis:
    if chart.shares:
        return Axis(0.0, 100.0, (0.0, 25.0, 50.0, 75.0, 100.0), f"{chart.value}, %")
    ends = [end for each in chart.series for end in (*each.curve.lower, *each.curve.upper)]
    return linear(min(0.0, *ends), max(0.0, *ends), chart.value)


def _corners(series: Series, wide: float, upper: bool) -> Corners:
    """Return the corners of a step curve, which never overstates a value.

    A value holds up to the next place; where places are missing, the lower curve holds back to the
    previous place, because the values fall.
    """
    at, ends = series.curve.at, series.curve.upper if upper else series.curve.lower
    if not series.gaps:
        return staircase([*at, at[-1] + wide], [*ends, ends[-1]])
    if any(after > before for before, after in pairwise(ends)):
        return list(zip(at, ends, strict=True))
    return staircase(at, ends, back=not upper)


def _marker_places(series: Series, at: int, count: int) -> Corners:
    """Return the places of a curve's markers, staggered between curves."""
    places = len(series.curve.at)
    every = max(1, places // _MARKED)
    points = list(zip(series.curve.at, series.curve.lower, strict=True))
    spread = points[(at * every // count) % every :: every]
    return [point for point in spread if point == points[0] or point[1] != 0]


def _labels(chart: Chart, frame: Frame, lines: list[Corners], others: list[Corners]) -> list[Html]:
    """Return the curve labels that fit beside their curves."""
    area = (frame.left, frame.top, frame.right + 10, frame.bottom)
    longest = int(area[2]) // _LETTER
    names = [each.label for each in chart.series]
    names = [name if len(name) <= longest else f"{name[: longest - 1]}…" for name in names]
    shown, rest = (
        [np.array([frame.at(*each) for each in line]) for line in group]
        for group in (lines, others)
    )
    labels = []
    for at, (name, box) in enumerate(zip(names, places(area, names, shown, rest), strict=True)):
        if box is not None:
            x, y = baseline(box)
            labels.append(tag("text", name, x=f"{x:.1f}", y=f"{y:.1f}", class_=f"label c{at}"))
    return labels
