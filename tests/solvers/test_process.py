"""A child process may hang, crash, shout or be killed; the parent goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

import pytest

from leaveout.errors import SolverError
from leaveout.solvers import Settings, SolverProcess, Status, find_solver
from leaveout.solvers.conformance_cases import CASES, problem

from support import children

EASY = problem([1, 1], [([1, 2], 2, 4)])
FATAL = problem([1, 1], [([1, 2], 2, 4)], offset=1.0)
HARD = next(case.problem for case in CASES if case.name == "time limit")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups need POSIX")


def work(child: int) -> float:
    """CPU seconds of a child and of the programs that it runs."""
    return sum(map(children.worked, children.group(child)))


def once_solving(pid: int, act: Callable[[], None]) -> threading.Thread:
    """Start a thread that acts once a child has worked on what it was given just before."""
    before = work(pid)

    def wait() -> None:
        children.wait_until(lambda: work(pid) > before + 0.2, "a solver at work")
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_a_child_gives_the_outcome_the_solver_gives():
    with SolverProcess("highs") as process:
        outcome = process.solve(EASY)
    assert outcome.status is Status.OPTIMAL
    assert outcome.solution.objective == pytest.approx(1.0)


def test_one_child_serves_many_problems(faulty):
    with SolverProcess("crash") as process:
        process.solve(EASY)
        first = process._child
        process.solve(EASY)
        assert process._child is first


def test_a_crash_is_a_failed_outcome_with_the_last_words_and_the_next_call_works(faulty, snapshot):
    with SolverProcess("crash") as process:
        outcome = process.solve(FATAL)
        assert outcome.status is Status.FAILED
        assert outcome.dual_bound == float("-inf")
        assert outcome.message == snapshot
        assert process.solve(EASY).status is Status.OPTIMAL


def test_a_solver_error_is_raised_again_with_its_message(faulty, snapshot):
    with SolverProcess("refuse") as process, pytest.raises(SolverError) as caught:
        process.solve(EASY)
    assert str(caught.value) == snapshot


def test_any_other_error_is_a_failed_outcome(faulty):
    with SolverProcess("bug") as process:
        outcome = process.solve(EASY)
    assert (outcome.status, outcome.message) == (Status.FAILED, "ZeroDivisionError: oops")


def test_an_unknown_solver_is_named_by_the_parent(snapshot):
    with SolverProcess("hihgs") as process, pytest.raises(SolverError) as told:
        process.solve(EASY)
    assert str(told.value) == snapshot


def test_what_the_vendor_prints_reaches_neither_the_channel_nor_the_terminal(faulty, capfd):
    with SolverProcess("noise") as process:
        assert process.solve(EASY).status is Status.OPTIMAL
        assert process.solve(EASY).status is Status.OPTIMAL
    assert capfd.readouterr() == ("", "")


def test_a_solver_that_overruns_its_limit_is_killed(faulty, snapshot):
    # It would sleep for an hour.
    with SolverProcess("sleep", grace_seconds=0.5, grace_share=0.0) as process:
        outcome = process.solve(EASY, Settings(time_limit=1.0))
    assert outcome.status is Status.FAILED
    assert outcome.message == snapshot


def test_the_start_of_the_child_counts_against_the_time_limit(faulty):
    with SolverProcess("limit") as process:
        outcome = process.solve(EASY, Settings(time_limit=1000.0))
    # No Python is up, with what a solver needs, sooner.
    assert 0 < float(outcome.message) < 1000.0 - 0.02


@pytest.mark.parametrize("spec", ["highs", "gurobi", "scip", "pulp", "ortools"])
def test_another_thread_can_cancel_a_solve(spec):
    if not find_solver(spec).is_available():
        pytest.skip(f"the package of {spec} is not installed")
    with SolverProcess(spec) as process:
        process.solve(EASY)
        killer = once_solving(process._child.pid, process.kill)
        outcome = process.solve(HARD)
        killer.join()
        assert (outcome.status, outcome.message) == (Status.FAILED, "cancelled")
        assert outcome.dual_bound == float("inf")
        assert process.solve(EASY).status is Status.OPTIMAL


def test_the_child_ignores_an_interrupt(faulty):
    with SolverProcess("interrupted") as process:
        assert process.solve(EASY).status is Status.OPTIMAL


def test_an_interrupt_of_the_parent_ends_the_child():
    # A shell may have started this process with interrupts ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gurobi = find_solver("gurobi")
    if gurobi.is_available():
        # It replaces the handler of the process it runs in.
        for _ in range(3):
            gurobi.solve(EASY)
    with SolverProcess("highs") as process:
        process.solve(EASY)
        child = process._child.pid
        killer = once_solving(child, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            process.solve(HARD)
        killer.join()
        signal.signal(signal.SIGINT, before)
        children.wait_until_gone([child])
        assert process.solve(EASY).status is Status.OPTIMAL


def test_killing_takes_along_what_the_solver_started(faulty, tmp_path, monkeypatch):
    pids = tmp_path / "pids"
    monkeypatch.setenv("LEAVEOUT_TEST_PIDS", str(pids))
    with SolverProcess("spawn") as process:
        caller = threading.Thread(target=process.solve, args=(EASY,))
        caller.start()
        children.wait_until(lambda: pids.exists() and pids.read_text(), "what it started")
        process.kill()
        caller.join()
    children.wait_until_gone(list(map(int, pids.read_text().split())))


@pytest.mark.parametrize("spec", ["highs", "gurobi", "scip", "pulp", "ortools"])
def test_no_child_outlives_a_killed_parent(spec, tmp_path):
    if not find_solver(spec).is_available():
        pytest.skip(f"the package of {spec} is not installed")
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        from leaveout.solvers import SolverProcess
        from leaveout.solvers.conformance import CASES
        process = SolverProcess({spec!r})
        process.solve(CASES[0].problem)
        print(process._child.pid, flush=True)
        process.solve(next(case.problem for case in CASES if case.name == "time limit"))
        """)
    )
    parent = children.start([sys.executable, script], stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    before = work(child)
    children.wait_until(lambda: work(child) > before + 0.2, "a solver at work", parent)
    group = children.group(child)
    parent.kill()
    parent.wait()
    children.wait_until_gone(group)


def test_a_script_without_a_main_guard_works(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        from leaveout.solvers import SolverProcess
        from leaveout.solvers.conformance import CASES
        with SolverProcess("highs") as process:
            print(process.solve(CASES[0].problem).status.name)
        """)
    )
    done = children.run([sys.executable, script])
    assert done.stdout == "OPTIMAL\n"
    assert done.stderr == ""


def test_a_file_of_the_users_does_not_shadow_a_library(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    with SolverProcess("highs") as process:
        assert process.solve(EASY).status is Status.OPTIMAL


def test_a_retired_process_starts_no_child_again():
    process = SolverProcess("highs")
    assert process.solve(EASY).status is Status.OPTIMAL
    process.retire()
    found = process.solve(EASY)
    assert found.status is Status.FAILED
    assert found.message == "cancelled"
    process.start()
    assert process._child is None
