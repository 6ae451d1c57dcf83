"""Messages between a `SolverProcess` and its child."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaveout.solvers.problem import Problem
    from leaveout.solvers.protocol import Outcome, Settings


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
