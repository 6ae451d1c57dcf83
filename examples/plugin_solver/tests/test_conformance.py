"""The plug-in passes leaveout's own kit."""

import pytest
from leaveout_scipy_milp import ScipyMilp

from leaveout.solvers import find_solver
from leaveout.solvers.conformance import check_case
from leaveout.solvers.conformance_cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=str)
def test_scipy_conforms(case: Case) -> None:
    """Whatever the back end claims to do, it does."""
    result = check_case(ScipyMilp(), case)
    assert result.passed, result.detail


def test_leaveout_finds_the_plugin_by_name() -> None:
    """The entry point is enough."""
    assert type(find_solver("scipy")) is ScipyMilp
