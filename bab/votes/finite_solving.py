"""The least integer that a programme allows: the proved bound and best point."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from leaveout.solvers import CanSolve, Problem, Settings, Status

PADDING = 1e-3
"""How far a dual bound may lie above the optimum it bounds.

The data are whole numbers, so an attack meets every row exactly and no tolerance excludes it: the
bound is off by the solver's own arithmetic only, and by far less than this. Nothing is lost by
more, because the optimum is a whole number too.
"""


def least_whole(
    problem: Problem, solver: CanSolve, seconds: float | None
) -> tuple[float, NDArray[np.float64] | None]:
    """Minimise a programme whose optimum is a whole number."""
    if seconds is not None and seconds <= 0:
        return -math.inf, None
    outcome = solver.solve(problem, Settings(time_limit=seconds))
    point = None if outcome.solution is None else outcome.solution.point
    if outcome.status is Status.INFEASIBLE:
        return math.inf, None
    bound = outcome.dual_bound
    return (float(math.ceil(bound - PADDING)) if math.isfinite(bound) else -math.inf), point
