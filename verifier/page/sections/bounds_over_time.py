"""Bounds over time: how fast the bounds of each result converged."""

from __future__ import annotations

from leaveout.verifier.amounts import bound, duration, plain, span
from leaveout.verifier.page.markup import Html, code, collapsible, join_children, tag
from leaveout.verifier.page.model import Page
from leaveout.verifier.page.plot import Axis, chart_frame, key, linear, logarithmic, plot, staircase
from leaveout.verifier.page.tables import Column, table
from leaveout.verifier.records import TraceRecord
from leaveout.verifier.report import Result

_SOONEST = 1e-3
_LONG = 20.0
"""Ratio of the last moment to the first change above which time is drawn by its logarithm."""

_HIGH = 5.0
"""How many times the last upper bound is still drawn."""


def bound_charts(page: Page) -> Html | None:
    """Return a chart per search; None if no search stored its bounds over time."""
    found = [
        _chart(_chart_title(result, trace, run.name if page.several else ""), trace)
        for run in page.runs
        for statement in run.statements
        for result in statement.results
        for trace in result.traces
    ]
    if not found:
        return None
    said = (
        "A search bounds the number from both sides and may stop at any moment: what it knows then "
        "holds. Between the lines lies what is not known yet."
    )
    return join_children(tag("p", said), tag("div", found, class_="plots"))


def _chart_title(result: Result, trace: TraceRecord, file: str) -> Html:
    """Return the title of a chart: its result, label and file."""
    where = f" ({file})" if file else ""
    label = "" if trace.label is None else f", label {result.name_label(trace.label)}"
    return join_children(code(result.name), f"{label}{where}")


def course(trace: TraceRecord) -> Html:
    """Return the chart of a search as an SVG element."""
    x, y = _axes(trace)
    frame = chart_frame(x, y)
    times = [max(each, x.low) for each in trace.seconds]
    lower, upper = staircase(times, trace.lower), staircase(times, trace.upper)
    return plot(
        frame,
        f"Bounds over time: {_end(trace)}. The numbers are in the table below.",
        tag("path", d=frame.path([*lower, *reversed(upper)], closed=True), class_="between c0"),
        tag("path", d=frame.path(upper), class_="line c0"),
        tag("path", d=frame.path(lower), class_="line dashed c1"),
    )


def _chart(name: Html, trace: TraceRecord) -> Html:
    end = _end(trace)
    said = tag("p", f"{end[:1].upper()}{end[1:]}.", _above(trace, _axes(trace)[1]))
    caption = tag("figcaption", tag("h3", name), said)
    return tag("figure", caption, course(trace), _key(), _numbers(trace), class_="panel")


def _end(trace: TraceRecord) -> str:
    """Describe the final bounds."""
    return f"after {duration(trace.seconds[-1])}: {span(trace.lower[-1], trace.upper[-1])}"


def _axes(trace: TraceRecord) -> tuple[Axis, Axis]:
    """Return axes of time and of bounds."""
    first, last = max(trace.seconds[1], _SOONEST), trace.seconds[-1]
    if last / first > _LONG:
        x = logarithmic(first, last, "seconds")
    else:
        x = linear(0.0, max(last, first), "seconds")
    high = max(trace.lower[-1], trace.upper[-1])
    least = min(0.0, *trace.lower)
    top = min(max(trace.upper), _HIGH * high) if high > 0 else max(trace.upper)
    return x, linear(least, max(top, least), "value" if trace.label is None else "confidence")


def _above(trace: TraceRecord, y: Axis) -> str | None:
    most = max(trace.upper)
    if most <= y.high:
        return None
    return f" The upper bound starts at {bound(most, up=True)}, beyond the chart."


def _key() -> Html:
    keys = [
        key(name, tag("path", d="M0 7h28", class_=kind))
        for kind, name in (("line c0", "upper"), ("line dashed c1", "lower"))
    ]
    return tag("p", keys, class_="keys")


def _numbers(trace: TraceRecord) -> Html:
    columns = [Column(title, number=True) for title in ("Seconds", "Lower", "Upper")]
    rows = [
        [plain(round(seconds, 3)), bound(lower), bound(upper, up=True)]
        for seconds, lower, upper in zip(trace.seconds, trace.lower, trace.upper, strict=True)
    ]
    of = "" if trace.label is None else f" of label {trace.label}"
    title = f"Bounds{of} over time"
    return collapsible("The numbers", table(title, columns, rows))
