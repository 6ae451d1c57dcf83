"""CBC's log is read for what it proves, and for no more."""

from __future__ import annotations

import pytest

from leaveout.solvers.pulp import CbcLog

STOPPED = """
Cbc0005I Partial search - best objective -20884 (best possible -21248.542), took 3 iterations
Result - Stopped on time limit

Objective value:                -20884.00000000
Lower bound:                    -21248.542
Gap:                            0.02
Enumerated nodes:               3030
"""


def test_a_stopped_search_gives_its_best_possible_moved_outwards():
    log = CbcLog(STOPPED)
    assert log.at_limit
    assert not log.optimal
    assert -21248.55 < log.lower_bound < -21248.542
    assert log.nodes == 3030
    assert log.verdict == "Stopped on time limit"


def test_the_objective_of_a_stopped_search_is_no_bound():
    log = CbcLog("Result - Stopped on time limit\n\nObjective value:    -5.00000000\n")
    assert log.lower_bound == float("-inf")


def test_a_bound_at_infinity_is_none():
    log = CbcLog("Result - Stopped on time limit\n\nLower bound:     -1e+50\n")
    assert log.lower_bound == float("-inf")


def test_three_printed_decimals_cannot_make_a_bound_too_tight():
    assert CbcLog("Result - Stopped on x\nLower bound:     0.124\n").lower_bound <= 0.1235


@pytest.mark.parametrize(
    "words",
    ["Pre-processing says infeasible or unbounded", "Problem is unbounded - 0.00 seconds"],
)
def test_what_leaves_the_question_open_is_not_called_infeasible(words):
    log = CbcLog(words)
    assert log.open_ended
    assert not log.infeasible


def test_infeasible_is_infeasible_even_if_presolve_was_unsure():
    log = CbcLog(
        "Analysis indicates model infeasible or unbounded\nResult - Linear relaxation infeasible\n"
    )
    assert log.infeasible


def test_a_relaxation_solved_on_the_way_is_not_an_optimum():
    log = CbcLog("Optimal objective 1.575 - 1 iterations\nResult - Stopped on time limit\n")
    assert not log.optimal
