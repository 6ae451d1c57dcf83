"""Reliable reporting for back ends: unproved bounds and ambiguous statuses."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from leaveout.solvers.problem import Problem
from leaveout.solvers.protocol import Outcome, Settings, Solution, Status


def without_tiny(problem: Problem, dropped: float, tolerance: float) -> Problem | None:
    """Drop coefficients up to ``dropped`` if no row changes beyond ``tolerance``."""
    matrix = problem.matrix
    tiny = np.abs(matrix.data) <= dropped
    if not tiny.any():
        return problem
    reach = np.maximum(np.abs(problem.lower), np.abs(problem.upper))
    reached = matrix.copy()
    reached.data = np.where(tiny, np.abs(matrix.data), 0.0)
    reached.eliminate_zeros()
    reached.data *= reach[reached.indices]
    if reached.sum(axis=1).max(initial=0.0) > tolerance:
        return None
    kept = matrix.copy()
    kept.data = np.where(tiny, 0.0, matrix.data)
    kept.eliminate_zeros()
    return replace(problem, matrix=kept)


def clip(asked: float, tightest: float, loosest: float) -> float:
    """Clip a tolerance to the range that the back end accepts."""
    return min(max(asked, tightest), loosest)


def finite_or(bound: float, worthless: float, *, limit: float) -> float:
    """Return ``worthless`` where a back end encodes "no bound" by a number beyond ``limit``."""
    return bound if abs(bound) < limit else worthless


LEAST_TIME = 0.01

Solve = Callable[[Problem, Settings], Outcome]


def worthless(problem: Problem) -> float:
    """Return the dual bound that means nothing is proved: ``inf`` if maximising, else ``-inf``."""
    return float("inf") if problem.maximise else float("-inf")


def solution(problem: Problem, point: NDArray[np.float64]) -> Solution:
    """Return ``point`` with its objective recomputed, free of the back end's rounding."""
    return Solution(point=point, objective=problem.value(point))


def failed_outcome(problem: Problem, message: str, seconds: float = 0.0) -> Outcome:
    """Return the outcome of a call that proved nothing."""
    return Outcome(Status.FAILED, None, worthless(problem), seconds=seconds, message=message)


def stopped_outcome(problem: Problem, message: str) -> Outcome:
    """Return the outcome of a call stopped before it proved anything."""
    return Outcome(Status.STOPPED, None, worthless(problem), message=message)


def infeasible_outcome(problem: Problem, message: str = "") -> Outcome:
    """Return the outcome of a problem proved infeasible."""
    return Outcome(Status.INFEASIBLE, None, -worthless(problem), message=message)


def unbounded_outcome(problem: Problem, message: str = "") -> Outcome:
    """Return the outcome of a feasible problem with an unlimited objective."""
    return Outcome(Status.UNBOUNDED, None, worthless(problem), message=message)


def _without_variables(problem: Problem, settings: Settings) -> Outcome:
    """Decide a problem without variables, which few back ends accept."""
    nothing = np.zeros(0)
    if problem.violation(nothing) > settings.feasibility_tolerance:
        return infeasible_outcome(problem, "a row without variables cannot be satisfied")
    return Outcome(Status.OPTIMAL, solution(problem, nothing), problem.offset)


def with_time_left(settings: Settings, started: float) -> Settings:
    """Return ``settings`` with the remaining time limit since ``started``."""
    if settings.time_limit is None:
        return settings
    spent = time.perf_counter() - started
    return replace(settings, time_limit=max(LEAST_TIME, settings.time_limit - spent))


def settle_unbounded(
    solve: Solve, problem: Problem, settings: Settings, started: float, message: str
) -> Outcome:
    """Decide between infeasible and unbounded by solving without the objective.

    Ambiguous statuses and rays without a point leave this open; a feasible point settles it.
    """
    if not problem.objective.any():
        # Without an objective, no problem is unbounded.
        return infeasible_outcome(problem, message)
    settings = with_time_left(settings, started)
    feasibility = replace(problem, objective=np.zeros(problem.variables), offset=0.0)
    outcome = solve(feasibility, settings)
    match outcome.status:
        case Status.INFEASIBLE:
            return infeasible_outcome(problem, outcome.message)
        case Status.OPTIMAL:
            return unbounded_outcome(problem, message)
        case Status.STOPPED:
            return stopped_outcome(problem, f"{message}; stopped before determining which")
        case _:
            return failed_outcome(problem, f"{message}; could not determine which")


def along_a_ray(
    relaxation: Solve, solve: Solve, problem: Problem, settings: Settings, started: float
) -> Outcome | None:
    """Decide a problem with unbounded relaxation before branch and bound.

    With finite numbers a feasible MILP is unbounded exactly if its relaxation is (Meyer 1974); some
    tree searches never end on one.
    """
    box_is_open = np.isinf(problem.lower).any() or np.isinf(problem.upper).any()
    if not (box_is_open and problem.objective.any()):
        return None
    relaxed = replace(problem, integer=np.zeros_like(problem.integer))
    if relaxation(relaxed, settings).status is not Status.UNBOUNDED:
        return None
    return settle_unbounded(solve, problem, settings, started, "the relaxation is unbounded")


def run_prepared(
    solve: Solve, problem: Problem, settings: Settings | None, *, dropped: float = 0.0
) -> Outcome:
    """Run a back end on a problem it can read, and time it."""
    settings = settings or Settings()
    if not problem.variables:
        return _without_variables(problem, settings)
    started = time.perf_counter()
    cleaned = without_tiny(problem, dropped, settings.feasibility_tolerance)
    if cleaned is None:
        return failed_outcome(
            problem,
            f"a coefficient below {dropped:g} matters, but this solver would drop it: scale the "
            "problem",
        )
    outcome = solve(cleaned, settings)
    return replace(outcome, seconds=time.perf_counter() - started)
