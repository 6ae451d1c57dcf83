"""On small random problems every back end agrees with trying all points."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leaveout.solvers import Problem, Settings, SolverProcess, Status, find_solver
from leaveout.solvers.conformance_cases import problem

from support.depth import rounds

SPECS = ("highs", "gurobi", "pulp", "ortools", "scip")
SMALL = st.integers(-6, 6)


@pytest.fixture(scope="module", params=SPECS)
def process(request) -> Iterator[SolverProcess]:
    if not find_solver(request.param).is_available():
        pytest.skip(f"the package of {request.param} is not installed")
    with SolverProcess(request.param) as child:
        yield child


@st.composite
def pure_integer_problems(draw) -> Problem:
    count = draw(st.integers(1, 4))
    rows = []
    for _ in range(draw(st.integers(0, 3))):
        low, width = draw(SMALL), draw(st.integers(0, 12))
        below, above = draw(st.booleans()), draw(st.booleans())
        rows.append(
            (
                draw(st.lists(SMALL, min_size=count, max_size=count)),
                low if below else -np.inf,
                low + width if above else np.inf,
            )
        )
    lower = draw(st.lists(st.integers(-3, 2), min_size=count, max_size=count))
    spans = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    return problem(
        draw(st.lists(SMALL, min_size=count, max_size=count)),
        rows,
        lower=lower,
        upper=np.array(lower) + np.array(spans),
        integer=True,
        maximise=draw(st.booleans()),
        offset=draw(SMALL) / 4,
    )


def best_by_trying(stated: Problem) -> float | None:
    ranges = (
        range(int(low), int(high) + 1) for low, high in zip(stated.lower, stated.upper, strict=True)
    )
    values = [
        stated.value(point)
        for point in map(np.array, itertools.product(*ranges))
        if stated.violation(point.astype(np.float64)) == 0
    ]
    if not values:
        return None
    return max(values) if stated.maximise else min(values)


@given(stated=pure_integer_problems())
@settings(
    max_examples=rounds(40),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_agrees_with_trying_all_points(process: SolverProcess, stated: Problem):
    best = best_by_trying(stated)
    outcome = process.solve(stated, Settings(time_limit=20.0))
    if best is None:
        assert outcome.status is Status.INFEASIBLE
        return
    assert outcome.status is Status.OPTIMAL
    assert outcome.solution.objective == pytest.approx(best, abs=1e-6)
    assert stated.violation(outcome.solution.point) <= 1e-6
    sign = 1 if stated.maximise else -1
    assert sign * (outcome.dual_bound - best) >= -1e-6
