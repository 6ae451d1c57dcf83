"""CBC through PuLP, and any other solver PuLP knows."""

from __future__ import annotations

import re
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from leaveout.deadline import Deadline
from leaveout.errors import SolverError
from leaveout.solvers.outcomes import (
    clip,
    failed_outcome,
    infeasible_outcome,
    run_prepared,
    settle_unbounded,
    solution,
    stopped_outcome,
    worthless,
)
from leaveout.solvers.problem import Problem
from leaveout.solvers.protocol import (
    Feature,
    Licence,
    Outcome,
    Settings,
    Solution,
    Solver,
    Status,
    vendor,
)

NUMBER = r"([-+]?[\d.]+(?:e[-+]?\d+)?)"
POSSIBLE = re.compile(rf"Partial search - best objective \S+ \(best possible {NUMBER}\)")
LOWER = re.compile(rf"^Lower bound:\s+{NUMBER}", re.MULTILINE)
OBJECTIVE = re.compile(rf"^(?:Objective value:|Optimal objective)\s+{NUMBER}", re.MULTILINE)
NODES = re.compile(r"^Enumerated nodes:\s+(\d+)", re.MULTILINE)
NOTHING = 1e40


@dataclass(frozen=True)
class CbcLog:
    """The log of CBC 2.10 for a minimised problem."""

    text: str

    @property
    def optimal(self) -> bool:
        """Whether CBC reports an optimum (within its gap)."""
        if self.verdict:
            return self.verdict.startswith("Optimal solution found")
        return "Optimal objective" in self.text

    @property
    def at_limit(self) -> bool:
        """Whether CBC reports that it stopped at a limit."""
        return "Result - Stopped on" in self.text or "Stopped due to" in self.text

    @property
    def infeasible(self) -> bool:
        """Whether CBC reports infeasible, not "infeasible or unbounded"."""
        return any(
            words in self.text
            for words in (
                "Result - Problem proven infeasible",
                "Result - Linear relaxation infeasible",
                "Problem is infeasible",
            )
        )

    @property
    def open_ended(self) -> bool:
        """Whether CBC reports unbounded, or cannot tell it from infeasible."""
        return any(
            words in self.text
            for words in (
                "Problem is unbounded",
                "Linear relaxation unbounded",
                "infeasible or unbounded",
                "infeasible! (or unbounded)",
            )
        )

    @property
    def lower_bound(self) -> float:
        """The proved lower bound, moved outwards by its printed precision."""
        candidates = []
        if (found := _last(POSSIBLE, self.text)) is not None:
            candidates.append(found - 1e-7 * max(1.0, abs(found)))
        if (found := _last(LOWER, self.text)) is not None:
            candidates.append(found - 1e-3)
        if not candidates and self.optimal and (found := _last(OBJECTIVE, self.text)) is not None:
            candidates.append(found - 1e-7 * max(1.0, abs(found)))
        best = max(candidates, default=-NOTHING)
        return best if abs(best) < NOTHING else float("-inf")

    @property
    def nodes(self) -> int | None:
        """The number of branch-and-bound nodes."""
        found = NODES.findall(self.text)
        return int(found[-1]) if found else None

    @property
    def verdict(self) -> str:
        """CBC's message on the result."""
        lines = [line for line in self.text.splitlines() if line.startswith("Result - ")]
        return lines[-1].removeprefix("Result - ") if lines else ""


