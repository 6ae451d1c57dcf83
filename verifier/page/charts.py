"""The curves of a chart: bands, steps, markers and labels."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from leaveout.specs import Call, Compare, Confident, Find, ForAll, Function, Implies, Number
from leaveout.specs.deciders import Curve
from leaveout.specs.text.expressions import walk
from leaveout.verifier.amounts import bound, plain, same, span
from leaveout.verifier.page.markup import Child, Html, join_children, tag
from leaveout.verifier.page.model import Page, Statement
from leaveout.verifier.page.plot import (
    Axis,
    Frame,
    chart_frame,
    linear,
    plot,
    round_ticks,
    staircase,
)
from leaveout.verifier.report import Result

MOST = 6
"""Of curves that one chart holds; more could not be told apart."""


@dataclass(frozen=True)
class Series:
    """A curve of a chart."""

    label: str  # what the chart calls it; of a chart's curves no two are called the same
    curve: Curve
    sources: str  # the statements it is of, and of several files theirs

    @property
    def exact(self) -> bool:
        """Whether the bounds agree everywhere."""
        return self.curve.lower == self.curve.upper

    @property
    def gaps(self) -> bool:
        """Whether places between the first and the last are missing."""
        at = self.curve.at
        return at[-1] - at[0] + 1 != len(at)


@dataclass(frozen=True)
class _Sources:
    """The files and statements of a curve, and their names for its subject."""

    names: dict[tuple[str, str], None] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Chart:
    """Curves that share axes."""

    value: str  # what the curves are of, and against what
    unit: str  # what the curves are of, and against what
    series: tuple[Series, ...]  # at most `MOST`
    part: int  # which of several charts with the same axes it is, from 1
    parts: int  # which of several charts with the same axes it is, from 1
    reach: int  # the largest place of all these charts

    @property
    def shares(self) -> bool:
        """Whether the numbers are shares, shown in per cent."""
        ends = (end for each in self.series for end in (*each.curve.lower, *each.curve.upper))
        return "accuracy" in self.value and all(0 <= end <= 1 for end in ends)

    @property
    def title(self) -> str:
        """The title: what the chart shows."""
        which = f" ({self.part} of {self.parts})" if self.parts > 1 else ""
        return f"{self.value[:1].upper()}{self.value[1:]} against {self.unit}{which}"


def charts(page: Page) -> tuple[Chart, ...]:
    """Return the charts of a page: curves with equal value and unit, each once."""
    groups: dict[tuple[str, str], dict[Curve, _Sources]] = defaultdict(dict)
    for run in page.runs:
        for statement in run.statements:
            name = (run.name if page.several else "", statement.name)
            for curve in (curve for result in statement.results for curve in result.curves):
                if curve.at:
                    kept = groups[curve.value, curve.unit].setdefault(curve, _Sources())
                    kept.names[name] = None
                    kept.calls.add(_call(statement, curve.name))
    return tuple(
        chart
        for (value, unit), curves in groups.items()
        for chart in _charts(value, unit, tuple(_name_curves(curves)))
    )


def _call(statement: Statement, function: str) -> str:
    """Return the only call of a function in a statement; empty if not exactly one."""
    if statement.written is None:
        return ""
    nodes = walk(statement.written.statement, *statement.written.definitions)
    calls = {str(each) for each in nodes if isinstance(each, Call) and each.function == function}
    return calls.pop() if len(calls) == 1 else ""


def _charts(value: str, unit: str, series: tuple[Series, ...]) -> Iterable[Chart]:
    reach = max(each.curve.at[-1] for each in series)
    parts = -(-len(series) // MOST)
    for part in range(parts):
        yield Chart(value, unit, series[part * MOST :][:MOST], part + 1, parts, reach)


def _name_curves(curves: dict[Curve, _Sources]) -> Iterable[Series]:
    """Yield curves; those of one name are told apart by file, call or statement."""
    labels: dict[Curve, str] = {}
    for name in dict.fromkeys(curve.name for curve in curves):
        alike = [curve for curve in curves if curve.name == name]
        labels |= zip(alike, _distinct_names(name, [curves[curve] for curve in alike]), strict=True)
    for curve, sources in curves.items():
        yield Series(labels[curve], curve, _join_statements(sources.names))


def _distinct_names(name: str, sources: list[_Sources]) -> list[str]:
    if len(sources) == 1:
        return [name]
    calls = [next(iter(each.calls)) if len(each.calls) == 1 else "" for each in sources]
    calls = [call or name for call in calls]
    files = [_files(each.names) for each in sources]
    tried = [
        [f"{name}, {file}" for file in files],
        calls,
        [f"{call}, {file}" for call, file in zip(calls, files, strict=True)],
        [f"{name}, {_join_statements(list(each.names)[:1])}" for each in sources],
    ]
    # Files are named if there are several: which file a curve is of is then asked first.
    tried = tried if all(files) else [tried[1], tried[3]]
    best = next((each for each in tried if len(set(each)) == len(each)), tried[-1])
    taken: Counter[str] = Counter()
    labels = []
    for label in best:
        taken[label] += 1
        labels.append(label if taken[label] == 1 else f"{label} {taken[label]}")
    return labels


def _files(names: Iterable[tuple[str, str]]) -> str:
    """Return the files of some statements; empty if there is only one."""
    return " and ".join(dict.fromkeys(file for file, _ in names if file))


def _join_statements(names: Iterable[tuple[str, str]]) -> str:
    """Return statement names grouped by file, in words."""
    files: dict[str, list[str]] = defaultdict(list)
    for file, name in names:
        files[file].append(name)
    return "; ".join(
        f"{file}: {', '.join(each)}" if file else ", ".join(each) for file, each in files.items()
    )


CornerArray = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]

_CHARACTER = 7.4
_HEIGHT = 15.0
_DESCENT = 3.0
_AWAY = 5.0
_TRIED = 80
_OFF = 14.0
_BELOW = 40.0
"""How much nearer to the middle a place below a line must be to be taken before one above."""


def places(
    area: Box,
    texts: Sequence[str],
    lines: Sequence[CornerArray],
    others: Sequence[CornerArray] = (),
) -> list[Box | None]:
    """Place labels one by one, away from lines and from each other."""
    taken = np.concatenate([_boxes(line) for line in (*lines, *others)])
    found: list[Box | None] = []
    for text, line in zip(texts, lines, strict=True):
        box = next(
            (each for each in _candidate_boxes(area, text, line) if _free(each, area, taken)), None
        )
        found.append(box)
        if box is not None:
            taken = np.concatenate((taken, [box]))
    return found


def baseline(box: Box) -> tuple[float, float]:
    """Return the point where a label's text starts."""
    return box[0], box[3] - _DESCENT


