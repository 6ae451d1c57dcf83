"""When bounds answer a question, from plain numbers."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from leaveout.bab.native.search import Criterion, displayed_upper


def criterion(floor=0.0, *, decide=False, gap=0.01, least=0.0):
    enough = lambda lower, gap: max(lower, 0.0) / (1.0 - gap)
    return Criterion(SimpleNamespace(least=least, enough=enough), floor, decide, gap)


def found(value):
    return SimpleNamespace(value=value, member=0)


@pytest.mark.parametrize(
    ("asked", "best", "upper", "rounding", "met"),
    [
        # Nothing above the floor is left to find.
        (criterion(0.5), None, 0.5, 0.0, True),
        (criterion(0.5), None, 0.6, 0.0, False),
        (criterion(-1.0), None, 0.0, 0.0, True),
        (criterion(-1.0, decide=True, least=-math.inf), None, -0.5, 0.0, False),
        # One above the floor is all that is asked for, or it is not.
        (criterion(0.5, decide=True), found(0.6), math.inf, 0.0, True),
        (criterion(0.5, decide=True), found(0.5), 0.6, 1.0, False),
        (criterion(0.5), found(0.6), 0.9, 0.0, False),
        # Where those of 0 are asked for, 0 says nothing.
        (criterion(-1e-9, decide=True), None, 0.0, 0.0, False),
        (criterion(-1e-9, decide=True), None, -1e-9, 0.0, True),
        # What is known without one is none.
        (criterion(-1.0, decide=True), None, 0.6, 1.0, False),
        # Bounds agree to the gap, or to what float32 rounding hides.
        (criterion(), found(0.99), 1.0, 0.0, True),
        (criterion(), found(0.98), 1.0, 0.0, False),
        (criterion(gap=0.0), found(0.995), 1.0, 0.01, True),
        (criterion(gap=0.0), found(0.98), 1.0, 0.05, False),
        (criterion(), found(0.9), math.inf, math.inf, False),
    ],
)
def test_bounds_suffice_only_where_they_answer_what_is_asked(asked, best, upper, rounding, met):
    assert asked.is_met(best, upper, lambda: rounding, at=asked.floor) is met


@pytest.mark.parametrize("lower", [0.0, 0.3, 7.0])
def test_what_is_bounded_by_the_target_is_settled(lower):
    for asked in (criterion(), criterion(0.5), criterion(gap=0.0)):
        assert asked.is_met(found(lower), asked.target(lower), lambda: 0.0, at=asked.cut)
    assert criterion(0.5, decide=True).target(lower) == 0.5


def test_a_bound_below_every_goal_says_that_there_is_none():
    assert (displayed_upper(-1e300), displayed_upper(-math.inf), displayed_upper(0.25)) == (
        -math.inf,
        -math.inf,
        0.25,
    )
    asked = criterion(-math.inf, least=-math.inf)
    assert asked.is_met(None, -1e300, lambda: 0.0, at=-math.inf)
