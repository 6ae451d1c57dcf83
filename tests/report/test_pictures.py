"""Pictures of the documentation that need no run: whole SVG files, whose points are on them."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import numpy as np
from pictures import contour, gap, hull

SVG = "{http://www.w3.org/2000/svg}"


def drawn(path):
    root = ElementTree.fromstring(path.read_text("utf-8"))
    width, height = int(root.attrib["width"]), int(root.attrib["height"])
    for each in root.iterfind(f"{SVG}path"):
        points = re.findall(r"[ML]([\d.]+) ([\d.]+)", each.attrib["d"])
        assert points
        assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in points)
    return root


def test_the_hull_of_a_pair_is_drawn(tmp_path):
    hull(tmp_path / "hull.svg")
    assert {"du", "dl", "−p", "q"} <= {
        each.text for each in drawn(tmp_path / "hull.svg").iter(f"{SVG}text")
    }


def test_runs_are_drawn_one_beside_the_other_and_say_how_they_ended(tmp_path, snapshot):
    moments = [(0.1, 0.0, 2.0), (1.0, 0.5, 1.0), (60.0, 0.625, 0.75)]
    lines = [
        {"engine": engine, "row": "adult/2x50", "label": label, "members": 500}
        | {"seconds": seconds, "lower": lower, "upper": upper}
        for engine in ("native", "lucid")
        for label in (0, 1)
        for seconds, lower, upper in moments
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    gap(tmp_path / "gap.svg", [tmp_path / "t.jsonl"])
    root = drawn(tmp_path / "gap.svg")
    assert len(root.findall(f"{SVG}svg")) == 2
    words = [each.text for each in root.iterfind(f"{SVG}text")]
    assert words == snapshot
    assert sum("0.625" in each and "0.75" in each for each in words) == 2


def test_a_contour_lies_where_a_function_has_its_level():
    grid = np.add.outer(np.arange(5.0), np.arange(5.0))
    ends = np.array(contour(grid, 2.5)).reshape(-1, 2)
    assert np.allclose(ends.sum(axis=1), 2.5)
