"""The registry of solvers: built-in ones in a table, others from entry points."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from leaveout.errors import SolverError
from leaveout.names import find_reference, nearest_name
from leaveout.solvers.protocol import Feature, Licence, Solver

GROUP = "leaveout.solvers"

BUILT_IN: Mapping[str, str] = {
    "highs": "leaveout.solvers.highs:Highs",
    "gurobi": "leaveout.solvers.gurobi:Gurobi",
    "pulp": "leaveout.solvers.pulp:Pulp",
    "ortools": "leaveout.solvers.ortools:OrTools",
    "scip": "leaveout.solvers.scip:Scip",
}


@dataclass(frozen=True)
class SolverRow:
    """A row of ``leaveout solvers``."""

    name: str  # value of ``--solver``
    installed: bool
    version: str | None  # installed version of the distribution the solver needs
    features: tuple[Feature, ...]  # in the order of `Feature`
    licence: Licence  # terms and size limits without a paid licence
    options: str | None  # what ``name:option`` selects; None if the solver has no option
    distribution: str  # provider of the back end: ``leaveout`` or a plug-in


@functools.cache
def _plugins() -> Mapping[str, importlib.metadata.EntryPoint]:
    if os.environ.get("LEAVEOUT_PLUGINS", "").lower() in {"off", "0", "no", "false"}:
        return {}
    found: dict[str, importlib.metadata.EntryPoint] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        if BUILT_IN.get(point.name) == point.value:
            continue
        if point.name in BUILT_IN or point.name in found:
            holder = "leaveout" if point.name in BUILT_IN else _provider(found[point.name])
            warnings.warn(
                f"solver {point.name!r} of {_provider(point)} is ignored: "
                f"{holder} already provides one of that name",
                stacklevel=2,
            )
            continue
        found[point.name] = point
    return found


def _provider(point: importlib.metadata.EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value.partition(":")[0]


@functools.cache
def _plugin_class(name: str) -> type[Solver] | None:
    point = _plugins()[name]
    try:
        loaded = point.load()
    except Exception as error:
        _skip(point, f"it cannot be imported ({type(error).__name__}: {error})")
        return None
    if not (isinstance(loaded, type) and issubclass(loaded, Solver)):
        _skip(point, f"{point.value} is not a subclass of leaveout.solvers.Solver")
        return None
    if inspect.isabstract(loaded):
        _skip(point, f"{point.value} does not implement solve")
        return None
    return loaded


def _skip(point: importlib.metadata.EntryPoint, reason: str) -> None:
    warnings.warn(f"solver {point.name!r} of {_provider(point)} is skipped: {reason}", stacklevel=3)


def _solver_class(name: str) -> type[Solver] | None:
    # A built-in name does not need the metadata of every installed package.
    if name in BUILT_IN:
        return cast("type[Solver]", find_reference(BUILT_IN[name]))
    return _plugin_class(name) if name in _plugins() else None


def known_solvers() -> tuple[str, ...]:
    """Return the names of all known solvers, installed or not, built-in first."""
    return (*BUILT_IN, *(name for name in _plugins() if _plugin_class(name) is not None))


def available() -> tuple[str, ...]:
    """Return the names of solvers with installed packages, without checking out a licence."""
    classes = ((name, _solver_class(name)) for name in known_solvers())
    return tuple(name for name, solver in classes if solver is not None and solver.is_available())


def find_solver(spec: str = "highs") -> Solver:
    """Create the solver that ``spec`` names.

    Parameters
    ----------
    spec : str
        ``name`` or ``name:option``; the option is passed as the keyword ``backend`` (for
        example ``pulp:HiGHS``).

    Returns
    -------
    Solver
        Ready to solve; its package is imported by the first ``solve``, which raises a
        `SolverError` if it is missing.

    Raises
    ------
    SolverError
        If the name is unknown or the solver does not support the option.
    """
    name, _, option = spec.partition(":")
    solver = _solver_class(name)
    if solver is None:
        names = known_solvers()
        near = nearest_name(name, names)
        hint = f", did you mean {near!r}?" if near is not None else ""
        raise SolverError(f"unknown solver {name!r}{hint} (known: {', '.join(names)})")
    if not option:
        return solver()
    if not _takes_backend(solver):
        raise SolverError(f"solver {name!r} has no options, got {spec!r}")
    return solver(backend=option)  # type: ignore[call-arg]


def _takes_backend(solver: type[Solver]) -> bool:
    return "backend" in inspect.signature(solver).parameters


def describe() -> tuple[SolverRow, ...]:
    """Describe every known solver for ``leaveout solvers``, without checking out a licence."""
    rows = []
    for name in known_solvers():
        solver = _solver_class(name)
        if solver is None:
            continue
        installed = solver.is_available()
        rows.append(
            SolverRow(
                name=name,
                installed=installed,
                version=solver.version() if installed else None,
                features=tuple(feature for feature in Feature if feature in solver.features),
                licence=solver.terms,
                options="backend" if _takes_backend(solver) else None,
                distribution="leaveout" if name in BUILT_IN else _provider(_plugins()[name]),
            )
        )
    return tuple(rows)
