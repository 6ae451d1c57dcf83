"""Solver back ends behind one small protocol: neutral problem in, reliable outcome out."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaveout.solvers.problem import Problem
    from leaveout.solvers.process import SolverProcess
    from leaveout.solvers.protocol import (
        CanSolve,
        Feature,
        Licence,
        Outcome,
        Settings,
        Solution,
        Solver,
        Status,
    )
    from leaveout.solvers.registry import SolverRow, available, describe, find_solver

__all__ = [
    "CanSolve",
    "Feature",
    "Licence",
    "Outcome",
    "Problem",
    "Settings",
    "Solution",
    "Solver",
    "SolverProcess",
    "SolverRow",
    "Status",
    "available",
    "describe",
    "find_solver",
]

_HOMES = {
    "Problem": "problem",
    "SolverProcess": "process",
    **dict.fromkeys(("SolverRow", "available", "describe", "find_solver"), "registry"),
}


# Names are imported on first use, so that a worker process starts quickly.
def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES.get(name, 'protocol')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
