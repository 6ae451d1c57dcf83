"""SCIP through pyscipopt."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

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
from leaveout.solvers.protocol import Feature, Licence, Outcome, Settings, Solver, Status, vendor

DROPPED = 1e-12
TIGHTEST_TOLERANCE = 1e-9
INFINITY = 1e20


class Scip(Solver):
    """SCIP on one thread; tolerances from 1e-9, with its numerical zero lowered to 1e-12."""

    name = "scip"
    package = "pyscipopt"
    distribution = "PySCIPOpt"
    features = frozenset(Feature) - {Feature.THREADS}
    terms = Licence("Apache-2.0")

    def solve(self, problem: Problem, settings: Settings | None = None) -> Outcome:
        """Solve ``problem``; see `Solver.solve`."""
        vendor(Scip)
        return run_prepared(_solve, problem, settings, dropped=DROPPED)


def parameters(settings: Settings) -> dict[str, float]:
    """Return SCIP's real parameters for ``settings``, under SCIP's own names."""
    # SCIP has one tolerance for rows and integrality.
    tolerance = clip(
        min(settings.feasibility_tolerance, settings.integrality_tolerance),
        TIGHTEST_TOLERANCE,
        1e-3,
    )
    return {
        "numerics/feastol": tolerance,
        "numerics/dualfeastol": min(tolerance, 1e-7),
        # Smaller differences count as zero, so this must be below the tolerance.
        "numerics/epsilon": DROPPED,
        "numerics/sumepsilon": min(tolerance, 1e-6),
        "limits/gap": settings.relative_gap,
        "limits/absgap": 0.0,
    }


def _solve(problem: Problem, settings: Settings) -> Outcome:
    started = time.perf_counter()
    if problem.integer.any():
        # With tight tolerances SCIP can dive along a ray for ever, even past its time limit.
        decided = along_a_ray(_solve, _solve, problem, settings, started)
        if decided is not None:
            return decided
        settings = with_time_left(settings, started)
    model = vendor(Scip).Model()
    model.hideOutput()
    for name, value in parameters(settings).items():
        model.setParam(name, value)
    model.setParam("randomization/randomseedshift", settings.seed)
    if not settings.presolve:
        model.setPresolve(vendor(Scip).SCIP_PARAMSETTING.OFF)
    if settings.time_limit is not None:
        model.setParam("limits/time", settings.time_limit)
    variables = _build(model, problem)
    # Releases the interpreter lock, so that a watching thread keeps running.
    model.optimizeNogil()
    message = str(model.getStatus())
    if message == "infeasible":
        return infeasible_outcome(problem, message)
    if message in ("inforunbd", "unbounded"):
        return settle_unbounded(_solve, problem, settings, started, message)
    if message in ("optimal", "gaplimit"):
        status = Status.OPTIMAL
    elif message.endswith("limit") or message == "userinterrupt":
        status = Status.STOPPED
    else:
        return failed_outcome(problem, message)
    found = None
    if model.getNSols() > 0:
        best = model.getBestSol()
        found = solution(problem, np.array([best[each] for each in variables], dtype=np.float64))
    bound = finite_or(float(model.getDualbound()), worthless(problem), limit=INFINITY)
    nodes = int(model.getNTotalNodes())
    return Outcome(status, found, bound, nodes=nodes, message=message)


def _build(model: Any, problem: Problem) -> list[Any]:
    scip = vendor(Scip, "pyscipopt.scip")
    variables = [
        model.addVar(
            vtype="I" if integer else "C",
            lb=low if np.isfinite(low) else None,
            ub=high if np.isfinite(high) else None,
        )
        for integer, low, high in zip(
            problem.integer.tolist(), problem.lower.tolist(), problem.upper.tolist(), strict=True
        )
    ]
    terms = [scip.Term(variable) for variable in variables]
    matrix = problem.matrix
    indices, data = matrix.indices.tolist(), matrix.data.tolist()
    for row, (low, high) in enumerate(
        zip(problem.row_lower.tolist(), problem.row_upper.tolist(), strict=True)
    ):
        start, end = int(matrix.indptr[row]), int(matrix.indptr[row + 1])
        expression = scip.Expr({terms[indices[k]]: data[k] for k in range(start, end)})
        model.addCons(
            scip.ExprCons(
                expression,
                lhs=low if np.isfinite(low) else -INFINITY,
                rhs=high if np.isfinite(high) else INFINITY,
            )
        )
    objective = scip.Expr(
        {terms[k]: float(problem.objective[k]) for k in np.flatnonzero(problem.objective)}
    )
    model.setObjective(objective, "maximize" if problem.maximise else "minimize")
    model.addObjoffset(problem.offset)
    return variables
