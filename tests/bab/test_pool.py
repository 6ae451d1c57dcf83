"""A pool of solvers ends at once, whatever its tasks are doing."""

from __future__ import annotations

import threading

from leaveout.bab.lucid.algorithm import SolverPool
from leaveout.solvers import Status
from leaveout.solvers.conformance_cases import problem

EASY = problem([1, 1], [([1, 2], 2, 4)])


def test_nobody_waits_for_a_task_that_is_not_with_its_solver():
    encoding, left = threading.Event(), threading.Event()

    def task(process):
        encoding.set()
        assert left.wait(300)
        return process.solve(EASY)

    with SolverPool("highs", 1) as pool:
        future = pool.submit(task)
        assert encoding.wait(300)
    # The pool has ended; its task has not, and finds no solver when it comes to ask.
    assert not future.done()
    left.set()
    outcome = future.result(300)
    assert outcome.status is Status.FAILED
    assert outcome.message == "cancelled"


def test_tasks_that_nobody_has_begun_are_never_begun():
    encoding, left, begun = threading.Event(), threading.Event(), []

    def task(process):
        encoding.set()
        assert left.wait(300)

    with SolverPool("highs", 1) as pool:
        pool.submit(task)
        second = pool.submit(begun.append)
        assert encoding.wait(300)
    assert second.cancelled()
    left.set()
    assert not begun
