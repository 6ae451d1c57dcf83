"""A problem that makes no sense is refused where it is stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from leaveout.solvers import Problem
from leaveout.solvers.conformance_cases import problem
from leaveout.solvers.outcomes import without_tiny


@pytest.fixture
def stated() -> Problem:
    return problem(
        [1, 2], [([1, 1], -1, 3)], upper=[4, 5], integer=[True, False], offset=10, maximise=True
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("objective", np.zeros(3)),
        ("row_lower", np.zeros(2)),
        ("lower", np.array([0.0, np.nan])),
        ("objective", np.array([np.inf, 0.0])),
        ("lower", np.array([9.0, 0.0])),
        ("row_lower", np.array([9.0])),
        ("names", ("x",)),
    ],
)
def test_nonsense_is_refused_by_name(stated, field, value, snapshot):
    with pytest.raises(ValueError) as told:
        replace(stated, **{field: value})
    assert str(told.value) == snapshot


def test_value_includes_the_offset(stated):
    assert stated.value(np.array([1.0, 2.0])) == 15.0


@pytest.mark.parametrize(
    ("point", "violation"),
    [
        ([1.0, 2.0], 0.0),
        ([-0.5, 0.0], 0.5),
        ([3.0, 1.5], 1.5),
        ([0.25, 0.0], 0.25),
        ([0.0, 5.5], 2.5),
    ],
)
def test_violation_is_the_largest_of_bounds_rows_and_integrality(stated, point, violation):
    assert stated.violation(np.array(point)) == pytest.approx(violation, abs=1e-15)


def test_a_tiny_coefficient_goes_only_where_no_row_can_tell():
    harmless = problem([1, 1], [([1, 1e-14], 0, 1)], upper=10)
    assert without_tiny(harmless, 1e-12, 1e-9).matrix.nnz == 1
    far = problem([1, 1], [([1, 1e-14], 0, 1)], upper=1e9)
    assert without_tiny(far, 1e-12, 1e-9) is None
    free = problem([1, 1], [([1, 1e-14], 0, 1)])
    assert without_tiny(free, 1e-12, 1e-9) is None


def test_many_tiny_coefficients_add_up():
    many = problem(np.ones(2000), [([9e-13] * 2000, 0, 1)], upper=1)
    assert without_tiny(many, 1e-12, 1e-9) is None
