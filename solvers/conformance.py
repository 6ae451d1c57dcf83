"""The conformance kit for back ends, including third-party ones: cases with known answers.

Examples
--------
In pytest, for a back end of your own::

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_conforms(case):
        result = check_case(MySolver(), case)
        assert result.passed, result.detail
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from leaveout.errors import SolverError
from leaveout.solvers.conformance_cases import CASES, Case
from leaveout.solvers.problem import Problem
from leaveout.solvers.protocol import Feature, Outcome, Settings, Solver, Status

__all__ = ["CASES", "Case", "CaseResult", "Verdict", "check", "check_case"]

SLACK = 1e-6
LOOSE_VIOLATION = 1e-6
TIGHT_VIOLATION = 1e-8
GRACE_SECONDS = 5.0


class Verdict(StrEnum):
    """The verdict on a back end's result for a case."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CLAIMED = "not claimed"


@dataclass(frozen=True)
class CaseResult:
    """The result of a back end on one case.

    Attributes
    ----------
    name : str
    verdict : Verdict
        ``NOT_CLAIMED`` where the case needs a feature the back end does not list.
    detail : str
        What is wrong, or which feature is not listed.
    seconds : float
    """

    name: str
    verdict: Verdict
    detail: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the back end's claims are all correct."""
        return self.verdict is not Verdict.FAILED


class Solves(Protocol):
    """Anything that solves like a `Solver`, such as a `SolverProcess`."""

    def solve(self, problem: Problem, settings: Settings | None = None) -> Outcome:
        """Solve ``problem``."""


def check(solver: Solver, *, cases: Iterable[Case] = CASES) -> tuple[CaseResult, ...]:
    """Run every case; see `check_case`."""
    return tuple(check_case(solver, case) for case in cases)


def check_case(solver: Solver, case: Case, *, through: Solves | None = None) -> CaseResult:
    """Run one case and compare the outcome with the known answer.

    Parameters
    ----------
    solver : Solver
        Its ``features`` determine which cases apply.
    case : Case
    through : Solves, optional
        Called instead of the solver, such as a `SolverProcess` of it.
    """
    missing = sorted(case.needs - solver.features)
    if missing:
        return CaseResult(case.name, Verdict.NOT_CLAIMED, f"needs {', '.join(missing)}")
    started = time.perf_counter()
    try:
        outcome = (through or solver).solve(case.problem, case.settings)
    except SolverError as error:
        return CaseResult(case.name, Verdict.FAILED, f"raised SolverError: {error}")
    seconds = time.perf_counter() - started
    wrong = _wrong(outcome, case, solver.features)
    limit = case.settings.time_limit
    if limit is not None and seconds > limit + GRACE_SECONDS:
        wrong.append(f"took {seconds:.1f} s with a time limit of {limit:g} s")
    verdict = Verdict.FAILED if wrong else Verdict.PASSED
    return CaseResult(case.name, verdict, "; ".join(wrong), seconds)


def _wrong(outcome: Outcome, case: Case, features: frozenset[Feature]) -> list[str]:
    if outcome.status not in case.statuses:
        expected = " or ".join(case.statuses)
        return [f"status {outcome.status} ({outcome.message}), expected {expected}"]
    worthless = float("inf") if case.problem.maximise else float("-inf")
    if outcome.status is Status.INFEASIBLE:
        return _unless(outcome.dual_bound == -worthless, "dual bound of an infeasible problem")
    if outcome.status is Status.UNBOUNDED:
        return _unless(outcome.dual_bound == worthless, "dual bound of an unbounded problem")
    return [
        *_wrong_point(outcome, case, features),
        *_wrong_bound(outcome, case, features),
    ]


def _wrong_point(outcome: Outcome, case: Case, features: frozenset[Feature]) -> list[str]:
    found, problem = outcome.solution, case.problem
    if found is None:
        return _unless(outcome.status is not Status.OPTIMAL, "optimal without a point")
    if found.point.shape != (problem.variables,):
        return [f"point of shape {found.point.shape} for {problem.variables} variables"]
    allowed = TIGHT_VIOLATION if Feature.TOLERANCES in features else LOOSE_VIOLATION
    violation, value = problem.violation(found.point), problem.value(found.point)
    scale = max(1.0, abs(case.optimum))
    short = (case.optimum - value) * (1 if problem.maximise else -1)
    gap = SLACK * scale + case.settings.relative_gap * abs(case.optimum)
    return [
        *_unless(violation <= allowed, f"point violates the problem by {violation:.2g}"),
        *_unless(
            abs(found.objective - value) <= 1e-9 * scale,
            f"objective {found.objective!r} differs from that of the point, {value!r}",
        ),
        *_unless(
            short >= -SLACK * scale,
            f"objective {value!r} is better than the optimum {case.optimum!r}",
        ),
        *_unless(
            outcome.status is not Status.OPTIMAL or short <= gap,
            f"objective {value!r} is reported as optimal, but the optimum is {case.optimum!r}",
        ),
    ]


def _wrong_bound(outcome: Outcome, case: Case, features: frozenset[Feature]) -> list[str]:
    bound = outcome.dual_bound
    beyond = (bound - case.optimum) * (1 if case.problem.maximise else -1)
    scale = max(1.0, abs(case.optimum))
    wrong = _unless(
        beyond >= -SLACK * scale, f"dual bound {bound!r} excludes the optimum {case.optimum!r}"
    )
    if Feature.DUAL_BOUND in features:
        gap = 10 * SLACK * scale + case.settings.relative_gap * scale
        finite = abs(bound) != float("inf")
        wrong += _unless(finite, "no dual bound, though the feature is listed")
        wrong += _unless(
            not finite or outcome.status is not Status.OPTIMAL or beyond <= gap,
            f"dual bound {bound!r} of an optimum {case.optimum!r}",
        )
    return wrong


def _unless(right: bool, complaint: str) -> list[str]:
    return [] if right else [complaint]
