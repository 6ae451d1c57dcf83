"""Solvers for deciders: only those that prove, in processes that Ctrl-C ends."""

from __future__ import annotations

from leaveout.errors import SolverError
from leaveout.solvers import Feature, SolverProcess, find_solver


def proving_solver(name: str) -> SolverProcess:
    """Return a solver in its own process, started on first use."""
    if Feature.DUAL_BOUND not in find_solver(name).features:
        raise SolverError(f"solver {name!r} gives no dual bounds, so it can prove nothing")
    return SolverProcess(name)
