"""What is not read is refused on one line that points at it."""

import gzip

import pytest

from leaveout.errors import SpecError
from leaveout.specs.vnnlib import load_problem, parse_problem, query_of
from leaveout.specs.vnnlib.text import LARGEST

ONE = """\
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
(assert (and (>= X_0 0) (<= X_0 1)))
(assert (and (>= X_1 0) (<= X_1 1)))
"""
TENSORS = "(declare-input A float32 [2]) (declare-output B float32 [2])"
WIDE = TENSORS.replace("[2]", "[3]")
LIKE_F, LIKE_K = "(equal-to f)", "(isomorphic-to k)"
HIDDEN = '  (declare-hidden H float32 [7] "h")\n'
SECOND = "  (declare-input Z float32 [3])\n"
TWO = """\
(vnnlib-version <2.0>)
(declare-network f
  (declare-input X float32 [2])
  (declare-output Y float32 [2]))
(assert (and (>= X[0] 0.0) (<= X[0] 1.0) (>= X[1] 0.0) (<= X[1] 1.0)))
"""


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ("(assert (<= Y_0 Y_2))", "7:17: 'Y_2' is no number and no declared variable"),
        ("(declare-const Z Int)", "7:16: 'Z' names no variable of version 1.0; inputs are"),
        ("(declare-const X_f_0 Real)", "7:16: 'X_f_0' names no variable of version 1.0"),
        ("(declare-const X_2 Int)", "7:20: X_2 is of sort 'Int'; only Real is read"),
        ("(declare-const X_1 Real)", "7:16: X_1 is declared twice"),
        ("(declare-const X_3 Real)", "1:1: X_3 is declared and X_2 is not"),
        ("(declare-const X_2 Real)", "1:1: X of N has shape [3], and in narrow.onnx [2]"),
        ("(assert (<= (* Y_0 X_0) 1))", "7:13: the product of two variables is not linear"),
        ("(assert (<= (/ 1 X_0) 1))", "7:13: division by a variable is not linear"),
        ("(assert (<= (/ Y_0 0.0) 1))", "7:13: division by 0"),
        ("(assert (<= (ite true 1 2) Y_0))", "7:14: 'ite' is no arithmetic"),
        ("(assert (forall ((x Real)) (<= x 1)))", "7:10: 'forall' with 2 parts is no formula"),
        ("(asert (<= Y_0 1))", "7:2: the command 'asert' is not read; did you mean 'assert'?"),
        ("(assert (<= Y_0 1)", "7:1: this '(' is not closed"),
        ("(assert (<= Y_0 1)))", "7:20: this ')' closes nothing"),
        ("assert", "7:1: 'assert' stands outside of all brackets"),
        ("(assert (<= Y_0 é))", r"7:17: the character '\xe9' has no meaning"),
        ("(assert (<= Y_0 1e5000))", "7:17: the number 1e5000... has too many digits"),
        ("(assert (<= Y_0 1e400))", "7:9: a number of this condition is too large"),
        ("(assert (<= (- 1e39) X_0))(assert (>= X_0 0))", None),
        ("(assert (<= Y_0 nan))", "7:17: 'nan' is no number"),
        ("(assert " + "(and " * 300 + ")" * 301, "brackets are nested more than 200"),
        (
            f"(assert (or (and {'(or (!= Y_0 1) (<= Y_0 1))' * 20})))",
            "comes apart into more than 10,000 cases",
        ),
        ("(assert (or (!= Y_0 1) (<= Y_0 1)))" * 1300, "more than 1,000 disjunctions"),
    ],
)
def test_version_1(added, message, narrow, snapshot):
    if message is None:
        query_of(parse_problem(ONE + added), [narrow])
        return
    with pytest.raises(SpecError) as caught:
        query_of(parse_problem(ONE + added, "q.vnnlib"), [narrow])
    assert str(caught.value) == snapshot
    assert str(caught.value).startswith("q.vnnlib:")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<2.0>", "<3.0>"),
        ("<2.0>", "2.0"),
        (" <2.0>", ""),
        ("  (declare-output", HIDDEN + "  (declare-output"),
        ("  (declare-output", HIDDEN.replace('"h"', '"z0"') + "  (declare-output"),
        ("  (declare-output", HIDDEN.replace('"h"', "") + "  (declare-output"),
        ("  (declare-output", SECOND + "  (declare-output"),
        ("float32", "int8"),
        ("float32", "float64"),
        ("float32", "bfloat16"),
        ("float32 [2]))", "real [2]))"),
        ("X float32 [2]", "X float32 [2] initialized"),
        ("X float32 [2]", "X float32 [2] odd"),
        ("X float32 [2]", "X float32"),
        ("X float32 [2]", "X"),
        ("X float32 [2]", "X float32 [0]"),
        ("X float32 [2]", "X float32 [1 2]"),
        ("X float32 [2]", "f float32 [2]"),
        ("X float32 [2]", "not float32 [2]"),
        ("declare-input X", "declare-input 2X"),
        ("declare-input", "declare-inputs"),
        ("X[0] 1.0", "X[5] 1.0"),
        ("X[0] 1.0", "X[0,0] 1.0"),
        ("X[0] 1.0", "X 1.0"),
        ("X[0] 1.0", "X[-1] 1.0"),
        ("X[0] 1.0", "X[0.5] 1.0"),
        ("X[0] 1.0", "X[0] 1e3f"),
        ("X[0] 1.0", "X[0] NaN"),
        ("X[0] 1.0", "X[0] (/ 1 X[1])"),
        ("X[0] 1.0", "(* X[0] Y[0]) 1.0"),
        ("X[0] 1.0", "Z[0] 1.0"),
        ("X[0] 1.0", "X[0] 1e2001"),
        ("1.0)))", "1.0))"),
        ("X[1] 1.0", "X[0] 1.0"),
        ("(<= X[1] 1.0)", "(not (<= X[1] 1.0))"),
        ("(<= X[1] 1.0)", "(<= X[1] Y[0])"),
        ("X float32 [2]", 'X float32 [2] "other"'),
        ("X float32 [2]", "X float32 [3]"),
        ("(assert", f"(declare-network f {TENSORS})(assert"),
        ("(assert", f"(declare-network g {LIKE_K} {TENSORS})(assert"),
        ("(assert", f"(declare-network g {LIKE_F} {WIDE})(assert"),
        ("(assert", f"(declare-network g {LIKE_F}{LIKE_F} {TENSORS})(assert"),
        ("(assert", f"(declare-network g {TENSORS} {LIKE_F})(assert"),
        ("(assert", "(check-sat)(assert"),
        ("(assert", f"(assert true)(declare-network g {TENSORS})(assert"),
        ("(declare-network", "(assert true)(declare-network"),
    ],
)  # fmt: skip
def test_version_2(old, new, narrow, snapshot):
    text = TWO.replace(old, new, 2 if old in {"float32"} else 1)
    assert text != TWO
    with pytest.raises(SpecError) as caught:
        problem = parse_problem(text, "q.vnnlib")
        query_of(problem, [narrow] * len(problem.networks))
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path, snapshot):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "half.gz").write_bytes(gzip.compress(ONE.encode())[:-6])
    bomb = gzip.compress(b" " * (LARGEST + 1), 1)
    (tmp_path / "bomb.gz").write_bytes(bomb)
    for name in [
        "missing",
        ".",
        "binary",
        "half.gz",
        "bomb.gz",
    ]:
        with pytest.raises(SpecError) as told:
            load_problem(tmp_path / name)
        assert str(told.value) == snapshot


def test_empty_files(snapshot):
    for text in (
        "",
        "; nothing\n",
        "(vnnlib-version <2.0>)",
        "(declare-const X_0 Real)",
    ):
        with pytest.raises(SpecError) as told:
            parse_problem(text)
        assert str(told.value) == snapshot
