"""What is particular to one back end, or to one vendor's trap."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.errors import SolverError
from leaveout.solvers import Settings, SolverProcess, Status, find_solver
from leaveout.solvers.conformance_cases import CASES, problem

EASY = problem([1, 1], [([1, 2], 2, 4)])


def installed(spec: str):
    solver = find_solver(spec)
    if not solver.is_available():
        pytest.skip(f"the package of {spec} is not installed")
    return solver


def test_highs_takes_another_number_of_threads_in_the_same_process():
    solver = find_solver("highs")
    for threads in (1, 2, 1):
        assert solver.solve(EASY, Settings(threads=threads)).status is Status.OPTIMAL


@pytest.mark.parametrize("size", [1e-8, 1e-9, 1e-10, 1e-12, 1e-13])
@pytest.mark.parametrize("spec", ["highs", "gurobi", "scip", "pulp", "ortools", "ortools:HIGHS"])
def test_a_small_coefficient_is_kept_or_refused_but_never_dropped_in_silence(spec, size, snapshot):
    stated = problem([1], [([size], 1, np.inf)], upper=10 / size)
    outcome = installed(spec).solve(stated)
    if outcome.status is Status.FAILED:
        assert outcome.message == snapshot
        assert outcome.dual_bound == float("-inf")
        assert size <= 1e-9
    else:
        assert outcome.status is Status.OPTIMAL
        assert outcome.solution.objective == pytest.approx(1 / size, rel=1e-6)


def test_a_coefficient_that_would_be_dropped_and_matters_fails_with_the_cure(snapshot):
    stated = problem([1], [([1e-13], 1, np.inf)], upper=1e14)
    outcome = find_solver("highs").solve(stated)
    assert outcome.status is Status.FAILED
    assert outcome.dual_bound == float("-inf")
    assert outcome.message == snapshot


@pytest.mark.parametrize(
    "size", [{"variables": 2001, "rows": 1}, {"variables": 2, "rows": 2001}], ids=str
)
def test_a_problem_beyond_gurobis_free_licence_names_both_sizes(size, snapshot):
    solver = installed("gurobi")
    rows = [([1.0] * size["variables"], -np.inf, 1.0 + k) for k in range(size["rows"])]
    stated = problem(np.ones(size["variables"]), rows, upper=1, integer=True, maximise=True)
    try:
        outcome = solver.solve(stated)
    except SolverError as error:
        assert str(error) == snapshot
        assert "--solver highs" in str(error)
    else:
        pytest.skip(f"a full licence is installed here ({outcome.status})")


def test_a_gurobi_licence_file_that_is_missing_is_one_clear_line(monkeypatch, tmp_path):
    installed("gurobi")
    monkeypatch.setenv("GRB_LICENSE_FILE", str(tmp_path / "gurobi.lic"))
    with SolverProcess("gurobi") as process, pytest.raises(SolverError) as caught:
        process.solve(EASY)
    message = str(caught.value)
    assert message.startswith("Gurobi has no usable licence (Unable to open")
    assert "--solver highs" in message
    assert "\n" not in message


def test_an_expired_gurobi_licence_is_one_clear_line(monkeypatch, tmp_path, snapshot):
    installed("gurobi")
    licence = tmp_path / "gurobi.lic"
    licence.write_text(
        "TYPE=ACADEMIC\nVERSION=9\nHOSTID=0\nEXPIRATION=2001-01-01\nUSERNAME=nobody\nKEY=00000000\n"
    )
    monkeypatch.setenv("GRB_LICENSE_FILE", str(licence))
    with SolverProcess("gurobi") as process, pytest.raises(SolverError) as told:
        process.solve(EASY)
    assert str(told.value) == snapshot


def test_ortools_solves_although_highspy_is_loaded_here():
    installed("ortools")
    find_solver("highs").solve(EASY)
    assert find_solver("ortools").solve(EASY).status is Status.OPTIMAL


def test_glop_refuses_integers_and_says_what_to_use(snapshot):
    installed("ortools")
    knapsack = next(case.problem for case in CASES if case.name == "knapsack")
    with pytest.raises(SolverError) as told:
        find_solver("ortools:GLOP").solve(knapsack)
    assert str(told.value) == snapshot


def test_pulp_lists_the_solvers_it_knows(snapshot):
    installed("pulp")
    with pytest.raises(SolverError) as told:
        find_solver("pulp:nope").solve(EASY)
    assert str(told.value) == snapshot


def test_pulp_says_when_a_solver_it_knows_is_absent(snapshot):
    installed("pulp")
    with pytest.raises(SolverError) as told:
        find_solver("pulp:MIPCL_CMD").solve(EASY)
    assert str(told.value) == snapshot


def test_no_solver_leaves_files_in_the_working_directory(monkeypatch, tmp_path):
    installed("pulp")
    monkeypatch.chdir(tmp_path)
    find_solver("pulp").solve(EASY)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spec", ["highs", "gurobi", "scip", "pulp", "ortools"])
@pytest.mark.parametrize("maximise", [False, True])
def test_a_stopped_lp_or_a_first_node_never_bounds_too_tightly(spec, maximise):
    solver = installed(spec)
    case = next(case for case in CASES if case.name == "time limit")
    sign = 1.0 if maximise else -1.0
    stated = problem(
        sign * case.problem.objective,
        [(row.tolist(), -np.inf, 2.0) for row in case.problem.matrix.toarray()],
        upper=1,
        integer=True,
        maximise=maximise,
        offset=0.125,
    )
    outcome = solver.solve(stated, Settings(time_limit=0.05))
    assert outcome.status is Status.STOPPED
    assert sign * outcome.dual_bound >= 20 + sign * 0.125 - 1e-6
