"""Solvers are found by name; a bad plug-in costs a warning, never the others."""

from __future__ import annotations

import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from leaveout.errors import SolverError
from leaveout.solvers import Feature, available, describe, find_solver, registry

from support import children

ROOT = Path(__file__).parents[2]

GOOD = """
    from leaveout.solvers import Feature, Licence, Outcome, Solver, Status

    class Mine(Solver):
        name, package, distribution = "mine", "json", "mine"
        features, terms = frozenset({Feature.INTEGER}), Licence("mine")

        def solve(self, problem, settings=None):
            return Outcome(Status.FAILED, None, 0.0)

    class Absent(Mine):
        name, package = "absent", "no_such_package_anywhere"

    class Abstract(Solver):
        name, package, distribution = "abstract", "json", "mine"
        features, terms = frozenset(), Licence("mine")

    def function(problem):
        return None
"""


def test_highs_is_the_default():
    assert find_solver().name == "highs"


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_built_in_solver_answers_to_its_name(name):
    assert find_solver(name).name == name


def test_an_unknown_name_lists_the_known_ones_and_suggests_the_nearest(snapshot):
    with pytest.raises(SolverError) as e:
        find_solver("gurobbi")
    assert str(e.value) == snapshot
    assert all(name in str(e.value) for name in registry.BUILT_IN)


def test_an_option_reaches_the_solver():
    assert find_solver("pulp:HiGHS").backend == "HiGHS"
    assert find_solver("ortools:glop").features == {Feature.TIME_LIMIT, Feature.TOLERANCES}


def test_an_option_of_a_solver_without_options_is_refused(snapshot):
    with pytest.raises(SolverError) as told:
        find_solver("highs:fast")
    assert str(told.value) == snapshot


def test_an_unknown_option_is_refused_with_the_known_ones(snapshot):
    with pytest.raises(SolverError) as told:
        find_solver("ortools:nope")
    assert str(told.value) == snapshot


def test_a_plugin_is_found_described_and_available(install):
    install("mine", GOOD, mine="Mine", absent="Absent")
    assert type(find_solver("mine")).__module__ == "mine"
    rows = {row.name: row for row in describe()}
    assert rows["mine"].distribution == "mine"
    assert rows["mine"].features == (Feature.INTEGER,)
    assert not rows["absent"].installed
    assert "mine" in available()
    assert "absent" not in available()


def test_a_plugin_cannot_replace_a_built_in_solver(install, snapshot):
    install("mine", GOOD, highs="Mine")
    with pytest.warns(UserWarning, match="'highs'") as heard:
        assert "highs" in available()
    assert [str(each.message) for each in heard] == snapshot
    assert type(find_solver("highs")).__module__ == "leaveout.solvers.highs"


def test_of_two_plugins_with_one_name_the_first_wins(install, snapshot):
    install("mine", GOOD, twin="Mine")
    install("other", GOOD, twin="Mine")
    with pytest.warns(UserWarning, match="'twin'") as heard:
        find_solver("twin")
    assert [str(each.message) for each in heard] == snapshot


@pytest.mark.parametrize("target", ["Missing", "function", "Abstract"])
def test_a_broken_plugin_is_skipped_with_a_warning_that_names_it(install, target, snapshot):
    install("mine", GOOD, broken=target)
    with pytest.warns(UserWarning, match="'broken'") as heard:
        assert "highs" in available()
    assert [str(each.message) for each in heard] == snapshot
    with pytest.raises(SolverError) as told:
        find_solver("broken")
    assert str(told.value) == snapshot


def test_a_plugin_whose_import_fails_is_skipped(install, snapshot):
    install("mine", "import no_such_package_anywhere", broken="Mine")
    with pytest.warns(UserWarning, match="ModuleNotFoundError") as heard:
        assert [row.name for row in describe()] == list(registry.BUILT_IN)
    assert [str(each.message) for each in heard] == snapshot


def test_plugins_can_be_switched_off(install, monkeypatch, snapshot):
    install("mine", GOOD, mine="Mine")
    monkeypatch.setenv("LEAVEOUT_PLUGINS", "off")
    registry._plugins.cache_clear()
    with pytest.raises(SolverError) as told:
        find_solver("mine")
    assert str(told.value) == snapshot
    assert find_solver("highs").name == "highs"


def test_built_in_solvers_are_not_their_own_duplicates(fresh_registry):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        available()


def test_packaging_metadata_repeats_no_other_table_than_the_registry():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    points = declared.get("entry-points", {}).get(registry.GROUP, registry.BUILT_IN)
    assert points == registry.BUILT_IN


def test_a_missing_package_names_its_cure(monkeypatch, snapshot):
    solver = find_solver("scip")
    monkeypatch.setattr(type(solver), "package", "no_such_package_anywhere")
    from leaveout.solvers.conformance_cases import CASES

    with pytest.raises(SolverError) as told:
        solver.solve(CASES[0].problem)
    assert str(told.value) == snapshot


def test_describing_the_solvers_imports_no_vendor_and_takes_no_licence():
    code = (
        "import sys; from leaveout.solvers import describe, SolverProcess; describe();"
        "bad = {'highspy', 'gurobipy', 'pulp', 'ortools', 'pyscipopt'} & set(sys.modules);"
        "sys.exit(' '.join(bad) or 0)"
    )
    children.run([sys.executable, "-c", code], check=True)
