"""Solvers shipped with OR-Tools, through MathOpt, each in its own process."""

from __future__ import annotations

import datetime
import time
from typing import Any

import numpy as np

from leaveout.errors import SolverError
from leaveout.solvers.outcomes import (
    along_a_ray,
    clip,
    failed_outcome,
    finite_or,
    infeasible_outcome,
    run_prepared,
    settle_unbounded,
    solution,
    with_time_left,
    worthless,
)
from leaveout.solvers.problem import Problem
from leaveout.solvers.process import SolverProcess, inside_worker
from leaveout.solvers.protocol import Feature, Licence, Outcome, Settings, Solver, Status, vendor
from leaveout.solvers.scip import parameters

# MathOpt loads the model before it sets the thresholds of SCIP and HiGHS.
DROPPED = 1e-9
BEYOND = 1e20

BACKENDS = {
    "SCIP": frozenset(Feature) - {Feature.THREADS},
    "HIGHS": frozenset(Feature) - {Feature.THREADS},
    "GLOP": frozenset({Feature.TIME_LIMIT, Feature.TOLERANCES}),
}


class OrTools(Solver):
    """SCIP, HiGHS or Glop as OR-Tools ships them.

    Its library clashes with highspy's, so calls run in their own process. CP-SAT rounds
    coefficients and PDLP is loose: neither bound is a proof.
    """

    name = "ortools"
    package = "ortools"
    distribution = "ortools"
    features = BACKENDS["SCIP"]
    terms = Licence("Apache-2.0")

    def __init__(self, backend: str = "SCIP") -> None:
        self.backend = backend.upper()
        if self.backend not in BACKENDS:
            raise SolverError(
                f"ortools has no solver {backend!r} for leaveout (known: {', '.join(BACKENDS)})"
            )
        self.features = BACKENDS[self.backend]

    def solve(self, problem: Problem, settings: Settings | None = None) -> Outcome:
        """Solve ``problem``; see `Solver.solve`."""
        if not inside_worker():
            with SolverProcess(f"{self.name}:{self.backend}") as process:
                return process.solve(problem, settings)
        vendor(OrTools, "ortools.math_opt.python.mathopt")
        if problem.integer.any() and Feature.INTEGER not in self.features:
            raise SolverError(
                f"ortools:{self.backend} does not support integer variables: use --solver ortools"
            )
        return run_prepared(self._solve, problem, settings, dropped=DROPPED)

    def _solve(self, problem: Problem, settings: Settings) -> Outcome:
        mathopt = vendor(OrTools, "ortools.math_opt.python.mathopt")
        started = time.perf_counter()
        if self.backend == "SCIP":
            # MathOpt cannot pass on SCIP's infinite objective along a ray.
            glop = OrTools("GLOP")
            decided = along_a_ray(glop._solve, self._solve, problem, settings, started)
            if decided is not None:
                return decided
            settings = with_time_left(settings, started)
        model, variables = _build(mathopt, problem)
        kind = mathopt.SolverType["GSCIP" if self.backend == "SCIP" else self.backend]
        try:
            result = mathopt.solve(model, kind, params=self._parameters(mathopt, settings))
        except (AttributeError, RuntimeError, ValueError) as error:
            # OR-Tools 9.15 raises an AttributeError while reporting its own errors.
            return failed_outcome(problem, f"OR-Tools: {str(error).splitlines()[0]}")
        reasons = mathopt.TerminationReason
        termination = result.termination
        message = termination.detail or termination.reason.name.lower().replace("_", " ")
        if termination.reason == reasons.INFEASIBLE:
            return infeasible_outcome(problem, message)
        if termination.reason in (reasons.UNBOUNDED, reasons.INFEASIBLE_OR_UNBOUNDED):
            return settle_unbounded(self._solve, problem, settings, started, message)
        if termination.reason == reasons.OPTIMAL:
            status = Status.OPTIMAL
        elif termination.reason in (reasons.FEASIBLE, reasons.NO_SOLUTION_FOUND):
            status = Status.STOPPED
        else:
            return failed_outcome(problem, message)
        found = None
        if result.has_primal_feasible_solution():
            values = result.variable_values(variables)
            found = solution(problem, np.array(values, dtype=np.float64))
        bound = worthless(problem)
        if status is Status.OPTIMAL or Feature.DUAL_BOUND in self.features:
            bound = finite_or(float(termination.objective_bounds.dual_bound), bound, limit=BEYOND)
        nodes = int(result.solve_stats.node_count) if problem.integer.any() else None
        return Outcome(status, found, bound, nodes=nodes, message=message)

    def _parameters(self, mathopt: Any, settings: Settings) -> Any:
        chosen = mathopt.SolveParameters(
            random_seed=settings.seed,
            presolve=None if settings.presolve else mathopt.Emphasis.OFF,
            time_limit=None
            if settings.time_limit is None
            else datetime.timedelta(seconds=settings.time_limit),
        )
        feasibility = clip(settings.feasibility_tolerance, 1e-9, 1e-4)
        if self.backend == "GLOP":
            chosen.glop.primal_feasibility_tolerance = feasibility
            chosen.glop.dual_feasibility_tolerance = feasibility
            chosen.glop.solution_feasibility_tolerance = feasibility
            return chosen
        chosen.relative_gap_tolerance = settings.relative_gap
        chosen.absolute_gap_tolerance = 0.0
        if self.backend == "SCIP":
            for name, value in parameters(settings).items():
                if not name.startswith("limits/"):
                    chosen.gscip.real_params[name] = value
            return chosen
        chosen.highs.double_options["primal_feasibility_tolerance"] = feasibility
        chosen.highs.double_options["dual_feasibility_tolerance"] = feasibility
        chosen.highs.double_options["mip_feasibility_tolerance"] = min(
            feasibility, clip(settings.integrality_tolerance, 1e-9, 1e-4)
        )
        return chosen


def _build(mathopt: Any, problem: Problem) -> tuple[Any, list[Any]]:
    model = mathopt.Model()
    variables = [
        model.add_variable(lb=low, ub=high, is_integer=integer)
        for low, high, integer in zip(
            problem.lower.tolist(), problem.upper.tolist(), problem.integer.tolist(), strict=True
        )
    ]
    matrix = problem.matrix
    indices, data = matrix.indices.tolist(), matrix.data.tolist()
    for row, (low, high) in enumerate(
        zip(problem.row_lower.tolist(), problem.row_upper.tolist(), strict=True)
    ):
        constraint = model.add_linear_constraint(lb=low, ub=high)
        for k in range(int(matrix.indptr[row]), int(matrix.indptr[row + 1])):
            constraint.set_coefficient(variables[indices[k]], data[k])
    for k in np.flatnonzero(problem.objective).tolist():
        model.objective.set_linear_coefficient(variables[k], float(problem.objective[k]))
    model.objective.offset = problem.offset
    model.objective.is_maximize = problem.maximise
    return model, variables
