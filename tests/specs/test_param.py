"""Params: constants that whoever runs a specification may set."""

import math

import pytest

from leaveout.errors import SpecError
from leaveout.specs import Let, Number, Param, Text, check, params, parse, with_params

SPEC = """\
let quarter = 1 / 4
param eps = 0.1
param half = eps / 2 + quarter
param file = "full.onnx"
guarantee g: forall x in box(0, eps): confidence(network(file), x) > half
"""


def test_a_param_is_a_let():
    checked = check(parse(SPEC))
    assert list(checked.lets) == ["quarter", "eps", "half", "file"]
    assert isinstance(checked.lets["eps"], Let)
    assert checked.lets["eps"] == Param("eps", Number(0.1))
    assert Param("eps", Number(0.1)) != Let("eps", Number(0.1))


def test_the_values_of_params():
    assert params(parse(SPEC)) == {"eps": 0.1, "half": 0.3, "file": "full.onnx"}


@pytest.mark.parametrize("value", [0.2, "0.2", " 1 / 5", "2e-1"])
def test_another_value(value):
    spec = with_params(parse(SPEC), {"eps": value})
    assert params(spec) == {"eps": 0.2, "half": 0.35, "file": "full.onnx"}
    assert check(spec).lets["eps"].value == Number(0.2)
    assert parse(str(spec)) == spec


@pytest.mark.parametrize("value", ["other.onnx", '"other.onnx"'])
def test_another_text(value):
    assert check(with_params(parse(SPEC), {"file": value})).lets["file"].value == Text("other.onnx")


def test_nothing_set_changes_nothing():
    spec = parse(SPEC)
    assert with_params(spec, {}) is spec


@pytest.mark.parametrize(
    "value",
    ["", "x", "1 let b = 2", "box(0, 1)", "1 / 0", True, math.nan, math.inf, None, [1], 10**400],
)
def test_what_is_no_number_is_refused(value, snapshot):
    with pytest.raises(SpecError) as told:
        with_params(parse(SPEC), {"eps": value})
    assert str(told.value) == snapshot


def test_what_is_no_text_is_refused(snapshot):
    with pytest.raises(SpecError) as told:
        with_params(parse(SPEC), {"file": 3})
    assert str(told.value) == snapshot


def test_an_unknown_param_is_refused_and_the_known_ones_are_named(snapshot):
    with pytest.raises(SpecError) as told:
        with_params(parse(SPEC), {"epz": 1})
    assert str(told.value) == snapshot
    with pytest.raises(SpecError) as told:
        with_params(parse("let a = 1"), {"a": 1})
    assert str(told.value) == snapshot


def test_a_value_that_breaks_the_rules_of_a_function_is_refused(snapshot):
    with pytest.raises(SpecError) as told:
        check(with_params(parse(SPEC), {"eps": -1}))
    assert str(told.value) == snapshot


def test_two_params_of_one_name_are_refused_as_lets_are(snapshot):
    with pytest.raises(SpecError) as told:
        check(parse("param a = 1 let a = 2 guarantee g: a < 1"))
    assert str(told.value) == snapshot
