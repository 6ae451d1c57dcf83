"""Statements in words, and numbers that stay bounds."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaveout.specs import Find, Function, Guarantee, Parameter, functions, parse
from leaveout.specs.types import NUMBER
from leaveout.verifier.amounts import bound, span
from leaveout.verifier.page.prose import in_words, vocabulary

DOCS = Path(__file__).parents[2] / "docs"
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    "claim",
    [
        "forall x in X, M in F: confidence(N, x) > 0.5 => label(M, x) == label(N, x)",
        "certified_accuracy(dpa(V), edits = 8) >= 0.5",
        "collective_accuracy(dpa(V), relabels = 1) > 0.5",
        "forall p in test_points(V): answered_right(dpa(V), p) => radius(dpa(V), p) >= 1",
        "not (label(N, x) == 1 or label(N, x) == 2) and score(N, x, 0) < 3",
        "confidence(N, x, 2) <= 1 => (label(N, x) == 1 => label(N, x) != 0)",
        "(label(N, x) == 1 => label(N, x) == 2) => label(N, x) == 3",
        "mystery(V, 3) + 2 <= 4",
        'membership_advantage(audit("a.npz")) <= 0.05 with confidence 0.95',
        "idp(A, epsilon = 0.2)",
        "unlearns(S, updates = adaptive, alpha = 1, beta = 0.1, gamma = 0.1)",
        "unlearn(T, z) == retrain(T, z)",
        "same_function(T, U, box(0, 1))",
        "caches_sound(T)",
        "certified_accuracy(dpa(V)) >= 0.5",
    ],
)
def test_a_claim_in_words(claim, snapshot):
    (statement,) = parse(f"guarantee g: {claim}").statements
    assert in_words(statement, functions()) == snapshot


def test_a_find_in_words(snapshot):
    (statement,) = parse("find f: greatest r such that distance(x, y) <= r").statements
    assert in_words(statement, functions()) == snapshot
    (statement,) = parse("find f: least b per label such that confidence(N, x) > b").statements
    assert in_words(statement, functions()) == snapshot


def test_every_worked_statement_has_words_that_name_its_parts():
    blocks = re.findall(r"```spec\n(.*?)```", (DOCS / "specs.md").read_text(), re.DOTALL)
    assert blocks
    for statement in (each for block in blocks for each in parse(block).statements):
        if isinstance(statement, Guarantee | Find):
            said = in_words(statement, functions())
            numbers = re.findall(r"(?<![\w.])\d+(?:\.\d+)?", str(statement.claim))
            assert all(number in said for number in numbers)


def test_functions_are_explained_once_in_the_order_of_the_text():
    (statement,) = parse("guarantee g: abs(score(N, x, 0) - abs(score(M, x, 0))) <= 1").statements
    assert [name for name, _ in vocabulary((statement,), functions())] == ["abs", "score"]


@given(FLOATS)
def test_a_bound_is_rounded_outwards(value):
    assert float(bound(value)) <= value <= float(bound(value, up=True))


@given(FLOATS, FLOATS)
def test_what_is_said_of_two_bounds_holds_both(one, other):
    lower, upper = sorted((one, other))
    said = span(lower, upper)
    if said.startswith("between"):
        low, high = said.removeprefix("between ").split(" and ")
        assert float(low) <= lower <= upper <= float(high)
    elif said.startswith("about"):
        assert math.isclose(float(said.removeprefix("about ")), lower, rel_tol=1e-5)
    else:
        assert float(said) == lower == upper


def test_a_round_number_has_no_exponent():
    assert [bound(value) for value in (80.0, 100.0, 0.5, 0.0, 1e-9, 1e20, 1234567.0)] == [
        "80", "100", "0.5", "0", "1e-9", "1e+20", "1234560"
    ]  # fmt: skip


def test_what_is_said_of_one_bound(snapshot):
    assert span(None, None) == snapshot
    assert span(0.1234567, None) == snapshot
    assert span(None, 0.1234561) == snapshot
    assert span(6.0, 6.0) == "6"


def phrase(words):
    """Return what a plug-in's function with these words says when it is called with 1."""
    parameters = (Parameter("of", (NUMBER,)), Parameter("by", (NUMBER,), optional=True))
    made = Function("weight", parameters, NUMBER, "A weight.", "weight(1) < 2", words=words)
    (statement,) = parse("guarantee g: weight(1) < 2").statements
    said = in_words(statement, {"weight": made})
    return said.removeprefix("It is claimed that ").removesuffix(" is below 2.")


@pytest.mark.parametrize(
    "words",
    [
        None,
        "the weight of {of}",
        "the weight of {of} by {by}",
        lambda given: f"{len(given)} given: {given['of']}",
        lambda given: None,
    ],
)
def test_a_function_of_a_plug_in_says_its_calls(words, snapshot):
    assert phrase(words) == snapshot


@pytest.mark.parametrize("words", [lambda given: given["by"], "{of.colour}", "{", "{}"])
def test_words_that_fail_leave_the_call_as_written(words):
    with pytest.warns(UserWarning, match="'words' of function weight failed"):
        assert phrase(words) == "weight(1)"
