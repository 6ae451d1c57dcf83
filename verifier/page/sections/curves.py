"""Curves of what is certified against how much of the training set changes."""

from __future__ import annotations

from leaveout.verifier.amounts import percent, plain
from leaveout.verifier.page.drawing import curve, draw_chart
from leaveout.verifier.page.markup import Child, Html, code, collapsible, join_children, tag
from leaveout.verifier.page.model import Page
from leaveout.verifier.page.plot import key
from leaveout.verifier.page.series import Chart, Series, charts
from leaveout.verifier.page.tables import Column, table

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
    """Return the text alternative of a chart."""
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
    """Return notes on how to read a chart."""
    said = [f"Higher and further right is better: how much is left after so many {chart.unit}."]
    if not chart.shares:
        said = []
    if any(not each.exact for each in chart.series):
        said.append("A band shows what is not known: the true curve lies in it.")
    if any(each.curve.at[0] == 0 for each in chart.series):
        said.append("Dashed: the value at 0, where nothing changes.")
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
