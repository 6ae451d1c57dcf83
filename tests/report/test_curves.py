"""Charts: which curves are together, what they are called, and that none is drawn too high."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.specs.deciders import Curve
from leaveout.verifier.page.charts import MOST, Series, _corners, charts, places
from leaveout.verifier.page.sections.charts import curves


def labels(chart):
    return [each.label for each in chart.series]


def test_curves_are_together_where_value_and_unit_agree(made, snapshot):
    found = (
        made.curve("dpa"),
        made.curve("run_off", lower=(0.8, 0.5)),
        made.curve("dpa", unit="relabels"),
        made.curve("dpa", value="collective accuracy"),
    )
    page = made.pages(made.file(made.result(curves=found)))
    found = charts(page)
    assert [labels(each) for each in found] == [["dpa", "run_off"], ["dpa"], ["dpa"]]
    assert [each.title for each in found] == snapshot


def test_equal_curves_are_drawn_once_with_all_their_statements(made):
    results = [made.result(name=name, curves=(made.curve(),)) for name in ("half", "again")]
    (chart,) = charts(made.pages(made.file(*results)))
    assert [each.sources for each in chart.series] == ["half, again"]


def test_curves_of_one_name_are_called_as_the_specification_calls_them(made):
    spec = (
        'let V = ballots("b.npz")\n'
        "let W = run_off(V, certificate = published)\n"
        "guarantee a: certified_accuracy(run_off(V), edits = 1) >= 0.5\n"
        "guarantee b: certified_accuracy(W, edits = 1) >= 0.5\n"
    )
    results = [
        made.result(name=name, curves=(made.curve("run_off", lower=(end, 0.1)),))
        for name, end in (("a", 0.9), ("b", 0.8))
    ]
    (chart,) = charts(made.pages(made.file(*results, spec=spec)))
    assert labels(chart) == ["run_off(V)", "run_off(V, certificate = published)"]
    (chart,) = charts(made.pages(made.file(*results, spec="guarantee c: abs(1) <= 2")))
    assert labels(chart) == ["run_off, a", "run_off, b"]


def test_curves_of_one_function_from_several_files_say_their_file(made):
    files = [
        made.file(
            made.result(curves=(made.curve(lower=(end, 0.1)),)),
            made.result(name="other", curves=(made.curve("run_off", lower=(end, 0.2)),)),
            name=name,
        )
        for name, end in (("a.json", 0.9), ("b.json", 0.8))
    ]
    (chart,) = charts(made.pages(*files))
    assert labels(chart) == ["dpa, a.json", "run_off, a.json", "dpa, b.json", "run_off, b.json"]


def test_several_curves_of_one_function_in_each_file_are_still_told_apart(made):
    spec = (
        'let V = ballots("b.npz")\nlet W = ballots("w.npz")\n'
        "guarantee a: certified_accuracy(dpa(V), edits = 1) >= 0.5\n"
        "guarantee b: certified_accuracy(dpa(W), edits = 1) >= 0.5\n"
    )
    files = [
        made.file(
            *(
                made.result(name=each, curves=(made.curve(lower=(end + at / 100, 0.1)),))
                for at, each in enumerate("ab")
            ),
            name=name,
            spec=spec,
        )
        for name, end in (("1.json", 0.9), ("2.json", 0.8))
    ]
    (chart,) = charts(made.pages(*files))
    assert labels(chart) == [
        "dpa(V), 1.json", "dpa(W), 1.json", "dpa(V), 2.json", "dpa(W), 2.json"
    ]  # fmt: skip


def test_an_equal_curve_of_two_files_names_both(made, snapshot):
    files = [
        made.file(
            made.result(curves=(made.curve(), made.curve(lower=(end, 0.1)))), name=f"{name}.json"
        )
        for name, end in (("a", 0.8), ("b", 0.7))
    ]
    (chart,) = charts(made.pages(*files))
    assert labels(chart)[1:] == ["dpa, a.json", "dpa, b.json"]
    assert labels(chart) == snapshot


def test_no_two_curves_are_called_the_same(made):
    same = tuple(made.curve(lower=(end, 0.1)) for end in (0.9, 0.8, 0.7))
    (chart,) = charts(made.pages(made.file(made.result(curves=same))))
    assert len(set(labels(chart))) == 3


def test_more_curves_than_can_be_told_apart_get_charts_of_their_own(made, snapshot):
    many = tuple(made.curve(f"m{i}", lower=(0.9 - i / 100, 0.1)) for i in range(MOST + 2))
    found = charts(made.pages(made.file(made.result(curves=many))))
    assert [len(each.series) for each in found] == [MOST, 2]
    assert found[0].title == snapshot
    assert found[0].reach == found[1].reach


def test_the_numbers_and_what_follows_from_them_are_in_tables(made):
    sure = made.curve("sure", lower=(0.95, 0.625, 0.5, 0.25))
    vague = made.curve("vague", lower=(0.75, 0.4), upper=(0.75, 0.6))
    text = curves(made.pages(made.file(made.result(curves=(sure, vague)))))
    rows = [re.sub(r"<[^>]+>", "|", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]
    cells = [[cell for cell in row.split("|") if cell] for row in rows]
    assert ["sure", "95 %", "2", "half"] in cells
    assert ["vague", "75 %", "at least 0", "half"] in cells
    assert ["1", "62.5 %", "40 % to 60 %"] in cells
    assert ["3", "25 %", "–"] in cells


@pytest.mark.parametrize("places", [(0,), (3,), (0, 5, 10), (0, 1, 2), (7, 2**50)])
def test_whatever_the_places_are_a_picture_is_drawn(made, places):
    lower = tuple(1 / (2 + i) for i in range(len(places)))
    for value in ("certified accuracy", "a number"):
        drawn = made.curve(at=places, lower=lower, upper=lower, value=value)
        text = curves(made.pages(made.file(made.result(curves=(drawn,)))))
        assert text.count('class="line c0"') == 3


def test_numbers_that_are_no_shares_have_an_axis_of_their_own(made):
    text = curves(made.pages(made.file(made.result(curves=(made.curve(lower=(-3.0, 12.0)),)))))
    assert "%" not in re.sub(r"<[^>]+>", "", text)


def test_a_curve_without_places_is_left_out(made):
    assert curves(made.pages(made.file(made.result(curves=(made.curve(lower=()),))))) is None


@given(
    at=st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True).map(sorted),
    data=st.data(),
)
def test_the_lower_line_is_nowhere_above_what_is_known(at, data):
    shares = st.lists(st.floats(0, 1), min_size=len(at), max_size=len(at))
    ends = tuple(sorted(data.draw(shares), reverse=True))
    record = Curve(name="c", value="v", unit="u", at=tuple(at), lower=ends, upper=ends)
    series = Series("c", record, "s")
    corners = _corners(series, 1.0, upper=False)
    for place, end in zip(at, ends):
        assert (place, end) in corners
    if series.gaps:
        for left, right in pairwise(corners):
            # Within a gap only the number at its far end is certain.
            if left[0] < right[0]:
                assert left[1] == right[1] == ends[at.index(right[0])]


@given(st.lists(st.integers(2, 30), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_labels_cover_neither_lines_nor_each_other(sizes, seed):
    random = np.random.default_rng(seed)
    lines = [
        np.column_stack((np.sort(random.uniform(0, 700, size)), random.uniform(0, 300, size)))
        for size in sizes
    ]
    texts = ["label" * (at + 1) for at, _ in enumerate(lines)]
    found = places((0, 0, 700, 300), texts, lines)
    boxes = [each for each in found if each is not None]
    for at, (left, top, right, bottom) in enumerate(boxes):
        assert 0 <= left < right <= 700
        assert 0 <= top < bottom <= 300
        for other in boxes[:at]:
            apart = other[0] >= right or other[2] <= left
            assert apart or other[1] >= bottom or other[3] <= top
        for line in lines:
            points = np.concatenate([np.linspace(start, end, 50) for start, end in pairwise(line)])
            inside = (points > (left, top)) & (points < (right, bottom))
            assert not np.any(inside.all(axis=1))


def test_a_label_finds_room_beside_a_line_alone():
    line = np.array([(0.0, 20.0), (350.0, 150.0), (700.0, 280.0)])
    (box,) = places((0, 0, 700, 300), ["label"], [line])
    assert box is not None
    assert places((0, 0, 20, 300), ["label"], [line]) == [None]
