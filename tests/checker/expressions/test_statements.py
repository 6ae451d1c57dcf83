"""Statements about values in a certificate: evaluated anew, and held against what is claimed."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.errors import RejectedError
from leaveout.kernel.claims import functions
from leaveout.kernel.claims.functions import Known
from leaveout.kernel.claims.parts import (
    BinaryPart,
    BinderPart,
    CallPart,
    FindPart,
    ForAllPart,
    ListPart,
    NamePart,
    NumberPart,
    StatementPart,
    UnaryPart,
    ValuesPart,
)
from leaveout.kernel.claims.statements import (
    Statements,
    decimal,
    statement_lines,
    text,
)
from leaveout.kernel.numbers import Rejected
from leaveout.kernel.values import Given, Range, compare, number

from support.depth import rounds

NUMBERS = st.fractions(min_value=-5, max_value=5, max_denominator=6)
COMPARED = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
JOINED = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "=>": lambda a, b: not a or b,
}
ARITHMETIC = {"+": Fraction.__add__, "-": Fraction.__sub__, "*": Fraction.__mul__}


def half_of(count: int):
    """A number that falls with what changes: of 10 points, each loses one."""
    return Fraction(max(0, 10 - count), 10)


def share(given: Given) -> Range:
    return Range.exactly(half_of(given.whole("edits")))


def vague(given: Given) -> Range:
    return Range(half_of(given.whole("edits") + 1), half_of(given.whole("edits")))


def proved(given: Given) -> Range:
    found = given.array("value", np.int64)
    given.tell("rests on: nothing")
    return Range.exactly(int(found[0]))


def sampled(given: Given) -> Range:
    if given.confidence is None:
        raise RejectedError("a number from samples is never certain")
    return Range(Fraction(0), given.confidence)


@pytest.fixture(autouse=True)
def table(monkeypatch):
    made = {
        name: Known(f"{__name__}:{name}", "number", ("edits",), ("edits",), name == "sampled")
        for name in ("share", "vague", "proved", "sampled")
    }
    checks = {name: globals()[name] for name in made}
    monkeypatch.setattr(Known, "check", property(lambda self: checks[self.reference.split(":")[1]]))
    monkeypatch.setattr(functions, "FUNCTIONS", made)
    for module in ("evaluate", "statements"):
        monkeypatch.setattr(f"leaveout.kernel.claims.{module}.FUNCTIONS", made)


def of(value) -> NumberPart:
    return NumberPart(str(Fraction(value)))


def call(name: str, number: int = 0, **given) -> CallPart:
    return CallPart(name, given, number)


def checked(claim, verdict="proved", lets=None, proofs=None, arrays=None, **more):
    statement = StatementPart("s", claim, verdict, **more)
    part = ValuesPart((), lets or {}, (statement,), proofs or {})
    return Statements(part, lambda place: None, lambda prefix: (arrays or {})[prefix]).check(
        statement
    )


@st.composite
def numbers(draw, depth=3):
    """A number as a tree, and what it is."""
    if depth == 0 or draw(st.booleans()):
        value = draw(NUMBERS)
        return of(value), value
    if draw(st.integers(0, 4)) == 0:
        part, value = draw(numbers(depth=depth - 1))
        return UnaryPart("-", part), -value
    operator = draw(st.sampled_from(sorted(ARITHMETIC)))
    (left, a), (right, b) = draw(numbers(depth=depth - 1)), draw(numbers(depth=depth - 1))
    return BinaryPart(operator, left, right), ARITHMETIC[operator](a, b)


@st.composite
def claims(draw, depth=3):
    """A claim as a tree, and whether it holds."""
    if depth == 0 or draw(st.booleans()):
        operator = draw(st.sampled_from(sorted(COMPARED)))
        (left, a), (right, b) = draw(numbers()), draw(numbers())
        return BinaryPart(operator, left, right), COMPARED[operator](a, b)
    if draw(st.integers(0, 4)) == 0:
        part, holds = draw(claims(depth=depth - 1))
        return UnaryPart("not", part), not holds
    operator = draw(st.sampled_from(sorted(JOINED)))
    (left, a), (right, b) = draw(claims(depth=depth - 1)), draw(claims(depth=depth - 1))
    return BinaryPart(operator, left, right), JOINED[operator](a, b)


@settings(max_examples=rounds(400), deadline=None)
@given(claims())
def test_a_claim_is_accepted_exactly_if_it_holds(drawn):
    claim, holds = drawn
    checked(claim, "proved" if holds else "refuted")
    with pytest.raises(Rejected, match="it is claimed to be"):
        checked(claim, "refuted" if holds else "proved")


RANGES = st.tuples(NUMBERS, NUMBERS).map(lambda ends: Range(min(ends), max(ends)))


@settings(max_examples=rounds(400), deadline=None)
@given(RANGES, RANGES, st.fractions(0, 1), st.fractions(0, 1))
def test_ranges_hold_every_number_of_their_numbers(left, right, s, t):
    a = left.lower + s * (left.upper - left.lower)
    b = right.lower + t * (right.upper - right.lower)
    for found, value in (
        (left + right, a + b), (left - right, a - b), (left * right, a * b), (-left, -a),
        (abs(left), abs(a)),
    ):  # fmt: skip
        assert found.lower <= value <= found.upper
    if not right.lower <= 0 <= right.upper:
        assert (left / right).lower <= a / b <= (left / right).upper
    for operator, holds in COMPARED.items():
        found = compare(left, operator, right)
        assert found is None or found == holds(a, b)


@settings(max_examples=rounds(300), deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), NUMBERS, st.sampled_from([">=", ">"]), st.booleans())
def test_of_what_is_sought_no_wrong_bound_is_accepted(lower, upper, level, operator, exact):
    name = "share" if exact else "vague"
    claim = BinaryPart(operator, call(name, edits=NamePart("r")), of(level))
    holding = [r for r in range(30) if COMPARED[operator](half_of(r), level)]
    find = FindPart("greatest", "r", str(lower), str(upper))
    true = 0 < len(holding) < 30 and lower <= max(holding) <= upper
    try:
        checked(claim, find=find)
    except Rejected:
        assert not (true and exact)
    else:
        assert true


@settings(max_examples=rounds(100), deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), NUMBERS)
def test_the_least_number_is_sought_from_the_other_side(lower, upper, level):
    claim = BinaryPart("<", call("share", edits=NamePart("r")), of(level))
    holding = [r for r in range(30) if half_of(r) < level]
    true = bool(holding) and lower <= min(holding) <= upper
    try:
        checked(claim, find=FindPart("least", "r", str(lower), str(upper)))
    except Rejected:
        assert not true
    else:
        assert true


def test_a_number_that_is_compared_is_held_against_both_ends(snapshot):
    claim = BinaryPart(">=", call("vague", edits=of(3)), NamePart("b"))
    checked(claim, find=FindPart("greatest", "b", "6/10", "7/10"))
    for ends in (("61/100", "7/10"), ("6/10", "69/100"), (None, "69/100")):
        with pytest.raises(Rejected) as told:
            checked(claim, find=FindPart("greatest", "b", *ends))
        assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        checked(claim, find=FindPart("least", "b", "6/10", "7/10"))
    assert str(told.value) == snapshot


def test_two_calls_of_one_site_are_two_calls():
    few, many = call("share", 0, edits=of(2)), call("share", 0, edits=of(9))
    part = BinaryPart(">=", many, of("1/2"))
    with pytest.raises(Rejected):
        checked(BinaryPart("and", BinaryPart(">=", few, of("1/2")), part))


def test_what_the_prover_left_is_found_for_its_call_alone(snapshot):
    claim = BinaryPart("==", call("proved", 4), of(7))
    arrays = {"a": {"value": np.array([7])}, "b": {"value": np.array([8])}}
    found = checked(claim, proofs={"4": "a", "5": "b"}, arrays=arrays)
    assert found.told == snapshot
    with pytest.raises(Rejected):
        checked(claim, proofs={"4": "b"}, arrays=arrays)
    with pytest.raises(Rejected) as refused:
        checked(claim)
    assert str(refused.value) == snapshot


def test_several_sampled_numbers_share_the_risk(snapshot):
    one = BinaryPart("<=", call("sampled", 0), of("9/10"))
    checked(one, confidence="9/10")
    both = BinaryPart("and", one, BinaryPart("<=", call("sampled", 0, edits=of(1)), of("95/100")))
    with pytest.raises(Rejected):
        checked(both, confidence="9/10")
    wider = BinaryPart("<=", call("sampled", 0), of("95/100"))
    other = BinaryPart("<=", call("sampled", 0, edits=of(1)), of("95/100"))
    checked(BinaryPart("and", wider, other), confidence="9/10")
    with pytest.raises(Rejected) as told:
        checked(one)
    assert str(told.value) == snapshot
    over = ForAllPart((BinderPart("z", ListPart((of(1),))),), one)
    with pytest.raises(Rejected) as told:
        checked(over, confidence="9/10")
    assert str(told.value) == snapshot
    with pytest.raises(Rejected) as told:
        checked(one, confidence="1")
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "claim",
    [
        NamePart("nothing"),
        NamePart("loop"),
        of(1),
        BinaryPart("<", ListPart(()), of(1)),
        BinaryPart("and", of(1), of(1)),
        BinaryPart("<", BinaryPart("/", of(1), of(0)), of(1)),
        BinaryPart("<", NumberPart("1/0"), of(1)),
        BinaryPart("<", NumberPart("1e5"), of(1)),
        BinaryPart("<", call("other"), of(1)),
        ForAllPart((BinderPart("z", of(1)),), of(1)),
    ],
)
def test_what_says_nothing_is_refused(claim, snapshot):
    lets = {"loop": BinaryPart("<", NamePart("loop"), of(1))}
    with pytest.raises(Rejected) as told:
        checked(claim, lets=lets)
    assert str(told.value) == snapshot


@settings(max_examples=rounds(200), deadline=None)
@given(claims())
def test_a_claim_is_printed_as_it_is_read(drawn):
    from leaveout.specs import parse

    claim, _ = drawn
    shown = text(claim, {})
    if "/" not in shown:
        parsed = parse(f"guarantee g: {shown}").statements[0].claim
        assert str(parsed) == shown


def test_numbers_are_shown_as_decimals_where_they_are():
    assert [decimal(Fraction(each)) for each in ("1/2", "-3/8", "7", "1/3", "1/1000")] == [
        "0.5", "-0.375", "7", "1/3", "0.001",
    ]  # fmt: skip
    assert decimal(Fraction(0.1)).startswith("about 0.1")
    with pytest.raises(Rejected):
        number("--1")


def test_a_find_is_said_with_its_ends(snapshot):
    claim = BinaryPart(">=", call("share", edits=NamePart("r")), of("1/2"))
    find = FindPart("greatest", "r", "4", "5")
    statement = StatementPart("f", claim, "proved", find=find)
    (line,) = statement_lines(statement, {})
    assert line == snapshot
    same = StatementPart("f", claim, "proved", find=FindPart("greatest", "r", "5", "5"))
    assert next(statement_lines(same, {})).endswith("is 5")
