"""Stopped, interrupted, lied to or let down by a solver, the bounds stay sound and finite."""

from __future__ import annotations

import math
import os
from dataclasses import replace

import numpy as np
import pytest

from leaveout.bab import LucidOptions, search
from leaveout.bab.lucid.algorithm import MemberSet, bound_set
from leaveout.encoders import Encoding
from leaveout.solvers import Outcome, Status

from support import networks
from support.cases import BruteForce, leaky, question

FAST = LucidOptions(workers=1)


class Liar:
    """A solver process that answers the same whatever it is asked."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.calls = 0

    def solve(self, problem, settings):
        self.calls += 1
        return self.outcomes[min(self.calls, len(self.outcomes)) - 1]


def _root(instance, label):
    everyone = np.arange(len(instance.family))
    return MemberSet(everyone, instance.most(label), Encoding(), 10.0)


def _leaky():
    instance, label = leaky()
    return instance, label, BruteForce.of(instance, 5000).best[label]


def test_one_infeasible_is_not_believed():
    instance, label, best = _leaky()
    assert best > 0.1
    infeasible = Outcome(Status.INFEASIBLE, None, -math.inf)
    # The elastic problem says by how much the leak is missed: not at all.
    worker = Liar(infeasible, Outcome(Status.OPTIMAL, None, 0.0), infeasible)
    bounded = bound_set(instance, _root(instance, label), label, 0.0, worker)
    assert worker.calls == 3
    assert bounded.result.state == "numerical"
    assert bounded.result.upper >= best


def test_where_infeasible_is_not_confirmed_a_lower_cut_off_gives_a_bound():
    instance, label, _ = _leaky()
    infeasible = Outcome(Status.INFEASIBLE, None, -math.inf)
    elastic = Outcome(Status.OPTIMAL, None, 0.0)
    worker = Liar(infeasible, elastic, Outcome(Status.STOPPED, None, 0.01))
    root = _root(instance, label)
    bounded = bound_set(instance, root, label, 0.0, worker)
    assert bounded.result.state == "stopped"
    assert bounded.result.upper < root.upper


def test_infeasible_twice_is_not_believed_either():
    instance, label, best = _leaky()
    worker = Liar(Outcome(Status.INFEASIBLE, None, -math.inf))
    bounded = bound_set(instance, _root(instance, label), label, 0.0, worker)
    assert bounded.result.state == "numerical"
    assert bounded.result.upper >= best


def test_a_failed_or_unbounded_solver_costs_no_soundness():
    instance, label, best = _leaky()
    for status, bound in (
        (Status.FAILED, math.inf),
        (Status.FAILED, 0.0),
        (Status.UNBOUNDED, 0.0),
        (Status.STOPPED, math.inf),
    ):
        worker = Liar(Outcome(status, None, bound, message="out of luck"))
        bounded = bound_set(instance, _root(instance, label), label, 0.0, worker)
        assert math.isfinite(bounded.result.upper)
        assert bounded.result.upper >= best
        assert bounded.result.state in {"failed", "stopped"}


def test_a_bound_is_never_worse_than_propagation():
    instance, label, _ = _leaky()
    worker = Liar(Outcome(Status.STOPPED, None, 1e9))
    bounded = bound_set(instance, _root(instance, label), label, 0.0, worker)
    assert bounded.result.upper <= instance.most(label)


def _hard():
    model = networks.dense(np.random.default_rng(0), (6, 40, 40, 2), 0.5)
    return question(0, model=model, spread=0.01, negative=False)


def test_time_is_a_promise():
    instance = _hard()
    before = sum(os.times()[:4])
    result = search(instance, 0, replace(FAST, seconds=4.0))
    # Of all cores, and of the solvers: what others on the machine do does not count.
    assert sum(os.times()[:4]) - before < 6 * os.cpu_count()
    assert not result.closed
    assert result.reason == "time"
    assert 0 <= result.lower < result.upper < math.inf


def test_interrupting_returns_the_bounds_so_far():
    instance = _hard()
    calls = []

    def interrupt(progress):
        calls.append(progress)
        if len(calls) == 3:
            raise KeyboardInterrupt

    result = search(instance, 0, FAST, progress=interrupt)
    assert (result.closed, result.reason, result.interrupted) == (False, "time", True)
    assert 0 <= result.lower < result.upper < math.inf
    assert calls[0].upper >= calls[-1].upper >= result.upper


@pytest.mark.parametrize("place", ["partition", "improve", "heapq.heappush", "SolverPool.submit"])
def test_an_interrupt_anywhere_in_the_bookkeeping_costs_no_soundness(monkeypatch, place):
    instance = question(8, negative=False, spread=0.1)
    truth = search(instance, 1, FAST)
    calls = []

    def interrupt(*args, **kwargs):
        calls.append(place)
        raise KeyboardInterrupt

    monkeypatch.setattr("leaveout.bab.lucid.algorithm.find_leak", lambda *args, **kwargs: None)
    monkeypatch.setattr(f"leaveout.bab.lucid.algorithm.{place}", interrupt)
    result = search(instance, 1, FAST)
    assert calls
    assert result.upper >= truth.lower
    assert result.detail == "interrupted"
    leaking = truth.witness.member
    assert result.member_upper[leaking] >= truth.lower


def test_a_later_search_starts_from_what_an_earlier_one_knew():
    instance = question(8, negative=False, spread=0.1)
    first = search(instance, 1, FAST)
    again = search(instance, 1, replace(FAST, seconds=0.2), known=first)
    assert again.closed
    assert again.solved == 0
    assert (again.lower, again.upper) == (first.lower, first.upper)


def test_an_unusable_solver_is_an_error_and_not_a_verdict(monkeypatch, snapshot):
    from leaveout.errors import SolverError

    def broken(*args):
        raise SolverError("no licence")

    monkeypatch.setattr("leaveout.bab.lucid.algorithm.bound_set", broken)
    with pytest.raises(SolverError) as told:
        search(_leaky()[0], 1, FAST)
    assert str(told.value) == snapshot
