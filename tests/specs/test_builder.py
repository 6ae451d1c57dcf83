"""The builder: the same tree as from text, and errors at the line of Python that is wrong."""

import math
from pathlib import Path

import numpy as np
import pytest

import leaveout.specs
from leaveout.encoders import Box
from leaveout.errors import SpecError
from leaveout.specs import (
    Function,
    Let,
    Name,
    Parameter,
    Spec,
    Term,
    box,
    check,
    confidence,
    family,
    find,
    forall,
    functions,
    greatest,
    grid,
    guarantee,
    include,
    label,
    least,
    let,
    load,
    name,
    names,
    network,
    param,
    parse,
    spec,
    unlearns,
)
from leaveout.specs.types import NUMBER

GOOD = Path(__file__).parent / "good"
x, M = names("x M")


def test_the_leading_example():
    N = let("N", network("full.onnx"))
    F = let("F", family("family.npz"))
    X = let("X", box(0, 1))

    def agree(bound):
        return forall(
            {"x": X, "M": F},
            lambda x, M: (confidence(N, x) > bound).implies(label(M, x) == label(N, x)),
        )

    built = spec(
        N, F, X, find("bound", least("b", per_label=True), agree), guarantee("quiet", agree(0.55))
    )
    assert built == load(GOOD / "breast_cancer.spec")
    assert parse(str(built)) == built
    assert list(check(built).lets) == ["N", "F", "X"]


def test_names_may_be_made_beforehand():
    b = name("b")
    claim = forall({"x": box(0, 1), "M": family("f")}, confidence(M, x) > b)
    text = (
        'find f: greatest b such that forall x in box(0, 1), M in family("f"): confidence(M, x) > b'
    )
    assert spec(find("f", greatest("b"), claim)) == parse(text)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (x + 1, "x + 1"),
        (1 + x, "1 + x"),
        (1 - x * 2, "1 - x * 2"),
        ((1 - x) * 2, "(1 - x) * 2"),
        (2 / x / 3, "2 / x / 3"),
        (-x, "-x"),
        (-(x + 1), "-(x + 1)"),
        ((x > 1) & (M < 2) | ~(x == M), "x > 1 and M < 2 or not x == M"),
        ((x > 1) & ((M < 2) | (x != 3)), "x > 1 and (M < 2 or x != 3)"),
        (np.float64(1) < x, "x > 1"),
        ((x >= 1).implies((x <= 2).implies(x == 3)), "x >= 1 => x <= 2 => x == 3"),
        (box([0, 1.5], np.array([1, 2])), "box([0, 1.5], [1, 2])"),
        (network(Path("a/b.onnx")), 'network("a/b.onnx")'),
        (np.float64(0.5) + x, "0.5 + x"),
        (confidence(M, x, label=1) > np.int64(2), "confidence(M, x, label = 1) > 2"),
        (grid(box(0, 1), at=3, values=[[0], [1]]), "grid(box(0, 1), at = 3, values = [[0], [1]])"),
        (
            unlearns(x, updates="adaptive", alpha=1, beta=0.5, gamma=0.5),
            "unlearns(x, updates = adaptive, alpha = 1, beta = 0.5, gamma = 0.5)",
        ),
    ],
    ids=str,
)
def test_operators_and_calls(term, text):
    (statement,) = parse(f"let a = {text}").statements
    assert term.node == statement.value
    assert str(term) == text


def test_statements():
    a = param("eps", 0.1)
    built = spec(include("lib.spec"), a, guarantee("g", x < a, confidence=0.95))
    text = 'include "lib.spec"\nparam eps = 0.1\nguarantee g: x < eps with confidence 0.95\n'
    assert str(built) == text
    assert parse(text) == built
    assert isinstance(built, Spec)


def test_the_equality_of_trees_is_not_that_of_terms():
    assert isinstance(x == x, Term)
    assert Let("a", x.node) == Let("a", Name("x"))
    assert (x == M).node == (x == M).node
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: 0 < x < 1,
        lambda: x > 1 and M > 2,
        lambda: x > 1 or M > 2,
        lambda: not x > 1,
        lambda: x in [M],
        lambda: 1 in x,
        lambda: list(x),
        lambda: x > 1 & (M > 2),
        lambda: (x > 1) & True,
        lambda: (x > 1) | (x + 1),
        lambda: ~(x + 1),
        lambda: (x > 1).implies(False),
        lambda: guarantee("g", True),
        lambda: find("g", "least", x > 1),
        lambda: forall({}, x > 1),
        lambda: spec(x),
        lambda: x + True,
        lambda: x + None,
        lambda: x**2,
    ],
)
def test_what_python_would_get_wrong_is_refused_with_the_cure(wrong, snapshot):
    with pytest.raises(TypeError) as told:
        wrong()
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: label(M),
        lambda: label(M, x, 1),
        lambda: confidence(M, x, lable=1),
        lambda: name("1a"),
        lambda: let("forall", 1),
        lambda: x + math.inf,
        lambda: network("a\0"),
    ],
)
def test_what_the_language_does_not_have_is_refused(wrong, snapshot):
    with pytest.raises(SpecError) as told:
        wrong()
    assert str(told.value) == snapshot


def test_functions_of_plug_ins_are_there(monkeypatch):
    norm = Function("norm", (Parameter("number", (NUMBER,)),), NUMBER, "A norm.", "norm(1) < 1")
    monkeypatch.setattr("leaveout.specs.builder.functions", lambda: {"norm": norm})
    assert str(leaveout.specs.norm(1)) == "norm(1)"
    with pytest.raises(AttributeError, match="has no attribute 'nrom'"):
        _ = leaveout.specs.nrom


@pytest.mark.parametrize("function", functions())
def test_every_function_of_the_table_is_there(function):
    made = getattr(leaveout.specs, function)
    assert made.__name__ == function
    assert function in made.__doc__


def test_a_notebook_shows_it_in_colour_and_escaped():
    shown = spec(guarantee("g", x < 1))._repr_html_()
    assert shown.startswith("<pre")
    assert "x &lt; " in shown
    assert ">guarantee</span>" in shown
    kept = parse('let a = "<b>"  # <i>')._repr_html_()
    assert "&lt;b&gt;" in kept
    assert "# &lt;i&gt;</span>" in kept


@pytest.mark.parametrize(
    "make",
    [
        lambda: confidence(name("N"), x) <= 10**400,
        lambda: box(0, 10**400),
        lambda: 10**400 * confidence(name("N"), x),
        lambda: guarantee("g", confidence(name("N"), x) <= 1, confidence=10**400),
        lambda: leaveout.specs.but(family("f.npz"), 10**400),
    ],
)
def test_a_number_beyond_float64_is_refused_on_one_line(make, snapshot):
    with pytest.raises(SpecError) as told:
        make()
    assert str(told.value) == snapshot


def test_minus_zero_is_zero():
    assert str(box(0, -0.0)) == "box(0, 0)"
    ends = Box(np.array([-0.0]), np.array([-0.0]))
    assert not np.signbit([ends.lower, ends.upper]).any()
