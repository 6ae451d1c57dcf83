"""Results say what statements about leaks are about: the model, its records and their columns."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout import verify
from leaveout.models.forest import DareForestClassifier
from leaveout.verifier.page.first_page.scope import ranges_of
from leaveout.verifier.records import BoxRecord, ColumnRecord

from support.clinic import write_clinic
from support.files import write_other, write_question


def test_a_table_keeps_its_columns_units_and_labels(tmp_path):
    (found,) = verify(write_clinic(tmp_path)).models
    assert (found.model, found.statements) == ("network", ("bound",))
    assert (found.members, found.rows, found.labels) == (5, 5, ("no", "yes"))
    assert found.file.endswith("full.onnx")
    assert found.family.endswith("family.npz")
    assert found.columns == (
        ColumnRecord(name="age", unit="years", at=(0,), zero=20.0, one=80.0),
        ColumnRecord(name="ward", at=(1, 2, 3), categories=("a", "b", "c")),
    )


def test_arrays_have_no_columns_and_records_left_out_are_counted(tmp_path):
    spec = write_question(tmp_path, rows=1000)
    spec.write_text(
        f"{spec.read_text()}guarantee all: forall x in X, M in F: label(M, x) == label(N, x)\n"
    )
    (found,) = verify(spec).models
    assert found.columns == ()
    assert found.rows == 1000
    assert found.statements == ("bound", "all")
    assert 0 < found.members < 1000


def test_another_model_of_the_specification_lacks_no_record(tmp_path):
    spec = write_question(tmp_path)
    write_other(tmp_path / "full.onnx", tmp_path / "other.onnx")
    claim = "forall x in X: confidence(N, x) > 1 => label(Q, x) == label(N, x)"
    lets = spec.read_text().partition("find")[0]
    spec.write_text(f'{lets}let Q = network("other.onnx")\nguarantee same: {claim}\n')
    (found,) = verify(spec).models
    assert (found.members, found.rows, found.labels) == (0, None, ())


@pytest.mark.parametrize("family", [True, False])
def test_forests_hold_their_records(tmp_path, family):
    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 4, (14, 2)).astype(float), rng.integers(0, 2, 14)
    forest = DareForestClassifier(3, max_depth=3, random_state=1).fit(X, y)
    forest.save(tmp_path / "t.npz")
    forest.unlearn([0]).save(tmp_path / "u.npz")
    other = "leave_one_out(T)" if family else ""
    claim = "forall x in box(0, 3), M in F: label(M, x) == label(T, x)"
    if not family:
        claim = "forall x in box(0, 3): label(U, x) == label(T, x)"
    lets = 'let T = forest("t.npz")\nlet U = forest("u.npz")\n'
    lets += f"let F = {other}\n" if family else ""
    (tmp_path / "a.spec").write_text(f"{lets}guarantee s: {claim}\n")
    (found,) = verify(tmp_path / "a.spec").models
    assert (found.model, found.rows) == ("forest", 14)
    assert found.members == (14 if family else 0)
    assert found.file.endswith("t.npz")


@given(
    st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1), st.floats(0, 1), st.integers(0, 2)
)
def test_a_range_that_is_shown_lies_within_the_one_that_is_covered(least, spread, one, two, unit):
    low, high = sorted((one, two))
    column = ColumnRecord(name="c", unit=("", "mg", "a to b")[unit], at=(0,), zero=least,
                          one=least + spread)  # fmt: skip
    (said,) = ranges_of(BoxRecord(lower=(low,), upper=(high,)), (column,))
    ends = [float(each) for each in re.findall(r"-?\d[-+.\de]*", said.removeprefix("c "))]
    # As wide as the last of twelve digits that the conversion is trusted with.
    room = 1e-11 * max(abs(least), abs(least + spread))
    if low < high:
        assert ends[0] >= least + low * spread - room
        assert ends[-1] <= least + high * spread + room