def _last(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.findall(text)
    return float(found[-1]) if found else None


CBC = "PULP_CBC_CMD"
DROPPED = 1e-12
TIGHTEST_GAP = 1e-12
TRUSTED_VIOLATION = 1e-5


class Pulp(Solver):
    """CBC as PuLP ships it, or another solver by PuLP's name.

    CBC prints points with eight digits, so no tolerances are listed. For other solvers PuLP passes
    on neither dual bounds nor tolerances: their bounds are worthless.
    """

    name = "pulp"
    package = "pulp"
    distribution = "PuLP"
    features = frozenset(Feature) - {Feature.TOLERANCES}
    terms = Licence("MIT, CBC: EPL-2.0")

    def __init__(self, backend: str = "CBC") -> None:
        self.backend = CBC if backend.upper() == "CBC" else backend
        if self.backend != CBC:
            self.features = frozenset({Feature.INTEGER, Feature.TIME_LIMIT})

    def solve(self, problem: Problem, settings: Settings | None = None) -> Outcome:
        """Solve ``problem``; see `Solver.solve`."""
        pulp = vendor(Pulp)
        if self.backend != CBC:
            self._check_backend(pulp)
        solve = _solve_cbc if self.backend == CBC else self._solve_other
        try:
            return run_prepared(solve, problem, settings, dropped=DROPPED)
        except pulp.PulpSolverError as error:
            return failed_outcome(problem, f"PuLP: {error}")

    def _check_backend(self, pulp: Any) -> None:
        names = pulp.listSolvers()
        if self.backend not in names:
            raise SolverError(
                f"PuLP has no solver {self.backend!r} (known: CBC, {', '.join(sorted(names))})"
            )
        if not pulp.getSolver(self.backend, msg=False).available():
            raise SolverError(f"PuLP cannot find the solver {self.backend!r}: install it first")

    def _solve_other(self, problem: Problem, settings: Settings) -> Outcome:
        pulp = vendor(Pulp)
        started = time.perf_counter()
        model, variables = _build(pulp, problem)
        # PuLP reads a gap of 0 as "not given", so the solver would use its loose default.
        gap = max(settings.relative_gap, TIGHTEST_GAP)
        model.solve(
            pulp.getSolver(self.backend, msg=False, timeLimit=settings.time_limit, gapRel=gap)
        )
        message = f"{self.backend}: {pulp.LpStatus[model.status]}"
        if model.status in (pulp.LpStatusInfeasible, pulp.LpStatusUnbounded):
            # PuLP reports "infeasible or unbounded" as "infeasible".
            outcome = settle_unbounded(self._solve_other, problem, settings, started, message)
            wrong = model.status == pulp.LpStatusInfeasible and outcome.status is Status.UNBOUNDED
            return failed_outcome(problem, f"{message}, but a point exists") if wrong else outcome
        found = _solution(problem, variables)
        if model.sol_status == pulp.LpSolutionOptimal and found is not None:
            return Outcome(Status.OPTIMAL, found, worthless(problem), message=message)
        if (
            model.sol_status == pulp.LpSolutionIntegerFeasible
            or Deadline.after(settings.time_limit, started).over
        ):
            return replace(stopped_outcome(problem, message), solution=found)
        return failed_outcome(problem, message)


def _solve_cbc(problem: Problem, settings: Settings) -> Outcome:
    pulp = vendor(Pulp)
    started = time.perf_counter()
    model, variables = _build(pulp, problem)
    with tempfile.TemporaryDirectory(prefix="leaveout-") as folder:
        path = Path(folder) / "cbc.log"
        command = pulp.PULP_CBC_CMD(
            msg=False,
            logPath=str(path),
            timeLimit=settings.time_limit,
            # One thread is CBC's default; setting it to 1 would only slow CBC down.
            threads=settings.threads if settings.threads > 1 else None,
            options=_cbc_options(settings),
        )
        command.tmpDir = folder
        model.solve(command)
        log = CbcLog(path.read_text(errors="replace"))
    message = log.verdict or str(pulp.LpStatus[model.status])
    # Only CBC's final message counts: its preprocessing may print "infeasible or unbounded" before.
    if log.infeasible:
        return infeasible_outcome(problem, message)
    mixed = bool(problem.integer.any())
    if log.optimal or log.at_limit:
        status = Status.STOPPED if log.at_limit else Status.OPTIMAL
        found = _solution(problem, variables) if model.sol_status in _POINT else None
        if status is Status.OPTIMAL and found is None:
            return failed_outcome(problem, f"{message}, without a usable point")
        # A stopped simplex method proves nothing.
        lower = log.lower_bound if mixed or log.optimal else float("-inf")
        bound = (-lower if problem.maximise else lower) + problem.offset
        return Outcome(status, found, bound, nodes=log.nodes if mixed else None, message=message)
    if log.open_ended:
        return settle_unbounded(_solve_cbc, problem, settings, started, message)
    if Deadline.after(settings.time_limit, started).over:
        return stopped_outcome(problem, message)
    return failed_outcome(problem, message)


# PuLP's codes for "optimal" and "a feasible point".
_POINT = (1, 2)


def _cbc_options(settings: Settings) -> list[str]:
    feasibility = clip(settings.feasibility_tolerance, 1e-9, 1e-4)
    return [
        f"primalT {feasibility:g}",
        f"dualT {feasibility:g}",
        f"integerT {clip(settings.integrality_tolerance, 1e-9, 1e-4):g}",
        f"ratio {settings.relative_gap:g}",
        "allow 0",
        f"randomSeed {settings.seed + 1}",
        f"randomCbcSeed {settings.seed + 1}",
        *([] if settings.presolve else ["presolve off", "preprocess off"]),
    ]


def _build(pulp: Any, problem: Problem) -> tuple[Any, list[Any]]:
    """Return the problem as a minimisation without offset, so signs are unambiguous."""
    model = pulp.LpProblem("leaveout", pulp.LpMinimize)
    variables = [
        pulp.LpVariable(
            f"v{k}",
            low if np.isfinite(low) else None,
            high if np.isfinite(high) else None,
            cat=pulp.LpInteger if integer else pulp.LpContinuous,
        )
        for k, (low, high, integer) in enumerate(
            zip(
                problem.lower.tolist(),
                problem.upper.tolist(),
                problem.integer.tolist(),
                strict=True,
            )
        )
    ]
    sign = -1.0 if problem.maximise else 1.0
    # Every variable appears, also those with coefficient zero, so that PuLP knows all of them.
    model += pulp.LpAffineExpression(
        zip(variables, (sign * problem.objective).tolist(), strict=True)
    )
    matrix = problem.matrix
    indices, data = matrix.indices.tolist(), matrix.data.tolist()
    for row, (low, high) in enumerate(
        zip(problem.row_lower.tolist(), problem.row_upper.tolist(), strict=True)
    ):
        span = range(int(matrix.indptr[row]), int(matrix.indptr[row + 1]))
        terms = [(variables[indices[k]], data[k]) for k in span]
        if low == high:
            model += pulp.LpConstraint(pulp.LpAffineExpression(terms), pulp.LpConstraintEQ, rhs=low)
            continue
        for relation, side in ((pulp.LpConstraintGE, low), (pulp.LpConstraintLE, high)):
            if np.isfinite(side):
                model += pulp.LpConstraint(pulp.LpAffineExpression(terms), relation, rhs=side)
    return model, variables


def _solution(problem: Problem, variables: list[Any]) -> Solution | None:
    values = [variable.varValue for variable in variables]
    if any(value is None for value in values):
        return None
    point = np.array(values, dtype=np.float64)
    scale = max(1.0, float(np.abs(point).max()))
    # PuLP passes on whatever a stopped solver left, even if it is not a feasible point.
    return (
        solution(problem, point) if problem.violation(point) <= TRUSTED_VIOLATION * scale else None
    )
