"""Gurobi through gurobipy, limited to 2,000 variables and rows without a licence."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from leaveout.errors import SolverError
from leaveout.solvers.outcomes import (
    clip,
    failed_outcome,
    finite_or,
    infeasible_outcome,
    run_prepared,
    settle_unbounded,
    solution,
    worthless,
)
from leaveout.solvers.problem import Problem
from leaveout.solvers.protocol import Feature, Licence, Outcome, Settings, Solver, Status, vendor

DROPPED = 1e-13
TIGHTEST_TOLERANCE = 1e-9
LOOSEST_TOLERANCE = 1e-2


class Gurobi(Solver):
    """The Gurobi optimizer, a commercial product.

    Tolerances down to 1e-9 are accepted.
    """

    name = "gurobi"
    package = "gurobipy"
    distribution = "gurobipy"
    features = frozenset(Feature)
    terms = Licence("commercial, size-limited trial", max_variables=2000, max_rows=2000)

    def solve(self, problem: Problem, settings: Settings | None = None) -> Outcome:
        """Solve ``problem``; see `Solver.solve`."""
        gurobipy = vendor(Gurobi)
        try:
            return run_prepared(_solve, problem, settings, dropped=DROPPED)
        except gurobipy.GurobiError as error:
            codes = gurobipy.GRB.Error
            if error.errno == codes.SIZE_LIMIT_EXCEEDED:
                raise self.size_error(problem) from error
            if error.errno in (
                codes.NO_LICENSE,
                codes.NETWORK,
                codes.JOB_REJECTED,
                codes.CLOUD,
                codes.CSWORKER,
            ):
                words = str(error).splitlines()[0].rstrip(".")
                raise SolverError(
                    f"Gurobi has no usable licence ({words}): set GRB_LICENSE_FILE to a valid one, "
                    "or use --solver highs, which needs none"
                ) from error
            return failed_outcome(problem, f"Gurobi error {error.errno}: {error}")


def _solve(problem: Problem, settings: Settings) -> Outcome:
    gurobipy = vendor(Gurobi)
    started = time.perf_counter()
    with gurobipy.Env(empty=True) as environment:
        environment.setParam("OutputFlag", 0)
        environment.start()
        with gurobipy.Model(env=environment) as model:
            _build(model, problem)
            _configure(model, settings)
            model.optimize()
            outcome = _outcome(model, problem)
    if outcome is not None:
        return outcome
    # Gurobi's "unbounded" means that there is a ray; whether a point exists remains open.
    return settle_unbounded(_solve, problem, settings, started, "infeasible or unbounded")


def _build(model: Any, problem: Problem) -> None:
    grb = vendor(Gurobi).GRB
    variables = model.addMVar(
        problem.variables,
        lb=problem.lower,
        ub=problem.upper,
        vtype=np.where(problem.integer, grb.INTEGER, grb.CONTINUOUS),
    )
    sense = grb.MAXIMIZE if problem.maximise else grb.MINIMIZE
    model.setObjective(problem.objective @ variables + problem.offset, sense)
    low, high = problem.row_lower, problem.row_upper
    equal = low == high
    for rows, relation, side in (
        (equal, grb.EQUAL, low),
        (~equal & np.isfinite(low), grb.GREATER_EQUAL, low),
        (~equal & np.isfinite(high), grb.LESS_EQUAL, high),
    ):
        if rows.any():
            model.addMConstr(problem.matrix[rows], variables, relation, side[rows])


def _configure(model: Any, settings: Settings) -> None:
    feasibility = clip(settings.feasibility_tolerance, TIGHTEST_TOLERANCE, LOOSEST_TOLERANCE)
    model.Params.FeasibilityTol = feasibility
    model.Params.OptimalityTol = feasibility
    model.Params.IntFeasTol = clip(settings.integrality_tolerance, TIGHTEST_TOLERANCE, 1e-1)
    model.Params.MIPGap = settings.relative_gap
    model.Params.MIPGapAbs = 0.0
    model.Params.Threads = settings.threads
    model.Params.Seed = settings.seed
    model.Params.Presolve = -1 if settings.presolve else 0
    if settings.time_limit is not None:
        model.Params.TimeLimit = settings.time_limit


def _outcome(model: Any, problem: Problem) -> Outcome | None:
    """Read the outcome; None if infeasible or unbounded is undecided."""
    grb = vendor(Gurobi).GRB
    words = {
        grb.OPTIMAL: "optimal",
        grb.INFEASIBLE: "infeasible",
        grb.TIME_LIMIT: "time limit",
        grb.NUMERIC: "numerical trouble",
        grb.SUBOPTIMAL: "suboptimal: the tolerances could not be met",
    }
    message = words.get(model.Status, f"Gurobi status {model.Status}")
    if model.Status == grb.INFEASIBLE:
        return infeasible_outcome(problem, message)
    if model.Status in (grb.INF_OR_UNBD, grb.UNBOUNDED):
        return None
    if model.Status in (grb.LOADED, grb.NUMERIC):
        return failed_outcome(problem, message)
    status = Status.OPTIMAL if model.Status == grb.OPTIMAL else Status.STOPPED
    mixed = bool(problem.integer.any())
    bound = worthless(problem)
    if mixed:
        bound = finite_or(float(model.ObjBound), worthless(problem), limit=grb.INFINITY)
    elif status is Status.OPTIMAL:
        bound = float(model.ObjVal)
    found = None
    if model.SolCount > 0:
        found = solution(problem, np.array(model.getAttr(grb.Attr.X), dtype=np.float64))
    nodes = int(model.NodeCount) if mixed else None
    return Outcome(status, found, bound, nodes=nodes, message=message)
