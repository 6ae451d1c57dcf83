"""Every installed back end passes the kit, and the kit fails a back end that lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from leaveout.solvers import Feature, Outcome, SolverProcess, Status, find_solver
from leaveout.solvers.conformance import Verdict, check, check_case
from leaveout.solvers.conformance_cases import CASES, Case

SPECS = (
    "highs",
    "gurobi",
    "pulp",
    "pulp:HiGHS",
    "ortools",
    "ortools:HIGHS",
    "ortools:GLOP",
    "scip",
)


@pytest.fixture(scope="module", params=SPECS)
def process(request) -> Iterator[SolverProcess]:
    if not find_solver(request.param).is_available():
        pytest.skip(f"the package of {request.param} is not installed")
    if request.param == "pulp:HiGHS" and not find_solver("highs").is_available():
        pytest.skip("highspy, which PuLP's HiGHS needs, is not installed")
    with SolverProcess(request.param) as child:
        yield child


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_installed_solver_conforms(process: SolverProcess, case: Case):
    result = check_case(find_solver(process.spec), case, through=process)
    if result.verdict is Verdict.NOT_CLAIMED:
        pytest.skip(f"{process.spec} does not list it: {result.detail}")
    assert result.passed, result.detail


def test_the_default_solver_claims_every_feature():
    assert find_solver("highs").features == frozenset(Feature)


class Liar:
    """HiGHS with one thing changed."""

    features = frozenset(Feature)

    def __init__(self, change):
        self.change = change

    def solve(self, problem, settings=None) -> Outcome:
        return self.change(find_solver("highs").solve(problem, settings))


def shifted(outcome: Outcome, by: float) -> Outcome:
    if outcome.solution is None:
        return outcome
    point = outcome.solution.point + by
    return replace(outcome, solution=replace(outcome.solution, point=point))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("knapsack", lambda o: replace(o, dual_bound=o.dual_bound - 1)),
        ("knapsack", lambda o: replace(o, dual_bound=np.inf)),
        ("knapsack", lambda o: replace(o, dual_bound=o.dual_bound + 1)),
        ("lp minimise", lambda o: replace(o, dual_bound=o.dual_bound + 1)),
        ("lp minimise", lambda o: shifted(o, -1e-4)),
        ("lp minimise", lambda o: shifted(o, 1e-4)),
        ("lp minimise", lambda o: replace(o, solution=None)),
        ("narrow rows", lambda o: replace(o, status=Status.INFEASIBLE)),
        ("lp infeasible", lambda o: replace(o, dual_bound=0.0)),
        ("lp unbounded", lambda o: replace(o, dual_bound=1e20)),
        ("lp unbounded", lambda o: replace(o, status=Status.INFEASIBLE)),
    ],
)
def test_the_kit_fails_a_solver_that_lies(name, change, snapshot):
    case = next(case for case in CASES if case.name == name)
    honest, lie = check_case(Liar(lambda o: o), case), check_case(Liar(change), case)
    assert honest.verdict is Verdict.PASSED
    assert lie.verdict is Verdict.FAILED
    assert lie.detail == snapshot


def test_the_kit_fails_a_solver_that_ignores_the_tolerances():
    class Careless(Liar):
        def solve(self, problem, settings=None):
            loose = {"feasibility_tolerance": 1e-6, "integrality_tolerance": 1e-6}
            return super().solve(problem, replace(settings, **loose))

    results = check(Careless(lambda o: o), cases=[case for case in CASES if "narrow" in case.name])
    assert [result.verdict for result in results] == [Verdict.FAILED, Verdict.FAILED]


def test_check_runs_every_case_and_says_what_was_not_claimed():
    class Modest(Liar):
        features = frozenset({Feature.TIME_LIMIT})

    results = check(Modest(lambda o: o))
    assert [result.name for result in results] == [case.name for case in CASES]
    claims = {result.name: result.verdict for result in results}
    assert claims["knapsack"] is Verdict.NOT_CLAIMED
    assert claims["lp minimise"] is Verdict.PASSED
