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
LIKE_K = "(isomorphic-to k)"
HIDDEN = '  (declare-hidden H float32 [3] "h")\n'
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
        ("(assert (or (!= Y_0 1) (<= Y_0 1)))" * 20, "comes apart into more than 10,000 cases"),
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
        ("<2.0>", "<2.1>", "1:17: version '<2.1>' is not read"),
        ("  (declare-output", HIDDEN + "  (declare-output", "4:3: hidden"),
        ("  (declare-output", SECOND + "  (declare-output", "4:3: the network f has 2 inputs"),
        ("float32", "int8", "'0.0': Type mismatch"),
        ("float32", "float64", "3:3: X is of a type that is not read; declare it as real or"),
        ("float32 [2]))", "real [2]))", "a query in both real and float32 is not read"),
        ("X[0] 1.0", "X[5] 1.0", "5:32: 'X[5]': Index out of bounds"),
        ("X[0] 1.0", "X[-1] 1.0", "5:33: '[-1]' are no indices or sizes"),
        ("X[0] 1.0", "X[0.5] 1.0", "5:33: '[0.5]' are no indices or sizes"),
        ("X[0] 1.0", "X[0] 1e3", "5:38: 'e3' is not expected here; numbers of version 2.0 have no"),
        ("X[0] 1.0", "(* X[0] Y[0]) 1.0", "5:35: the product of two variables is not linear"),
        ("X[0] 1.0", "Z[0] 1.0", "5:32: 'Z': Undeclared variable"),
        ("X[0] 1.0", "X[0] 0.0" + "0" * 400 + "1", "too large or too small"),
        ("1.0)))", "1.0))", "the query is not complete"),
        ("X[1] 1.0", "X[0] 1.0", "2:1: X[1] has no upper bound"),
        ("X float32 [2]", 'X float32 [2] "other"', "2:1: narrow.onnx has no 'other', but 'x'"),
        ("X float32 [2]", "X float32 [3]", "2:1: X of f has shape [3], and in narrow.onnx [2]"),
        ("(assert", f"(declare-network f {TENSORS})(assert", "the network f is declared twice"),
        ("(assert", f"(declare-network g {LIKE_K} {TENSORS})(assert", "'k': Referenced network"),
    ],
)  # fmt: skip
def test_version_2(old, new, message, narrow):
    text = TWO.replace(old, new, 1 if old != "float32" else 2)
    assert text != TWO
    with pytest.raises(SpecError) as caught:
        problem = parse_problem(text, "q.vnnlib")
        query_of(problem, [narrow] * len(problem.networks))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_package_the_message_says_how_to_get_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "vnnlib", None)
    with pytest.raises(SpecError, match=r"pip install 'leaveout\[vnnlib\]'"):
        parse_problem(TWO)


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
        ("(declare-const X_0 Real)", "Y_0 is not declared"),
    ):
        with pytest.raises(SpecError, match=wrong):
            parse_problem(text)
