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
def test_version_1(added, message, narrow):
    if message is None:
        query_of(parse_problem(ONE + added), [narrow])
        return
    with pytest.raises(SpecError) as caught:
        query_of(parse_problem(ONE + added, "q.vnnlib"), [narrow])
    assert message in str(caught.value)
    assert str(caught.value).startswith("q.vnnlib:")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<2.0>", "<3.0>", "1:17: version '<3.0>' is not read; 1.0, 2.0 and 2.1 are"),
        ("<2.0>", "2.0", "1:17: version '2.0' is not read"),
        (" <2.0>", "", "1:1: expected '(vnnlib-version <2.0>)'"),
        ("  (declare-output", HIDDEN + "  (declare-output", "no node of narrow.onnx gives 'h'"),
        ("  (declare-output", HIDDEN.replace('"h"', '"z0"') + "  (declare-output", "has shape [7]"),
        ("  (declare-output", HIDDEN.replace('"h"', "") + "  (declare-output", "needs its name in"),
        ("  (declare-output", SECOND + "  (declare-output", "4:3: the network f has 2 inputs"),
        ("float32", "int8", "3:20: X is of type int8, which is not read; declare it as real or"),
        ("float32", "float64", "X is of type float64, which is not read; declare it as real, a"),
        ("float32", "bfloat16", "export the network in float32 and declare it as float32"),
        ("float32 [2]))", "real [2]))", "2:1: a query in both real and float32 is not read"),
        ("X float32 [2]", "X float32 [2] initialized", "3:32: 'initialized' is not read; leave"),
        ("X float32 [2]", "X float32 [2] odd", "3:32: expected ')' after the shape"),
        ("X float32 [2]", "X float32", "3:20: expected '(declare-input X float32 [1,5])'"),
        ("X float32 [2]", "X", "3:3: expected '(declare-input X float32 [1,5])'"),
        ("X float32 [2]", "X float32 [0]", "3:20: '[0]' are no sizes; give whole numbers above 0"),
        ("X float32 [2]", "X float32 [1 2]", "3:20: '[1 2]' are no sizes"),
        ("X float32 [2]", "f float32 [2]", "3:18: the name f is declared twice"),
        ("X float32 [2]", "not float32 [2]", "3:18: 'not' is a word of formulas, and no name"),
        ("declare-input X", "declare-input 2X", "3:18: 'declare-input' needs a name of letters"),
        ("declare-input", "declare-inputs", "3:3: 'declare-inputs' is no part of a network; did"),
        ("X[0] 1.0", "X[5] 1.0", "5:32: X of shape [2] has no element [5]"),
        ("X[0] 1.0", "X[0,0] 1.0", "5:32: X has 1 axes, found 2 indices"),
        ("X[0] 1.0", "X 1.0", "5:32: X has 1 axes, found 0 indices"),
        ("X[0] 1.0", "X[-1] 1.0", "5:32: '[-1]' are no indices; give whole numbers"),
        ("X[0] 1.0", "X[0.5] 1.0", "5:32: '[0.5]' are no indices"),
        ("X[0] 1.0", "X[0] 1e3f", "5:37: '1e3f' is no number and no declared variable"),
        ("X[0] 1.0", "X[0] NaN", "5:37: 'NaN' is no number"),
        ("X[0] 1.0", "X[0] (/ 1 X[1])", "5:37: division by a variable is not linear"),
        ("X[0] 1.0", "(* X[0] Y[0]) 1.0", "5:32: the product of two variables is not linear"),
        ("X[0] 1.0", "Z[0] 1.0", "5:32: 'Z[0]' is no number and no declared variable"),
        ("X[0] 1.0", "X[0] 1e2001", "5:37: the number 1e2001... has too many digits"),
        ("1.0)))", "1.0))", "5:1: this '(' is not closed"),
        ("X[1] 1.0", "X[0] 1.0", "2:1: X[1] has no upper bound"),
        ("(<= X[1] 1.0)", "(not (<= X[1] 1.0))", "2:1: X[1] has no upper bound"),
        ("(<= X[1] 1.0)", "(<= X[1] Y[0])", "2:1: X[1] has no upper bound; every input needs"),
        ("X float32 [2]", 'X float32 [2] "other"', "2:1: narrow.onnx has no 'other', but 'x'"),
        ("X float32 [2]", "X float32 [3]", "2:1: X of f has shape [3], and in narrow.onnx [2]"),
        ("(assert", f"(declare-network f {TENSORS})(assert", "5:18: the name f is declared twice"),
        ("(assert", f"(declare-network g {LIKE_K} {TENSORS})(assert", "no network k is declared"),
        ("(assert", f"(declare-network g {LIKE_F} {WIDE})(assert", "A of g has shape [3], and X"),
        ("(assert", f"(declare-network g {LIKE_F}{LIKE_F} {TENSORS})(assert", "to two networks"),
        ("(assert", f"(declare-network g {TENSORS} {LIKE_F})(assert", "stands too late; the order"),
        ("(assert", "(check-sat)(assert", "5:2: the command 'check-sat' is not read"),
        ("(assert", f"(assert true)(declare-network g {TENSORS})(assert", "after an assertion"),
        ("(declare-network", "(assert true)(declare-network", "before any network is declared"),
    ],
)  # fmt: skip
def test_version_2(old, new, message, narrow):
    text = TWO.replace(old, new, 2 if old in {"float32"} else 1)
    assert text != TWO
    with pytest.raises(SpecError) as caught:
        problem = parse_problem(text, "q.vnnlib")
        query_of(problem, [narrow] * len(problem.networks))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "half.gz").write_bytes(gzip.compress(ONE.encode())[:-6])
    bomb = gzip.compress(b" " * (LARGEST + 1), 1)
    (tmp_path / "bomb.gz").write_bytes(bomb)
    for name, message in [
        ("missing", "no such file"),
        (".", "is a folder"),
        ("binary", "is not UTF-8"),
        ("half.gz", "is not a whole gzip file"),
        ("bomb.gz", "too long for a query"),
    ]:
        with pytest.raises(SpecError, match=message):
            load_problem(tmp_path / name)


def test_empty_files():
    for text, wrong in (
        ("", "the query is empty"),
        ("; nothing\n", "the query is empty"),
        ("(vnnlib-version <2.0>)", "declares no network"),
        ("(declare-const X_0 Real)", "Y_0 is not declared"),
    ):
        with pytest.raises(SpecError, match=wrong):
            parse_problem(text)
