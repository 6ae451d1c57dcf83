"""Curves of what is certified against how much of the training set changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leaveout.verifier.amounts import bound, count_noun, duration, percent, plain, span
from leaveout.verifier.page.charts import Chart, Series, charts, curve, draw_chart
from leaveout.verifier.page.markup import (
    Child,
    Column,
    Html,
    code,
    collapsible,
    join_children,
    table,
    tag,
)
from leaveout.verifier.page.model import Page
from leaveout.verifier.page.plot import Axis, chart_frame, key, linear, logarithmic, plot, staircase
from leaveout.verifier.records import GroupRecord, GroupsRecord, TraceRecord
from leaveout.verifier.report import Result

_SIZES = {"wide": (760, 400), "slim": (310, 300)}
_HALF = 0.5


def curves(page: Page) -> Html | None:
    """Return the charts; None if there is nothing to draw."""
    found = charts(page)
    return join_children(_figure(chart) for chart in found) if found else None


def _figure(chart: Chart) -> Html:
    said = _chart_description(chart)
    pictures = [draw_chart(chart, size, said, style) for style, size in _SIZES.items()]
    caption = tag("figcaption", tag("h3", chart.title), tag("p", _reading_notes(chart)))
    return tag("figure", caption, pictures, _legend(chart), _data(chart), class_="chart")


def _chart_description(chart: Chart) -> str:
    count = len(chart.series)
    names = ", ".join(each.label for each in chart.series)
    ends = "; ".join(
        f"{each.label} goes from {_ends(chart, each, 0)} at {each.curve.at[0]:,} to "
        f"{_ends(chart, each, -1)} at {each.curve.at[-1]:,}"
        for each in chart.series
    )
    curves = "one curve" if count == 1 else f"{count} curves"
    return f"{chart.title}, {curves}: {names}. {ends}. The numbers are in the table below."


def _reading_notes(chart: Chart) -> list[str]:
    said = [
        "Higher and further right is better: the curve shows how much is left after that "
        f"many {chart.unit}."
    ]
    if not chart.shares:
        said = []
    if any(not each.exact for each in chart.series):
        said.append("The true curve lies within the band.")
    if any(each.curve.at[0] == 0 for each in chart.series):
        said.append("Dashed: the value at 0, with no change.")
    if any(each.gaps for each in chart.series):
        said.append("Not every whole number was computed.")
    return [" ".join(said)]


def _legend(chart: Chart) -> Html:
    columns: list[Column] = [Column("Curve"), Column("At 0", number=True)]
    if chart.shares:
        columns.append(Column(f"Half are certified up to ({chart.unit})", number=True))
    columns.append(Column("Statements"))
    rows = [_legend_row(chart, each, at) for at, each in enumerate(chart.series)]
    return table(f"Legend of {chart.title}", columns, rows)


def _legend_row(chart: Chart, each: Series, at: int) -> list[Child]:
    zero = _ends(chart, each, 0) if each.curve.at[0] == 0 else "–"
    cells: list[Child] = [key(code(each.label), curve(at, "M0 7h28", [(14, 7)])), zero]
    if chart.shares:
        cells.append(_half(each))
    cells.append(each.sources)
    return cells


def _half(each: Series) -> str:
    """Return the largest place where at least half is left; the numbers only fall."""
    lower, upper = (
        max((at for at, end in zip(each.curve.at, ends, strict=True) if end >= _HALF), default=None)
        for ends in (each.curve.lower, each.curve.upper)
    )
    if lower is None:
        return "not even 0" if each.curve.at[0] == 0 and upper is None else "not known"
    return f"{lower:,}" if lower == upper and not each.gaps else f"at least {lower:,}"


def _data(chart: Chart) -> Html:
    places = sorted({at for each in chart.series for at in each.curve.at})
    known = [{at: i for i, at in enumerate(each.curve.at)} for each in chart.series]
    rows = [
        [
            f"{at:,}",
            *(
                _ends(chart, each, index[at]) if at in index else "–"
                for each, index in zip(chart.series, known, strict=True)
            ),
        ]
        for at in places
    ]
    columns = [Column(chart.unit.capitalize(), number=True)]
    columns += [Column(code(each.label), number=True) for each in chart.series]
    return collapsible("The numbers", table(f"{chart.title}, in numbers", columns, rows))


def _ends(chart: Chart, each: Series, at: int) -> str:
    low, high = each.curve.lower[at], each.curve.upper[at]
    show = percent if chart.shares else plain
    return show(low) if show(low) == show(high) else f"{show(low)} to {show(high)}"


_SOONEST = 1e-3
_LONG = 20.0
"""Ratio of the last moment to the first change above which time is drawn by its logarithm."""

_HIGH = 5.0  # how many times the last upper bound is still drawn


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
        "A search bounds the number from both sides and may stop at any time; its bounds then "
        "hold. The true value lies between the lines."
    )
    return join_children(tag("p", said), tag("div", found, class_="plots"))


def _chart_title(result: Result, trace: TraceRecord | GroupsRecord, file: str) -> Html:
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


_FEW = 6  # rows that are named


def groups(page: Page) -> Html | None:
    """Return a tree per search; None if no search stored one."""
    found = [
        _tree(_chart_title(result, tree, run.name if page.several else ""), tree)
        for run in page.runs
        for statement in run.statements
        for result in statement.results
        for tree in result.groups
        if tree.groups
    ]
    if not found:
        return None
    said = (
        "Members with similar networks form a group. Groups that may contain the worst leak or "
        "counter-example are split further, within a small tree. A bar shows the worst possible "
        "case of any member of a group; groups that may contain the worst one are coloured."
    )
    return join_children(tag("p", said), tag("div", found, class_="plots"))


@dataclass(frozen=True)
class _Scale:
    """The scale on which the bounds of groups are shown."""

    tree: GroupsRecord

    def badness(self, group: GroupRecord) -> float:
        """Return a number that grows with how bad a group may be."""
        return -group.upper if self.tree.about == "greatest" else group.upper

    @property
    def most(self) -> float:
        """The badness of all members together."""
        return self.badness(self.tree.groups[0])

    def bound_text(self, badness: float) -> str:
        """Return a bound rounded to the side that keeps it true."""
        if self.tree.about == "greatest":
            return bound(-badness, up=False)
        return bound(badness, up=True)

    def reaches(self, group: GroupRecord) -> bool:
        """Return whether a group's displayed bound equals the worst one."""
        return self.bound_text(self.badness(group)) == self.bound_text(self.most)

    def width(self, group: GroupRecord) -> str:
        """Return the length of a bar, from 0 or from the best group if that is below."""
        least = min(0.0, *(self.badness(each) for each in self.tree.groups))
        whole = self.most - least
        return f"{100 * (self.badness(group) - least) / whole:.1f}" if whole > 0 else "0"


