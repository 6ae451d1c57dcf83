"""A network drawn as SVG: operators in layers from the top down, in several columns if many."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from leaveout.verifier.page.markup import Html, tag
from leaveout.verifier.page.plot import Point, picture

if TYPE_CHECKING:
    import networkx as nx

_ROWS = 14  # most rows of a column of a picture, but for a few more where that parts no branches
_SHIFT = 4
_TALL, _GAP = 40.0, 20.0
"""Height of a box, and the space between two."""
_LEAST, _CHARACTER, _ASIDE = 120.0, 6.9, 44.0
"""Least width of a box, width of a character, and the space between two columns."""
_TOP, _MARGIN = 52.0, 24.0
_LONGEST = 30  # most characters of a line in a box
_BENT = {
    *("Abs", "Clip", "GlobalMaxPool", "HardSigmoid", "LeakyRelu", "Max", "MaxPool", "Min", "PRelu"),
    *("ReduceMax", "ReduceMin", "Relu", "Elu", "Gelu", "Sigmoid", "Softplus", "Tanh"),
}


def draw_network(data: nx.DiGraph, title: str) -> Html:
    """Return a picture of the operators that compute with the input, as `data_graph` gives them."""
    rows = _rows(data)
    texts = {name: _texts(data.nodes[name]) for name in data}
    wide = max(
        _LEAST, 16 + _CHARACTER * max(len(line) for lines in texts.values() for line in lines)
    )
    row_of = {name: at for at, names in enumerate(rows) for name in names}
    ends = _breaks(len(rows), [(row_of[a], row_of[b]) for a, b in data.edges])
    places: dict[str, Point] = {}
    starts: dict[str, float] = {}
    left = _MARGIN
    for first, end in pairwise([0, *ends]):
        most = max(map(len, rows[first:end]))
        width = most * wide + (most - 1) * _GAP
        for down, names in enumerate(rows[first:end]):
            start = left + (width - len(names) * wide - (len(names) - 1) * _GAP) / 2
            for along, name in enumerate(names):
                places[name] = start + along * (wide + _GAP), _TOP + down * (_TALL + _GAP)
                starts[name] = left
        left += width + _ASIDE
    edges = []
    for a, b in data.edges:
        between = rows[row_of[a] : row_of[b]]
        clear = max(places[name][0] for names in between for name in names) + wide
        column = starts[b] * (starts[b] > starts[a])
        edges.append(_edge(places[a], places[b], wide, row_of[b] - row_of[a], clear, column))
    boxes = [_box(places[name], wide, data.nodes[name], texts[name]) for name in data]
    return picture(
        math.ceil(max(left - _ASIDE + _MARGIN, 2 * _MARGIN + _CHARACTER * len(title))),
        math.ceil(max(y for _, y in places.values()) + _TALL + _MARGIN),
        title,
        tag("text", title, x=f"{_MARGIN:g}", y=26, class_="name"),
        edges,
        boxes,
    )


def _breaks(rows: int, edges: list[tuple[int, int]]) -> list[int]:
    """Return the rows that end the columns of a picture, where few lines cross."""
    columns = -(-rows // _ROWS)
    crossing = [sum(a < at <= b for a, b in edges) for at in range(rows)]
    found = []
    for each in range(1, columns):
        fair = each * rows // columns
        near = range(max(fair - _SHIFT, 1), min(fair + _SHIFT, rows))
        found.append(min((crossing[at], abs(at - fair), at) for at in near)[2])
    return [*found, rows]


def _rows(data: nx.DiGraph) -> list[list[str]]:
    """Return operators in rows, each below all that it reads, near the middle of those."""
    import networkx as nx

    found: list[list[str]] = []
    share: dict[str, float] = {}
    for names in nx.topological_generations(data):
        near = {
            name: sum(share[each] for each in data.predecessors(name)) / (data.in_degree(name) or 1)
            for name in names
        }
        found.append(sorted(names, key=near.__getitem__))
        share |= {name: (at + 0.5) / len(names) for at, name in enumerate(found[-1])}
    return found


def _texts(node: Mapping[str, Any]) -> tuple[str, str]:
    """Return the two lines of a box."""
    shape = "not computed" if node["shape"] is None else shape_text(node["shape"])
    weights = f", {node['parameters']:,} weights" if node["parameters"] else ""
    return tuple(_cut(line) for line in (node["operator"], shape + weights))  # type: ignore[return-value]


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as readers know it."""
    return " × ".join(map(str, shape)) or "1"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _box(at: Point, wide: float, node: Mapping[str, Any], texts: tuple[str, str]) -> Html:
    """Return a box: blue with weights, orange with kinks, dashed where it is dropped."""
    (x, y), bent = at, node["operator"] in _BENT
    colour = "c0" if node["parameters"] else "c1" if bent else "soft"
    style = f"line thin {colour}{' dashed' if node['kind'] == 'dropped' else ''}"
    size = {"x": f"{x:.1f}", "y": f"{y:.1f}", "width": f"{wide:.1f}", "height": f"{_TALL:g}"}
    middle = f"{x + wide / 2:.1f}"
    return tag(
        "g",
        tag("title", node["name"]),
        tag("rect", **size, rx=5, class_="paper"),
        tag("rect", **size, rx=5, class_=f"between {colour}"),
        tag("rect", **size, rx=5, class_=style),
        tag("text", texts[0], x=middle, y=f"{y + 17:.1f}", class_="name along"),
        tag("text", texts[1], x=middle, y=f"{y + 32:.1f}", class_="along"),
    )


def _edge(start: Point, end: Point, wide: float, rows: int, clear: float, column: float) -> Html:
    """Return a line: to the next row, past others, or over to the column that starts there."""
    (x, y), (u, v) = (start[0] + wide / 2, start[1] + _TALL), (end[0] + wide / 2, end[1])
    a, b, right = start[1] + _TALL / 2, end[1] + _TALL / 2, start[0] + wide
    if column:
        path = _detour(right, a, column - _ASIDE / 2, end[0], b)
    elif rows == 1:
        path = f"M{x:.1f} {y:.1f} C{x:.1f} {y + 12:.1f} {u:.1f} {v - 12:.1f} {u:.1f} {v:.1f}"
    elif abs(x - u) > wide / 2:
        # Down beside the boxes between, then in from the side.
        side = end[0] if x < u else end[0] + wide
        path = f"M{x:.1f} {y:.1f} L{x:.1f} {b - 9:.1f} Q{x:.1f} {b:.1f} {side:.1f} {b:.1f}"
    else:
        path = _detour(right, a, clear + 8 + 2 * min(rows, 6), end[0] + wide, b)
    return tag("path", d=path, class_="line thin soft")


def _detour(x: float, y: float, by: float, u: float, v: float) -> str:
    """Return a path out to the right, up or down, and in again, with round corners."""
    turn, back = 8 if v > y else -8, 8 if u > by else -8
    return (
        f"M{x:.1f} {y:.1f} L{by - 8:.1f} {y:.1f} Q{by:.1f} {y:.1f} {by:.1f} {y + turn:.1f} "
        f"L{by:.1f} {v - turn:.1f} Q{by:.1f} {v:.1f} {by + back:.1f} {v:.1f} L{u:.1f} {v:.1f}"
    )
