"""Draw the curves of a chart with matplotlib, as SVG that the page's style sheet colours."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from leaveout.verifier.page.errors import PageError
from leaveout.verifier.page.markup import Html, clean
from leaveout.verifier.page.placing import Frame, Labels
from leaveout.verifier.page.series import Chart, Series
from leaveout.verifier.page.vectors import inlined

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MARKERS", "drawn"]

Corners: TypeAlias = npt.NDArray[np.float64]
Size: TypeAlias = tuple[int, int]

MARKERS = ("o", "s", "^", "D", "v", "P")
"""Of the curves of a chart, so that they differ without colours."""

_LEFT, _RIGHT, _BOTTOM, _TOP = 46.0, 14.0, 44.0, 30.0
_MARKED = 7


def drawn(chart: Chart, size: Size, name: str, said: str) -> Html:
    """Return a chart as an SVG element.

    Parameters
    ----------
    chart : Chart
    size : tuple of int
        Width and height, in pixels where it is shown as large as it is drawn.
    name : str
        A word that no other drawing of the page is called by.
    said : str
        What it shows, for those who do not see it.

    Raises
    ------
    PageError
        If matplotlib is not installed.
    """
    with _matplotlib() as make:
        figure = make(figsize=(size[0] / 72, size[1] / 72), dpi=72)
        axes = _axes(figure, chart, size)
        _curves(axes, chart, size)
        stream = io.BytesIO()
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return inlined(stream.getvalue(), name, said)


@contextmanager
def _matplotlib() -> Iterator[type[Figure]]:
    """Give the class of figures, with settings that no file of the user changes."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise PageError(
            "curves are drawn with matplotlib, which is not installed: "
            "pip install 'leaveout[report]'"
        ) from None
    with matplotlib.rc_context(), warnings.catch_warnings():
        # What a font lacks the reader's browser has.
        warnings.simplefilter("ignore")
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.fonttype"] = "none"
        matplotlib.rcParams["svg.hashsalt"] = "leaveout"
        matplotlib.rcParams["text.parse_math"] = False
        matplotlib.rcParams["path.simplify"] = False
        matplotlib.rcParams["font.size"] = 12
        yield Figure


def _axes(figure: Figure, chart: Chart, size: Size) -> Axes:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    width, height = size
    inner = (width - _LEFT - _RIGHT, height - _BOTTOM - _TOP)
    axes = figure.add_axes((_LEFT / width, _BOTTOM / height, inner[0] / width, inner[1] / height))
    figure.patch.set_visible(False)
    axes.patch.set_visible(False)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_gid("axis")
    axes.tick_params(left=False, bottom=False, pad=6)
    axes.set_xlim(*_reach(chart))
    axes.set_ylim(*_heights(chart))
    axes.grid(axis="y", gid="grid")
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(
        MaxNLocator(nbins=max(3, width // 80), integer=True, steps=[1, 2, 5, 10])
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if chart.shares:
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    axes.set_xlabel(clean(f"number of {chart.unit}"), labelpad=6)
    value = f"{chart.value}, %" if chart.shares else chart.value
    axes.text(
        0,
        1 + (_TOP - 14) / inner[1],
        clean(value),
        transform=axes.transAxes,
        ha="left",
        gid="title",
    )
    return axes


def _reach(chart: Chart) -> tuple[float, float]:
    least = min(each.curve.at[0] for each in chart.series)
    return min(0, least), chart.reach + _margin(chart)


def _margin(chart: Chart) -> float:
    """Return how far the axis goes beyond the last place, where the last step is drawn."""
    return max(0.5, chart.reach * 0.03)


def _heights(chart: Chart) -> tuple[float, float]:
    if chart.shares:
        return 0.0, 1.0
    ends = [end for each in chart.series for end in (*each.curve.lower, *each.curve.upper)]
    low, high = min(0.0, *ends), max(0.0, *ends)
    return (low, high + 0.05 * (high - low)) if high > low else (low, low + 1)


def _curves(axes: Axes, chart: Chart, size: Size) -> None:
    """Draw bands first, then the dashed lines, then the curves, so that the surest is in front."""
    from matplotlib.patches import Polygon

    wide = min(1.0, _margin(chart))
    corners = [
        (_corners(each, wide, upper=False), _corners(each, wide, upper=True))
        for each in chart.series
    ]
    for at, (low, high) in enumerate(corners):
        if not chart.series[at].exact:
            axes.add_patch(
                Polygon(np.concatenate((low, high[::-1])), clip_on=False, gid=f"band-{at}")
            )
            axes.plot(*high.T, clip_on=False, gid=f"upper-{at}")
    for at, each in enumerate(chart.series):
        if each.curve.at[0] == 0:
            axes.plot(
                [0, axes.get_xlim()[1]],
                [each.curve.lower[0]] * 2,
                clip_on=False,
                gid=f"clean-{at}",
            )
    for at, (low, _) in enumerate(corners):
        axes.plot(*low.T, clip_on=False, gid=f"line-{at}")
        _mark(axes, chart.series[at], at, len(chart.series))
    _label(axes, chart, corners, size)


def _corners(series: Series, wide: float, upper: bool) -> Corners:
    """Return the corners of a step curve.

    The number at one place holds up to the next. Where places are left out, the lower curve holds
    back to the place before instead: the number falls, so that it is nowhere drawn too high.
    The last step is as wide as there is room for.
    """
    curve = series.curve
    x = np.asarray([*curve.at, curve.at[-1] + (0 if series.gaps else wide)], dtype=float)
    ends = curve.upper if upper else curve.lower
    y = np.asarray([*ends, ends[-1]], dtype=float)
    falls = all(after <= before for before, after in pairwise(ends))
    if series.gaps and not falls:
        return np.column_stack((x, y))
    if series.gaps and not upper:
        return np.column_stack((np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]))
    return np.column_stack((np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]))


def _mark(axes: Axes, series: Series, at: int, count: int) -> None:
    """Put a curve's symbols on it, those of several curves at different places."""
    places = len(series.curve.at)
    every = max(1, places // _MARKED)
    spread = range((at * every // count) % every, places, every)
    chosen = [i for i in spread if i == 0 or series.curve.lower[i] != 0]
    axes.plot(
        [series.curve.at[i] for i in chosen],
        [series.curve.lower[i] for i in chosen],
        linestyle="none",
        marker=MARKERS[at],
        markersize=7,
        clip_on=False,
        gid=f"marks-{at}",
    )


def _label(axes: Axes, chart: Chart, corners: list[tuple[Corners, Corners]], size: Size) -> None:
    """Write what each curve is called beside it, where there is room."""
    frame = Frame(_LEFT, _BOTTOM, size[0] - 2.0, size[1] - _TOP)
    longest = size[0] // 18
    show, end = axes.transData.transform, axes.get_xlim()[1]
    zeros = [each.curve.lower[0] for each in chart.series if each.curve.at[0] == 0]
    dashed = [np.array([(0.0, zero), (end, zero)]) for zero in zeros]
    uppers = [high for _, high in corners]
    lines = [show(low) for low, _ in corners]
    labels = Labels(frame, lines, [show(line) for line in (*dashed, *uppers)])
    for at, each in enumerate(chart.series):
        text = clean(each.label)
        text = text if len(text) <= longest else f"{text[: longest - 1]}…"
        place = labels.place(at, text)
        if place is not None:
            x, y = axes.transData.inverted().transform((place[0], place[1] + 3))
            axes.text(x, y, text, gid=f"label-{at}", va="baseline")
