"""Bounds over time: what is kept of a search's reports, and how it is drawn."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.bab import EngineResult, Progress
from leaveout.verifier.points.leak_decider import Trace
from leaveout.verifier.records import TraceRecord
from leaveout.verifier.run import verify

from support.files import BOUND, write_question
from support.snapshots import passages

MOMENTS = st.lists(
    st.tuples(st.floats(0, 1e5), st.floats(0, 1), st.floats(1, 10) | st.just(float("inf"))),
    max_size=200,
)


def told(moments):
    trace = Trace()
    for seconds, lower, upper in sorted(moments):
        trace.add(Progress(0, lower, upper, 1, 1, seconds, None))
    return trace


def result(seconds=1e6, lower=1.0, upper=1.0, **given):
    given = {"witness": None, "closed": True, "reason": None, "detail": ""} | given
    return EngineResult(
        label=0, lower=lower, upper=upper, member_upper=np.ones(1), solved=0, seconds=seconds,
        **given,
    )  # fmt: skip


@given(MOMENTS)
def test_a_trace_is_short_and_bounds_only_get_better(moments):
    record = told(moments).record(result())
    if record is None:
        assert not [each for each in moments if np.isfinite(each[2])]
        return
    assert 2 <= len(record.seconds) == len(record.lower) == len(record.upper) <= 60
    assert list(record.seconds) == sorted(record.seconds)
    assert list(record.lower) == sorted(record.lower)
    assert list(record.upper) == sorted(record.upper, reverse=True)
    assert (record.lower[-1], record.upper[-1]) == (1.0, 1.0)
    first = min(each for each in sorted(moments) if np.isfinite(each[2]))
    assert (record.lower[0], record.upper[0]) == first[1:]


@given(MOMENTS)
def test_what_is_kept_was_known_at_its_moment(moments):
    record = told(moments).record(result())
    for at in range(len(record.seconds) - 1 if record else 0):
        until = [each for each in moments if each[0] <= record.seconds[at] + 1e-3]
        until = [each for each in until if np.isfinite(each[2])]
        assert record.lower[at] <= max(each[1] for each in until)
        assert record.upper[at] >= min(each[2] for each in until)


def test_of_a_search_whose_bounds_were_wrong_nothing_is_kept():
    assert told([(0.0, 0.0, 5.0), (1.0, 0.5, 2.0)]).record(result(contradicted=True)) is None


def test_a_run_records_a_trace_where_it_searched_and_none_where_it_knew(tmp_path):
    again = (
        "\nguarantee high: forall x in X, M in F: confidence(N, x) > 5 => "
        "label(M, x) == label(N, x)\n"
    )
    seen = []
    path = write_question(tmp_path, text=BOUND + again)
    report = verify(path, workers=1, progress=lambda name, each: seen.append(each))
    found, known = report.results[:-1], report.results[-1]
    assert seen
    assert known.traces == ()
    for each in found:
        (trace,) = each.traces
        assert trace.label == each.label
        assert (trace.lower[-1], trace.upper[-1]) == (each.lower, each.upper)
        assert trace.seconds[-1] == pytest.approx(each.seconds, abs=1e-3)


def test_a_trace_becomes_a_chart_with_its_numbers(made, snapshot):
    trace = TraceRecord(
        label=3, seconds=(0.0, 1.5, 900.0), lower=(0.0, 0.5, 0.5), upper=(80.0, 2.0, 0.5004)
    )
    text = made.page(made.leak(label=3, traces=(trace,)))
    section = text[text.index('id="courses"') :]
    assert passages(section, "80,") == snapshot
    assert "900.0 s" in section
    assert passages(section, ("0.5", "0.5004")) == snapshot
    assert ">1.5</th>" in section
    assert 'id="courses"' not in made.page(made.leak())


@pytest.mark.parametrize(
    ("seconds", "lower", "upper"),
    [
        ((0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
        ((0.0, 1e-9), (0.0, 1e-12), (1e12, 1e-11)),
        ((5.0, 5.0), (-1e-9, 0.0), (3.0, 3.0)),
        ((0.1, 1e7), (0.0, 1.0), (1e9, 1e9)),
    ],
)
def test_whatever_its_numbers_are_a_chart_is_drawn(made, seconds, lower, upper):
    trace = TraceRecord(label=0, seconds=seconds, lower=lower, upper=upper)
    text = made.page(made.leak(label=0, traces=(trace,)))
    assert not re.search(r"\bnan\b|\binf\b", text)
