"""HiGHS through highspy, the default, without size limit."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

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

DROPPED = 1e-12
TIGHTEST_TOLERANCE = 1e-10


class Highs(Solver):
    """The HiGHS simplex and branch-and-cut solver.

    Keeps coefficients down to 1e-12 (its default drops those below 1e-9); tolerances down to 1e-10.
    A linear problem stopped early has no dual bound.
    """

    name = "highs"
    package = "highspy"
    distribution = "highspy"
    features = frozenset(Feature)
    terms = Licence("MIT")

    def solve(self, problem: Problem, settings: Settings | None = None) -> Outcome:
        """Solve ``problem``; see `Solver.solve`."""
        vendor(Highs)
        return run_prepared(_solve, problem, settings, dropped=DROPPED)


def _solve(problem: Problem, settings: Settings) -> Outcome:
    highspy = vendor(Highs)

    started = time.perf_counter()
    model = highspy.Highs()
    model.silent()
    _configure(model, settings)
    if _pass(model, problem) != highspy.HighsStatus.kOk:
        return failed_outcome(problem, "HiGHS could not read the problem")
    model.run()
    status = model.getModelStatus()
    message = model.modelStatusToString(status)
    codes = highspy.HighsModelStatus
    if status == codes.kInfeasible:
        return infeasible_outcome(problem, message)
    if status in (codes.kUnbounded, codes.kUnboundedOrInfeasible):
        return settle_unbounded(_solve, problem, settings, started, message)
    if status == codes.kOptimal:
        return _outcome(model, problem, Status.OPTIMAL, message)
    if status in (
        codes.kTimeLimit,
        codes.kIterationLimit,
        codes.kSolutionLimit,
        codes.kInterrupt,
    ):
        return _outcome(model, problem, Status.STOPPED, message)
    return failed_outcome(problem, message)


def _configure(model: Any, settings: Settings) -> None:
    feasibility = clip(settings.feasibility_tolerance, TIGHTEST_TOLERANCE, 1e-4)
    integrality = clip(settings.integrality_tolerance, TIGHTEST_TOLERANCE, 1e-4)
    options: dict[str, Any] = {
        "threads": settings.threads,
        "parallel": "on" if settings.threads > 1 else "off",
        "random_seed": settings.seed,
        "presolve": "choose" if settings.presolve else "off",
        "primal_feasibility_tolerance": feasibility,
        "dual_feasibility_tolerance": feasibility,
        # One option serves rows and integrality inside the search tree.
        "mip_feasibility_tolerance": min(feasibility, integrality),
        "mip_rel_gap": settings.relative_gap,
        "mip_abs_gap": 0.0,
        "small_matrix_value": DROPPED,
        "large_matrix_value": float("inf"),
        "infinite_bound": float("inf"),
        "infinite_cost": float("inf"),
    }
    if settings.time_limit is not None:
        options["time_limit"] = settings.time_limit
    for name, value in options.items():
        model.setOptionValue(name, value)
    # The thread pool of an earlier solve rejects a new number of threads.
    model.resetGlobalScheduler(True)


def _pass(model: Any, problem: Problem) -> Any:
    highspy = vendor(Highs)

    matrix = problem.matrix
    sense = highspy.ObjSense.kMaximize if problem.maximise else highspy.ObjSense.kMinimize
    return model.passModel(
        problem.variables,
        problem.rows,
        int(matrix.nnz),
        int(highspy.MatrixFormat.kRowwise),
        int(sense),
        problem.offset,
        problem.objective,
        problem.lower,
        problem.upper,
        problem.row_lower,
        problem.row_upper,
        matrix.indptr[:-1].astype(np.int32),
        matrix.indices.astype(np.int32),
        matrix.data,
        problem.integer.astype(np.int32),
    )


def _outcome(model: Any, problem: Problem, status: Status, message: str) -> Outcome:
    highspy = vendor(Highs)

    info = model.getInfo()
    found = None
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        found = solution(problem, np.array(model.getSolution().col_value, dtype=np.float64))
    nodes = None
    if problem.integer.any():
        bound = finite_or(float(info.mip_dual_bound), worthless(problem), limit=1e200)
        nodes = int(info.mip_node_count)
    elif status is Status.OPTIMAL:
        bound = float(info.objective_function_value)
    else:
        bound = worthless(problem)
    return Outcome(status, found, bound, nodes=nodes, message=message)
