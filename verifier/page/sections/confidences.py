"""The confidences of a network's answers to given points, against each label's bound."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.amounts import bound, count_noun, percent, plain
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
from leaveout.verifier.page.model import Confidences, Page
from leaveout.verifier.page.plot import (
    Axis,
    Frame,
    bar,
    chart_frame,
    key,
    linear,
    plot,
    stripes,
    vertical_marker,
)
from leaveout.verifier.points.answers import owe_nothing

_BINS = 6  # between two ticks

Counts = NDArray[np.int64]


def histograms(page: Page) -> Html | None:
    """Return a histogram per label; None if no points were given."""
    if not page.confidences:
        return None
    said = (
        f"The points of {page.data}, by the confidence of the network's answer (from its current "
        "file). Above the bound of its label an answer is protected: no member answers "
        "differently, so no single training point can change it. At or below the bound nothing "
        "is claimed, nor about points outside the set of inputs."
    )
    panels = [_panel(page, each) for each in page.confidences]
    without = [tag("p", f"Left out: {each}.") for each in page.left_out]
    return join_children(
        tag("p", said), _overview(page), tag("div", panels, class_="plots"), without
    )


def _overview(page: Page) -> Html:
    labels = any(each.right is not None for each in page.confidences)
    columns = [Column("Label"), Column("Bound", number=True), Column("Points", number=True)]
    columns += [Column("above it", number=True), Column("at or below", number=True)]
    columns += [Column("outside", number=True)]
    columns += [Column("Answered correctly", number=True)] if labels else []
    rows = [_row(page, each, labels) for each in page.confidences]
    return table("Points compared with the bounds", columns, rows)


def _row(page: Page, each: Confidences, labels: bool) -> list[Child]:
    above, below, outside = count_points(each)
    cells: list[Child] = [
        _name(page, each),
        bound(each.upper, up=True),
        f"{len(each.values):,}",
        _share(above, len(each.values)),
        f"{below:,}",
        f"{outside:,}",
    ]
    if labels:
        right = each.right
        cells.append("–" if right is None else _share(int(right.sum()), len(right)))
    return cells


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({percent(round(part / whole, 4))})" if whole else "0"


def _name(page: Page, each: Confidences) -> str:
    name = f"{each.label} ({each.name})" if each.name else str(each.label)
    alike = [
        one
        for one in page.confidences
        if (one.run.number, one.label) == (each.run.number, each.label)
    ]
    network = f", {each.network}" if len(alike) > 1 else ""
    number = page.boxes.get(each.box)
    inputs = f", set {number} of inputs" if len({one.box for one in alike}) > 1 else ""
    return f"{name}{network}{inputs}{f', {each.run.name}' if page.several else ''}"


def count_points(each: Confidences) -> tuple[int, int, int]:
    """Return how many points lie above the bound, at or below it, and outside the box."""
    above = int(np.count_nonzero(owe_nothing(each.values, each.inside, each.upper)))
    inside = int(np.count_nonzero(each.inside))
    return above, inside - above, len(each.values) - inside


def _panel(page: Page, each: Confidences) -> Html:
    head = tag("h3", "Label ", _name(page, each))
    if not len(each.values):
        nothing = tag("p", "The network gives none of the points this label.")
        return tag("figure", tag("figcaption", head, nothing), class_="panel")
    above, below, outside = count_points(each)
    said = (
        f"{above:,} of {count_noun(len(each.values), 'point')} lie above the bound "
        f"{bound(each.upper, up=True)} that ",
        code(each.statement),
        f" gives, {below:,} at or below it, {outside:,} outside the set of inputs.",
    )
    keys = tag("p", [_key(kind, name) for kind, name, _ in _kinds(each)], class_="keys")
    caption = tag("figcaption", head, tag("p", *said))
    return tag("figure", caption, histogram(each), keys, _numbers(each), class_="panel")


def histogram(each: Confidences) -> Html:
    """Return the chart of the points with one label as an SVG element."""
    above, below, _ = count_points(each)
    x, counts = _counts(each)
    frame = chart_frame(x, linear(0.0, float(np.sum(counts, axis=0).max()), "points"))
    return plot(
        frame,
        f"Histogram of confidences: {above:,} points above the bound, {below:,} at or below it. "
        "The numbers are in the table below.",
        _bars(frame, counts, _kinds(each)),
        vertical_marker(frame, each.upper, f"bound {bound(each.upper, up=True)}"),
    )


Kind = tuple[str, str, NDArray[np.bool_]]


def _kinds(each: Confidences) -> list[Kind]:
    """Return the style, name and points of each layer, in stacking order."""
    if each.right is None:
        kinds = [("right", "points", each.inside)]
    else:
        kinds = [
            ("right", "answered correctly", each.inside & each.right),
            ("wrong", "answered incorrectly", each.inside & ~each.right),
        ]
    if not each.inside.all():
        kinds.append(("outside", "outside the set of inputs", ~each.inside))
    return kinds


def _counts(each: Confidences) -> tuple[Axis, list[Counts]]:
    """Return the confidence axis and the bin counts of each layer."""
    x = linear(0.0, max(float(each.values.max()), each.upper), "confidence")
    return x, [np.histogram(each.values[mask], _edges(x))[0] for _, _, mask in _kinds(each)]


def _edges(x: Axis) -> NDArray[np.float64]:
    return np.linspace(x.low, x.high, _BINS * (len(x.ticks) - 1) + 1)


def _bars(frame: Frame, counts: list[Counts], kinds: list[Kind]) -> list[Html]:
    bars, edges = [], _edges(frame.x)
    below = np.zeros(len(edges) - 1, np.int64)
    for (kind, _, _), own in zip(kinds, counts, strict=True):
        for place in np.flatnonzero(own):
            sides = float(edges[place]), float(edges[place + 1])
            ends = float(below[place]), float(below[place] + own[place])
            bars.append(bar(frame, sides, ends, _STYLES[kind], striped=kind == "wrong"))
        below += own
    return bars


_STYLES = {"right": "filled c0", "wrong": "filled c1", "outside": "filled hollow c5"}
"""What differs in colour differs in its pattern too: wrong ones are striped."""


def _key(kind: str, name: str) -> Html:
    box = tag("path", d="M1 1h26v12h-26z", class_=_STYLES[kind])
    return key(name, box, stripes(1, 1, 26, 12) if kind == "wrong" else None)


def _numbers(each: Confidences) -> Html:
    x, counts = _counts(each)
    columns = [Column("From", number=True), Column("to", number=True)]
    columns += [Column(name, number=True) for _, name, _ in _kinds(each)]
    held = [
        (low, high, [int(own[place]) for own in counts])
        for place, (low, high) in enumerate(pairwise(_edges(x)))
    ]
    rows = [[plain(float(low)), plain(float(high)), *map(str, own)] for low, high, own in held]
    title = f"Points of label {each.label} by confidence"
    return collapsible("The numbers", table(title, columns, rows))
