"""Axes hold what lies on them, and what is drawn there lies where it should."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.verifier.page.plot import (
    Axis,
    axes,
    bar,
    chart_frame,
    linear,
    logarithmic,
    picture,
    plot,
    round_ticks,
    staircase,
    vertical_marker,
)

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SMALL = st.floats(-1e9, 1e9)


@given(st.lists(FLOATS, min_size=1, max_size=5), st.sampled_from([4, 5]))
def test_an_axis_holds_every_number_between_its_ends(values, about):
    axis = linear(min(0.0, *values), max(0.0, *values), about=about)
    assert axis.low < axis.high
    assert len(axis.ticks) <= about + 3
    assert all(0 <= axis.share(value) <= 1 for value in values)


@given(st.floats(-1e9, 0), st.floats(1e-9, 1e9))
def test_ticks_are_round_and_equally_far(low, high):
    ticks = round_ticks(low, high)
    assert ticks[0] <= low + 1e-6 * (high - low)
    assert ticks[-1] >= high - 1e-6 * (high - low)
    steps = {float(f"{after - before:.3g}") for before, after in pairwise(ticks)}
    assert all(f"{step:e}"[0] in "125" for step in steps)


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(3, 9))
def test_ticks_may_be_whole(low, span, about):
    ticks = round_ticks(low, low + span, about, whole=True)
    assert all(tick.is_integer() for tick in ticks)
    assert len(set(ticks)) == len(ticks) <= about + 3


@given(st.floats(1e-12, 1e12), st.floats(1.0, 1e9))
def test_equal_ratios_are_equally_far(low, ratio):
    axis = logarithmic(low, low * ratio)
    ends = (axis.low, axis.high)
    assert axis.low <= low * (1 + 1e-9)
    assert axis.high >= low * ratio * (1 - 1e-9)
    assert axis.share(math.sqrt(ends[0] * ends[1])) == pytest.approx(0.5)
    assert axis.share(0.0) == 0
    assert 2 <= len(axis.ticks) <= 7


@given(st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=9))
def test_nothing_is_drawn_beyond_the_axes(points):
    frame = chart_frame(linear(0.0, 10.0), linear(-1.0, 1.0))
    for x, y in (frame.at(*each) for each in points):
        assert frame.left <= x <= frame.right
        assert frame.top <= y <= frame.bottom


def test_a_staircase_holds_each_value_up_to_the_next_place_or_back_to_the_one_before():
    assert staircase([0, 2], [5, 3]) == [(0, 5), (2, 5), (2, 3)]
    assert staircase([0, 2], [5, 3], back=True) == [(0, 5), (0, 3), (2, 3)]


def test_what_stands_beside_an_axis_has_room():
    few, many = (chart_frame(linear(0.0, 1.0), linear(0.0, top)).left for top in (100.0, 900_000.0))
    assert few < many
    frame = chart_frame(linear(0.0, 1.0), Axis(0.0, 1e7, (2e4, 1e6, 1e7)))
    ticks = re.findall(r">([^<]+)</text>", axes(frame))
    assert {"20,000", "1,000,000", "1e+07"} <= set(ticks)


def test_the_lowest_bar_can_be_seen():
    frame = chart_frame(linear(0.0, 10.0), linear(0.0, 1e9))
    _, low, _, high = map(float, re.findall(r"[\d.]+", bar(frame, (2, 4), (0, 1), "filled"))[:4])
    assert low - high >= 1


def test_a_line_across_is_called_by_its_name_on_the_side_with_room():
    frame = chart_frame(linear(0.0, 10.0), linear(0.0, 1.0))
    assert 'class="start">least<' in vertical_marker(frame, 2.0, "least")
    assert 'class="end">least<' in vertical_marker(frame, 9.0, "least")


def test_a_picture_stands_alone_and_says_what_it_shows():
    frame = chart_frame(linear(0.0, 1.0), linear(0.0, 1.0, "a < b"))
    text = picture(500, 300, "x < y & z", axes(frame))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert [each.text for each in root if each.tag.endswith("title")] == ["x < y & z"]
    assert "prefers-color-scheme: dark" in text
    assert ElementTree.fromstring(plot(frame, "said")).attrib["aria-label"] == "said"
