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

_MODULES = {
    "problem": ("Problem",),
    "process": ("SolverProcess",),
    "protocol": (
        "CanSolve",
        "Feature",
        "Licence",
        "Outcome",
        "Settings",
        "Solution",
        "Solver",
        "Status",
    ),
    "registry": ("SolverRow", "available", "describe", "find_solver"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


# Names are imported on first use, so that a worker process starts quickly.
def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
