"""``scipy.optimize.milp`` as a solver of leaveout."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from leaveout.solvers import (
    Feature,
    Licence,
    Outcome,
    Problem,
    Settings,
    Solution,
    Solver,
    Status,
)

__all__ = ["ScipyMilp"]

# The codes of scipy.optimize.milp.
OPTIMAL, LIMIT, INFEASIBLE = 0, 1, 2
# SciPy's HiGHS drops coefficients up to this size.
DROPPED = 1e-9


class ScipyMilp(Solver):
    """HiGHS as SciPy ships it, with the fixed tolerances SciPy gives it."""

    name = "scipy"
    package = "scipy"
    distribution = "scipy"
    features = frozenset({Feature.INTEGER, Feature.TIME_LIMIT, Feature.DUAL_BOUND, Feature.GAP})
    terms = Licence("BSD-3-Clause")

    def solve(self, problem: Problem, settings: Settings | None = None) -> Outcome:
        """Solve ``problem``; SciPy minimises, so signs are turned where it maximises."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        settings = settings or Settings()
        started = time.perf_counter()
        sign = -1.0 if problem.maximise else 1.0
        worthless = -sign * float("inf")
        if not problem.variables:
            return _without_variables(problem, settings, worthless)
        coefficients = np.abs(problem.matrix.data)
        if ((coefficients > 0) & (coefficients <= DROPPED)).any():
            message = f"a coefficient is no larger than {DROPPED:g}: scale the problem"
            return Outcome(Status.FAILED, None, worthless, message=message)
        options: Any = {"mip_rel_gap": settings.relative_gap}
        if settings.time_limit is not None:
            options["time_limit"] = settings.time_limit
        rows = LinearConstraint(problem.matrix, problem.row_lower, problem.row_upper)
        result = milp(
            sign * problem.objective,
            integrality=problem.integer.astype(np.int64),
            bounds=Bounds(problem.lower, problem.upper),
            constraints=[rows] if problem.rows else [],
            options=options,
        )
        seconds = time.perf_counter() - started
        found = None
        if result.x is not None:
            found = Solution(result.x, problem.value(result.x))
        if result.status == INFEASIBLE:
            return Outcome(Status.INFEASIBLE, None, -worthless, seconds=seconds)
        if result.status == OPTIMAL:
            status = Status.OPTIMAL
        elif result.status == LIMIT:
            status = Status.STOPPED
        else:
            return self._without_objective(problem, settings, worthless, result.message)
        bound = worthless
        if problem.integer.any() and result.mip_dual_bound is not None:
            bound = sign * float(result.mip_dual_bound) + problem.offset
        elif status is Status.OPTIMAL and found is not None:
            bound = found.objective
        return Outcome(status, found, bound, seconds=seconds, message=result.message)

    def _without_objective(
        self, problem: Problem, settings: Settings, worthless: float, message: str
    ) -> Outcome:
        """Tell unbounded from infeasible: SciPy has one code for both and for its failures."""
        if "unbounded" not in message.lower() or not problem.objective.any():
            return Outcome(Status.FAILED, None, worthless, message=message)
        feasibility = replace(problem, objective=np.zeros(problem.variables))
        outcome = self.solve(feasibility, settings)
        status = {
            Status.OPTIMAL: Status.UNBOUNDED,
            Status.INFEASIBLE: Status.INFEASIBLE,
            Status.STOPPED: Status.STOPPED,
        }.get(outcome.status, Status.FAILED)
        bound = -worthless if status is Status.INFEASIBLE else worthless
        return Outcome(status, None, bound, seconds=outcome.seconds, message=message)


def _without_variables(problem: Problem, settings: Settings, worthless: float) -> Outcome:
    nothing = np.zeros(0)
    if problem.violation(nothing) > settings.feasibility_tolerance:
        return Outcome(Status.INFEASIBLE, None, -worthless)
    return Outcome(Status.OPTIMAL, Solution(nothing, problem.offset), problem.offset)
