"""Functions that a plug-in declares are decided as built-in ones: of points, of sets, of values."""

from __future__ import annotations

import sys
from fractions import Fraction
from types import ModuleType

import numpy as np
import onnx
import pytest

import leaveout
from leaveout.errors import LeaveoutError
from leaveout.specs import Function, Parameter, functions
from leaveout.specs.deciders import Bounds
from leaveout.specs.table.listed import Listed
from leaveout.specs.types import BOOLEAN, INPUTS, NETWORK, NUMBER, POINT
from leaveout.verifier.points.claims import add_pieces, scale_pieces
from leaveout.verifier.points.functions import score

from support import networks

_NETWORK = Parameter("network", (NETWORK,))
_POINT = Parameter("point", (POINT,))
_LABELS = (Parameter("one", (NUMBER,)), Parameter("other", (NUMBER,)))


def sides(reader, node, given):
    return [score(reader, node, {**given, "label": given[name]}) for name in ("one", "other")]


def gap(reader, node, given):
    one, other = sides(reader, node, given)
    return add_pieces(one, scale_pieces(other, Fraction(-1)))


def ahead(reader, node, given):
    one, other = sides(reader, node, given)
    return [(one, ">", other), (reader.number(given["least"]), "<=", one)]


def half(reader, given):
    (column,) = reader.columns(given["at"])
    return (Listed((column,), [(0.0,), (0.5,)]),)


DECLARED = (
    Function("gap", (_NETWORK, _POINT, *_LABELS), NUMBER, "G.", "gap(N, x, 0, 1) < 1", forms=gap),
    Function(
        "ahead",
        (_NETWORK, _POINT, *_LABELS, Parameter("least", (NUMBER,))),
        BOOLEAN,
        "A.",
        "ahead(N, x, 0, 1, 2)",
        forms=ahead,
    ),
    Function(
        "half",
        (Parameter("inputs", (INPUTS,)), Parameter("at", (NUMBER,))),
        INPUTS,
        "H.",
        "let X = half(box(0, 1), 0)",
        lists=half,
    ),
    Function(
        "parameters",
        (_NETWORK,),
        NUMBER,
        "P.",
        "parameters(N) < 9",
        decider="of_a_plug_in:parameters",
    ),
)


@pytest.fixture
def decide(tmp_path, monkeypatch):
    table = {**functions(), **{each.name: each for each in DECLARED}}
    monkeypatch.setattr("leaveout.specs.typing.check.functions", lambda: table)
    model = networks.dense(np.random.default_rng(3), (2, 4, 3))
    onnx.save(model, tmp_path / "n.onnx")

    def decide_(statement, inputs="box(0, 1)"):
        path = tmp_path / "d.spec"
        path.write_text(f'let N = network("n.onnx") let X = {inputs} {statement}')
        (result,) = leaveout.verify(path).results
        return result

    return decide_


@pytest.mark.parametrize(
    ("declared", "spelled"),
    [
        ("gap(N, x, 0, 1)", "score(N, x, 0) - score(N, x, 1)"),
        ("abs(gap(N, x, 2, 1))", "abs(score(N, x, 2) - score(N, x, 1))"),
    ],
)
def test_a_number_of_points_is_what_its_forms_are(decide, declared, spelled):
    found, wanted = (
        decide(f"find f: least b such that forall x in X: {term} <= b")
        for term in (declared, spelled)
    )
    assert found.verdict == wanted.verdict == "proved"
    assert (found.lower, found.upper) == (wanted.lower, wanted.upper)


@pytest.mark.parametrize("claim", ["{}", "not {}"])
@pytest.mark.parametrize("least", [-9, 0, 9])
def test_a_claim_of_points_is_its_comparisons_together(decide, claim, least):
    comparisons = f"(score(N, x, 0) > score(N, x, 1) and {least} <= score(N, x, 0))"
    found, wanted = (
        decide(f"guarantee g: forall x in X: {claim.format(term)}").verdict
        for term in (f"ahead(N, x, 0, 1, {least})", comparisons)
    )
    assert found == wanted
    assert found in {"proved", "refuted"}


