"""Import of a solver's package, when it is first needed and not before."""

from __future__ import annotations

import importlib
from typing import Any

from leaveout.errors import SolverError
from leaveout.solvers.protocol import Solver

__all__ = ["vendor"]


def vendor(solver: type[Solver], module: str | None = None) -> Any:
    """Import the package that ``solver`` needs.

    Parameters
    ----------
    solver : type of Solver
    module : str, optional
        A module inside the package; defaults to the package itself.

    Raises
    ------
    SolverError
        If the package is not installed, or is and cannot be imported.
    """
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
