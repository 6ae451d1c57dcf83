"""The interface of a back end: a name, its features, and one ``solve``."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import SolverError
from leaveout.solvers.problem import Problem


class Feature(StrEnum):
    """A feature of a back end; each solver lists its own as data."""

    INTEGER = "integer variables"
    TIME_LIMIT = "time limit"
    THREADS = "several threads"
    DUAL_BOUND = "dual bound when stopped"
    GAP = "relative gap"
    TOLERANCES = "tolerances"


class Status(StrEnum):
    """How a solve ended, apart from any number."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    STOPPED = "stopped at a limit"
    FAILED = "failed"


@dataclass(frozen=True)
class Licence:
    """What can be solved without a paid licence.

    Attributes
    ----------
    terms : str
        Short name of the terms, for the table of ``leaveout solvers``.
    max_variables, max_rows : int or None
        Size limits without a full licence; None for no limit.
    """

    terms: str
    max_variables: int | None = None
    max_rows: int | None = None


@dataclass(frozen=True)
class Settings:
    """How to solve.

    Attributes
    ----------
    time_limit : float or None
        Seconds of wall-clock time.
    threads : int
    relative_gap : float
        Stop once ``|best - dual bound| <= relative_gap * |best|``; 0 asks for the optimum.
    feasibility_tolerance, integrality_tolerance : float
        Used if the back end has ``Feature.TOLERANCES``, clipped to its tightest value.
    seed : int
    presolve : bool
        Whether the back end may simplify the problem first, if it has the option. Not where
        coefficients differ by orders of magnitude and a lost solution would mean a wrong bound.
    """

    time_limit: float | None = None
    threads: int = 1
    relative_gap: float = 0.0
    feasibility_tolerance: float = 1e-9
    integrality_tolerance: float = 1e-9
    seed: int = 0
    presolve: bool = True


@dataclass(frozen=True, eq=False)
class Solution:
    """A point the back end calls feasible (within its tolerances).

    Attributes
    ----------
    point : ndarray of float64, shape (n,)
    objective : float
    """

    point: NDArray[np.float64]
    objective: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a call of ``solve``.

    Attributes
    ----------
    status : Status
    solution : Solution or None
    dual_bound : float
        No feasible point is better: an upper bound when maximising, a lower bound when
        minimising, up to the back end's tolerances. It is the worthless infinity (``inf`` when
        maximising) where nothing was proved, and the opposite infinity for ``INFEASIBLE``.
    nodes : int or None
        Branch-and-bound nodes, where the back end counts them.
    seconds : float
    message : str
        The back end's message, for error messages.
    """

    status: Status
    solution: Solution | None
    dual_bound: float
    nodes: int | None = None
    seconds: float = 0.0
    message: str = field(default="")


class CanSolve(Protocol):
    """A back end, or a process that holds one."""

    def solve(self, problem: Problem, settings: Settings | None = None) -> Outcome:
        """Solve a problem."""


class Solver(ABC):
    """A back end, created without arguments or with its own keyword options.

    Class attributes
    ----------------
    name : str
        Value of ``--solver``.
    package : str
        The importable top-level package it needs.
    distribution : str
        The distribution to install, named in error messages.
    features : frozenset of Feature
        Instances with options may have other features than the class.
    terms : Licence
        Limits without a paid licence. Reading them never checks out a licence.
    """

    name: ClassVar[str]
    package: ClassVar[str]
    distribution: ClassVar[str]
    features: frozenset[Feature]
    terms: ClassVar[Licence]

    @classmethod
    def is_available(cls) -> bool:
        """Return whether the package is installed; neither imports it nor checks out a licence."""
        return importlib.util.find_spec(cls.package) is not None

    @classmethod
    def version(cls) -> str | None:
        """Return the installed version of the distribution, or None."""
        try:
            return importlib.metadata.version(cls.distribution)
        except importlib.metadata.PackageNotFoundError:
            return None

    @abstractmethod
    def solve(self, problem: Problem, settings: Settings | None = None) -> Outcome:
        """Solve ``problem``.

        Parameters
        ----------
        problem : Problem
        settings : Settings, optional
            Defaults to ``Settings()``.

        Returns
        -------
        Outcome

        Raises
        ------
        SolverError
            If the package is missing or a licence is missing or too small.
        """

    def size_error(self, problem: Problem) -> SolverError:
        """Return the error that states the licence's size limits and this problem's size."""
        limits = [
            f"{limit:,} {what}"
            for limit, what in (
                (self.terms.max_variables, "variables"),
                (self.terms.max_rows, "rows"),
            )
            if limit is not None
        ]
        return SolverError(
            f"{self.package}'s licence allows {' and '.join(limits)}, this problem has "
            f"{problem.variables:,} variables and {problem.rows:,} rows: install a full licence "
            "or use --solver highs, which has no limit"
        )


@dataclass(frozen=True, eq=False)
class Request:
    """A problem to solve."""

    problem: Problem
    settings: Settings


@dataclass(frozen=True, eq=False)
class Reply:
    """The result of a request; all fields ``None`` means that the child is ready."""

    outcome: Outcome | None = None
    error: str | None = None  # message of a `LeaveoutError`, which the parent raises again
    failure: str | None = None  # any other exception, reported by the parent as a failed outcome


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