def _boxes(line: CornerArray) -> CornerArray:
    return np.column_stack(
        (np.minimum(line[:-1], line[1:]) - 1.5, np.maximum(line[:-1], line[1:]) + 1.5)
    )


def _candidate_boxes(area: Box, text: str, line: CornerArray) -> Iterator[Box]:
    """Yield places along a line, best first: above to the right, then below."""
    _, top, _, bottom = area
    lengths = np.linalg.norm(np.diff(line, axis=0), axis=1)
    gone = np.concatenate(([0.0], np.cumsum(lengths)))
    # As far from each other as the eye follows the line.
    wanted = np.linspace(0.0, gone[-1], _TRIED)
    along = zip(*(np.interp(wanted, gone, line[:, axis]).tolist() for axis in (0, 1)), strict=True)
    tried = [
        (abs(y - (top + bottom) / 2) + (_BELOW if below else 0.0), x + _AWAY, low)
        for x, y in along
        # Along the edges several lines may run together.
        if top + _OFF < y < bottom - _OFF
        for below, low in ((False, y - _AWAY), (True, y + _AWAY + _HEIGHT))
    ]
    for _, x, low in sorted(tried):
        yield x, low - _HEIGHT, x + _CHARACTER * len(text), low


def _free(box: Box, area: Box, taken: CornerArray) -> bool:
    if box[0] < area[0] or box[1] < area[1] or box[2] > area[2] or box[3] > area[3]:
        return False
    across = (taken[:, 0] < box[2]) & (taken[:, 2] > box[0])
    return not np.any(across & (taken[:, 1] < box[3]) & (taken[:, 3] > box[1]))


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
    """Return a step curve's corners; over gaps the lower curve holds back, for values fall."""
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


_INSET = 1.0


