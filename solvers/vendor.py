"""Lazy import of a solver's package."""

from __future__ import annotations

import importlib
from typing import Any

from leaveout.errors import SolverError
from leaveout.solvers.protocol import Solver


def vendor(solver: type[Solver], module: str | None = None) -> Any:
    """Import the package that ``solver`` needs."""
    if not solver.is_available():
        raise SolverError(
            f"solver {solver.name!r} needs the package {solver.package!r}, which is not "
            f"installed: pip install 'leaveout[{solver.name}]'"
        )
    try:
        return importlib.import_module(module or solver.package)
    except ImportError as error:
        raise SolverError(
            f"solver {solver.name!r} needs the package {solver.package!r}, which is installed but "
            f"cannot be imported ({error}): pip install --force-reinstall {solver.distribution}"
        ) from error
