"""A deadline: what is left of the time, and what each part of the rest gets."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from leaveout.deadline import NEVER, Deadline


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(value=100.0)
    monkeypatch.setattr("leaveout.deadline.time", SimpleNamespace(perf_counter=lambda: now.value))
    return now


def test_what_is_left_falls_to_nothing_and_no_further(clock):
    deadline = Deadline.after(8.0)
    assert (deadline.at, deadline.seconds_left, deadline.limit, deadline.over) == (
        108.0,
        8.0,
        8.0,
        False,
    )
    assert deadline.share(4) == 2.0
    clock.value = 106.0
    assert (deadline.seconds_left, deadline.share(4), deadline.over) == (2.0, 0.5, False)
    for passed in (108.0, 200.0):
        clock.value = passed
        assert (deadline.seconds_left, deadline.limit, deadline.share(4)) == (0.0, 0.0, 0.0)
        assert deadline.over


def test_without_a_limit_nothing_is_over(clock):
    for deadline in (NEVER, Deadline.after(None), Deadline.after(None, 3.0), NEVER.later(5.0)):
        assert deadline == NEVER
        assert not deadline.over
        assert (deadline.seconds_left, deadline.limit, deadline.share(3)) == (math.inf, None, None)


def test_it_may_have_begun_to_count_before(clock):
    assert Deadline.after(30.0, 80.0).seconds_left == 10.0
    assert Deadline.after(30.0, 20.0).over
    assert Deadline.after(0.0).over
    assert Deadline.after(-1.0).over
    assert not Deadline.after(30.0, 20.0).later(60.0).over