def _tree(name: Html, tree: GroupsRecord) -> Html:
    scale = _Scale(tree)
    parts: dict[int, list[int]] = {}
    for at in sorted(range(len(tree.groups)), key=lambda at: (-scale.badness(tree.groups[at]), at)):
        parts.setdefault(tree.groups[at].parent, []).append(at)

    def item(at: int) -> Html:
        group = tree.groups[at]
        inner = [item(part) for part in parts.get(at, [])]
        return tag(
            "li",
            _group(group, scale, leaf=not inner),
            tag("ul", inner) if inner else None,
            class_="top" if scale.reaches(group) else None,
        )

    head = tag("h3", name)
    return tag(
        "figure",
        tag("figcaption", head, tag("p", _summary(scale))),
        tag("ul", [item(at) for at in parts.get(-1, [])], class_="tree"),
        class_="panel",
    )


_CAN: Final = {
    "leaks": ("have a leak of up to", "above"),
    "least": ("reach", "above"),
    "greatest": ("go down to", "below"),
}


def _summary(scale: _Scale) -> str:
    """Return how many members could reach the bound, as far as the groups show."""
    tree = scale.tree
    may, beyond = _CAN[tree.about]
    whole = tree.groups[0].members
    inner = {group.parent for group in tree.groups}
    leaves = [group for at, group in enumerate(tree.groups) if at not in inner]
    high = [group for group in leaves if scale.reaches(group)]
    many = sum(group.members for group in high)
    rest = max((scale.badness(group) for group in leaves if not scale.reaches(group)), default=None)
    if rest is None or many == whole:
        return f"Any of {count_noun(whole, 'member')} may {may} {scale.bound_text(scale.most)}."
    rows = sorted(row for group in high for row in _named_rows(group))
    named = f" ({_rows(rows)})" if len(rows) == many and many <= _FEW else ""
    return (
        f"{count_noun(many, 'member')} of {whole:,}{named} may {may} "
        f"{scale.bound_text(scale.most)}, no other member {beyond} {scale.bound_text(rest)}."
    )


def _group(group: GroupRecord, scale: _Scale, leaf: bool) -> Html:
    bar = tag(
        "svg",
        tag("rect", width=f"{scale.width(group)}%", height=10, class_="filled"),
        class_="bar",
        aria_hidden="true",
    )
    told = count_noun(group.members, "member")
    listed = leaf and len(group.rows) == group.members <= _FEW
    if listed:
        told = _rows(_named_rows(group))
    least = scale.tree.about == "greatest"
    said = "worst leak" if scale.tree.about == "leaks" else "worst found"
    worst = tag("span", said, class_="mark") if group.leak and leaf else None
    # What a screen reader needs where the eye sees a bar.
    unseen = tag("span", "at least " if least else "at most ", class_="unseen")
    return tag(
        "div",
        tag("span", told, " ", worst, class_="who"),
        bar,
        tag("span", unseen, scale.bound_text(scale.badness(group)), class_="most"),
        class_="group",
    )


def _named_rows(group: GroupRecord) -> list[tuple[int, str]]:
    """Return the listed rows with their names, empty where unnamed."""
    names = group.ids if len(group.ids) == len(group.rows) else ("",) * len(group.rows)
    return list(zip(group.rows, names, strict=True))


def _rows(rows: list[tuple[int, str]]) -> str:
    told = ", ".join(f"{row} ({name})" if name else str(row) for row, name in rows)
    return f"row{'s' * (len(rows) != 1)} {told}"
