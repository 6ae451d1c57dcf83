"""Numbers that a back end cannot use unchanged: tiny coefficients, tolerances, infinities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leaveout.solvers.problem import Problem


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