def test_a_set_of_inputs_takes_what_is_listed(decide):
    question = "find f: least b such that forall x in X: score(N, x, 0) <= b"
    declared = decide(question, "half(box(0, 1), 0)")
    spelled = decide(question, "grid(box(0, 1), at = 0, values = [0, 0.5])")
    assert (declared.lower, declared.upper) == (spelled.lower, spelled.upper)
    assert declared.box == spelled.box


def test_a_decider_may_be_named(decide, monkeypatch):
    module = ModuleType("of_a_plug_in")
    module.parameters = lambda given: Bounds.exactly(
        sum(each.size for each in given["network"].parameters.values())
    )
    monkeypatch.setitem(sys.modules, "of_a_plug_in", module)
    assert decide("guarantee g: parameters(N) == 2 * 4 + 4 + 4 * 3 + 3").verdict == "proved"


def test_a_decider_that_is_not_there_is_named(decide, snapshot):
    with pytest.raises(LeaveoutError) as told:
        decide("guarantee g: parameters(N) < 9")
    assert str(told.value) == snapshot


def leave(*given):
    raise SystemExit(0)


def slow(reader, given):
    return (Listed((0,), (leave() for _ in range(3))),)


def one_listed(reader, given):
    return (Listed((0,), [(0.0,), (0.5,)]),)


@pytest.fixture
def broken(decide, monkeypatch):
    """Decide with one more function, which has a field of one's own choice."""

    def add(claim, inputs="box(0, 1)", **fields):
        parameters = fields.pop("parameters", (_NETWORK, _POINT))
        made = Function("odd", parameters, fields.pop("result", NUMBER), "O.", "odd()", **fields)
        table = {**functions(), "odd": made}
        monkeypatch.setattr("leaveout.specs.typing.check.functions", lambda: table)
        return decide(claim, inputs)

    return add


@pytest.mark.parametrize("result", [NUMBER, BOOLEAN])
@pytest.mark.parametrize(
    "forms", [leave, lambda *given: None, lambda *given: [1, 2], lambda *given: 7, "no_such:f"]
)
def test_forms_of_a_plug_in_that_fail_are_pointed_at(broken, forms, result, snapshot):
    claim = "odd(N, x)" if result == BOOLEAN else "odd(N, x) <= 1"
    with pytest.raises(LeaveoutError) as told:
        broken(f"guarantee g: forall x in X: {claim}", forms=forms, result=result)
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "lists",
    [leave, slow, lambda *given: None, lambda *given: (5,), lambda *given: Listed((0,), [(0.0,)]),
     lambda *given: (Listed((0,), [("no",)]),)],
)  # fmt: skip
def test_lists_of_a_plug_in_that_fail_are_pointed_at(broken, lists, snapshot):
    parameters = (Parameter("inputs", (INPUTS,)),)
    with pytest.raises(LeaveoutError) as told:
        broken(
            "guarantee g: forall x in X: score(N, x, 0) <= 9", "odd(box(0, 1))",
            lists=lists, parameters=parameters, result=INPUTS,
        )  # fmt: skip
    assert str(told.value) == snapshot


def test_a_set_of_inputs_needs_no_parameter_but_the_inputs(broken, decide):
    claim = "find f: least b such that forall x in X: score(N, x, 0) <= b"
    parameters = (Parameter("inputs", (INPUTS,)),)
    own = broken(claim, "odd(box(0, 1))", lists=one_listed, parameters=parameters, result=INPUTS)
    spelled = decide(claim, "grid(box(0, 1), at = 0, values = [0, 0.5])")
    assert (own.lower, own.upper) == (spelled.lower, spelled.upper)


def test_a_rule_of_a_plug_in_that_fails_is_pointed_at(broken, snapshot):
    with pytest.raises(LeaveoutError) as told:
        broken("guarantee g: forall x in X: odd(N, x) <= 1", forms=gap, rule=leave)
    assert str(told.value) == snapshot