def ranges(statement: Statement, table: Mapping[str, Function]) -> Html | None:
    """Return the chart of a statement; None if one number in a sentence says as much."""
    rows = [
        result
        for result in statement.results
        if result.lower is not None or result.upper is not None
    ]
    asked = _threshold(statement)
    if not rows or (len(rows) == 1 and asked is None and _exact(rows[0])):
        return None
    ends = [end for row in rows for end in (row.lower, row.upper) if end is not None]
    # A bar without an upper end needs room to show that.
    ends += [1.5 * row.lower for row in rows if row.lower is not None and row.upper is None]
    axis = _axis([*ends, *([] if asked is None else [asked])], _shares(statement, table))
    names = "Lower and upper bound"
    if statement.kind == "find" and len(rows) > 1:
        names += " for each label"
    return tag(
        "figure",
        tag("figcaption", names, *_legend(asked)),
        tag(
            "div",
            [_row(row, axis, asked) for row in rows],
            tag("div", tag("span"), _ticks(axis), tag("span"), class_="row"),
            class_="ranges",
        ),
        class_="range",
    )


def _axis(values: list[float], shares: bool) -> Axis:
    """Return an axis for some numbers that includes 0; shares of a whole end at 1."""
    low, high = min(0.0, *values), max(0.0, *values)
    if shares and low >= 0 and high <= 1:
        return Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))
    return linear(low, high, about=4)


def _place(axis: Axis, value: float) -> str:
    """Return the position of a number in per cent of the drawn width."""
    return f"{_INSET + axis.share(value) * (100 - 2 * _INSET):.3f}%"


def _row(result: Result, axis: Axis, asked: float | None) -> Html:
    name = "" if result.label is None else f"label {result.label_text}"
    said = span(*result.claimed_bounds)
    lower = axis.low if result.lower is None else result.lower
    upper = axis.high if result.upper is None else result.upper
    at, to = _place(axis, lower), _place(axis, upper)
    lines = [
        tag("line", x1="1%", x2="99%", y1="50%", y2="50%", class_="track"),
        tag("line", x1=at, x2=to, y1="50%", y2="50%", class_="bar"),
    ]
    if result.lower is not None:
        lines.append(tag("line", x1=at, x2=at, y1=5, y2=23, class_="end"))
    if result.upper is not None:
        lines.append(tag("line", x1=to, x2=to, y1=5, y2=23, class_="end"))
    if asked is not None:
        place = _place(axis, asked)
        lines.append(tag("line", x1=place, x2=place, y1=0, y2=28, class_="asked"))
    return tag(
        "div",
        tag("span", name, class_="name"),
        tag(
            "svg",
            lines,
            class_=result.verdict,
            role="img",
            aria_label=f"{name}: {said}".removeprefix(": "),
        ),
        tag("span", said, class_="value"),
        class_="row",
    )


def _ticks(axis: Axis) -> Html:
    last = len(axis.ticks) - 1
    texts = [
        tag(
            "text",
            plain(value),
            x=_place(axis, value),
            y=11,
            class_="first" if at == 0 else "last" if at == last else None,
        )
        for at, value in enumerate(axis.ticks)
    ]
    return tag("svg", texts, class_="ticks", aria_hidden="true")


def _legend(asked: float | None) -> list[str]:
    return [] if asked is None else [f"; the dashed line is the requested value, {plain(asked)}"]


def _exact(result: Result) -> bool:
    if result.lower is None or result.upper is None:
        return False
    agree = bound(result.lower) == bound(result.upper, up=True)
    return agree or same(result.lower, result.upper)


def _comparison(statement: Statement) -> tuple[Call, float | None] | None:
    """Return the call a claim compares and the number it is compared with."""
    if statement.written is None:
        return None
    claim = statement.written.statement.claim
    claim = claim.claim if isinstance(claim, Confident) else claim
    if not isinstance(claim, Compare):
        return None
    for value, other in ((claim.left, claim.right), (claim.right, claim.left)):
        if isinstance(value, Call):
            return value, other.value if isinstance(other, Number) else None
    return None


def _threshold(statement: Statement) -> float | None:
    """Return the number that a guarantee's bounds are to be compared with."""
    if statement.written is None or statement.kind == "find":
        return None
    claim = statement.written.statement.claim
    match claim:
        # Bounds of a guarantee over points are those of a leak's confidence.
        case ForAll(_, Implies(Compare(Call("confidence"), ">" | ">=", Number(value)), _)):
            return value
    found = _comparison(statement)
    return None if found is None else found[1]


def _shares(statement: Statement, table: Mapping[str, Function]) -> bool:
    found = _comparison(statement)
    if found is None or not (found[0].function in table and table[found[0].function].share):
        return False
    # A find may ask for how many changes there are, which is no share.
    wanted = statement.written.statement if statement.written is not None else None
    return not isinstance(wanted, Find) or found[1] is None
