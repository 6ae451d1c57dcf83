"""Claims about values: three-valued logic over two-sided bounds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from leaveout.errors import SpecError
from leaveout.specs import Type, check, parse
from leaveout.specs.deciders import Bounds
from leaveout.specs.types import NUMBER
from leaveout.verifier.values.decider import is_value_claim

from support.values import decide, decide_all, function, number, refused

GOOD = Path(__file__).parents[1] / "specs" / "good"


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("1 < 2", "proved"),
        ("0.1 + 0.2 == 0.3", "proved"),
        ("2 * 3 != 6", "refuted"),
        ("between(1, 2) > 0.5", "proved"),
        ("between(1, 2) >= 1", "proved"),
        ("between(1, 2) > 1", "unknown"),
        ("between(1, 2) > 2", "refuted"),
        ("between(1, 2) == 3", "refuted"),
        ("between(1, 2) == 1", "unknown"),
        ("between(1, 2) != 3", "proved"),
        ("1 / between(-1, 2) < 5", "unknown"),
        ("1 / between(1, 2) <= 1", "proved"),
        ("-between(1, 2) <= -1", "proved"),
        ("abs(between(-3, 2)) <= 3", "proved"),
        ("abs(between(-3, -2)) >= 2", "proved"),
        ("abs(between(-3, 2)) < 0", "refuted"),
        ("between(1, 2) - between(1, 2) == 0", "unknown"),
        ("between(0, 2) * between(-1, 3) >= -2", "proved"),
        ("told(unknown) and told(refuted)", "refuted"),
        ("told(unknown) and told(proved)", "unknown"),
        ("told(unknown) or told(proved)", "proved"),
        ("told(unknown) or told(refuted)", "unknown"),
        ("told(refuted) => told(unknown)", "proved"),
        ("told(unknown) => told(proved)", "proved"),
        ("told(unknown) => told(refuted)", "unknown"),
        ("told(proved) => told(refuted)", "refuted"),
        ("not told(unknown)", "unknown"),
        ("not told(proved)", "refuted"),
        ("not told(refuted)", "proved"),
        ("forall i in items([1, 2, 3]): amount(i) <= 3", "proved"),
        ("forall i in items([1, 2, 3]): amount(i) < 3", "refuted"),
        ("forall i in items([1, 2]), j in items([1, 2]): i == j", "refuted"),
        (
            "forall i in items([1, 2]): amount(i) <= 2 and (forall j in items([3]): i != j)",
            "proved",
        ),
        ("forall i in items([1, 4]): between(1, 2) >= amount(i)", "refuted"),
        ("forall i in items([1, 2]): between(1, 2) >= amount(i)", "unknown"),
        ("accuracy(at = 5) >= 0.5", "proved"),
        ("accuracy(at = 7) >= 0.3", "proved"),
        ("accuracy(at = 5, spread = 1) > 0.5", "unknown"),
    ],
)
def test_a_claim(claim, verdict):
    result = decide(f"guarantee g: {claim}")
    assert result.verdict == verdict
    assert (result.reason is not None) == (verdict == "unknown")
    assert (result.example is not None) == (verdict == "refuted")
    assert result.example is None or result.example.words
    if verdict == "unknown":
        assert result.reason.startswith(("time: ", "solver: ", "numerical: "))


def test_the_bounds_of_a_compared_value_are_reported(snapshot):
    results, notes = decide_all(
        "guarantee a: between(1, 2) > 1.5 guarantee b: 3 < between(1, 2) "
        "guarantee c: between(1, 2) < between(4, 8) guarantee d: 0.1 < 0"
    )
    assert [(r.lower, r.upper) for r in results[:3]] == [(1, 2), (1, 2), (-7, -2)]
    assert results[0].reason == snapshot
    assert results[3].lower <= 0.1 <= results[3].upper
    assert results[1].example.words == snapshot
    assert not notes


def test_a_refuted_claim_says_why(snapshot):
    result = decide("guarantee g: forall i in items([7, 8]): amount(i) < 8")
    assert result.example.words == snapshot


def test_an_infinite_bound_is_null():
    unbounded = function("unbounded", lambda _: Bounds(1, math.inf))
    result = decide("guarantee g: unbounded() > 2", unbounded=unbounded)
    assert (result.verdict, result.lower, result.upper) == ("unknown", 1, None)


def test_what_stays_the_same_is_computed_once():
    asked = []

    def count(given):
        asked.append(dict(given))
        return Bounds.exactly(len(asked))

    text = "let a = count() let b = a + a + count() guarantee g: b - 3 * a == 0 guarantee h: a < 2"
    results, _ = decide_all(text, count=function("count", count))
    assert [each.verdict for each in results] == ["proved", "proved"]
    assert asked == [{}]


def test_a_long_chain_of_lets():
    lets = "let a0 = between(1, 1) " + " ".join(f"let a{i + 1} = a{i} + 1" for i in range(90))
    assert decide(f"{lets} guarantee g: a90 == 91").verdict == "proved"


def test_lets_nested_deep_are_evaluated_in_order():
    lets = "let a0 = 1 " + " ".join(f"let a{i + 1} = {'(1 + ' * 8}a{i}{')' * 8}" for i in range(20))
    assert decide(f"{lets} guarantee g: a20 == 161").verdict == "proved"


def test_what_is_nested_too_deep_is_refused():
    inc = function("inc", lambda given: Bounds.exactly(given["of"] + 1), number("of"))
    text = f"guarantee g: {'inc(' * 196}0{')' * 196} == 196"
    try:
        assert decide(text, inc=inc).verdict == "proved"
    except SpecError as error:
        assert "this is nested too deep" in str(error) or "RecursionError" in str(error)


def test_numbers_can_be_iterated(snapshot):
    every = Type("Every", "some numbers", each=NUMBER)
    some = function("some", lambda _: (0.5, np.float32(1.5), 2), result=every)
    claim = "forall n in some(): n >= 0.5 and between(0, 2) * n <= 4"
    assert decide(f"guarantee g: {claim}", some=some).verdict == "proved"
    wrong = function("some", lambda _: (0.5, "a"), result=every)
    assert refused(f"guarantee g: {claim}", some=wrong) == snapshot


@pytest.mark.parametrize(
    "text",
    [
        "guarantee g: 1 / (2 - 2) > 0",
        "guarantee g: between(1, 2) / between(0, 0) > 0",
        "guarantee g: (forall i in items([1]): amount(i) < 2) with confidence 0.9",
    ],
)
def test_claims_that_are_refused(text, snapshot):
    assert refused(text) == snapshot


def test_without_time_left_nothing_is_asked(snapshot):
    result = decide("guarantee g: between(1, 2) > 0", seconds=0.0)
    assert result.verdict == "unknown"
    assert result.reason == snapshot


def test_a_decider_may_run_out_of_time(snapshot):
    def slow(given):
        raise TimeoutError

    result = decide("guarantee g: slow() > 0", slow=function("slow", slow))
    assert result.verdict == "unknown"
    assert result.reason == snapshot


def test_an_interrupt_is_no_error():
    def stop(given):
        raise KeyboardInterrupt

    result = decide("guarantee g: stop() > 0", stop=function("stop", stop))
    assert (result.verdict, result.reason) == ("unknown", "time: interrupted")


def test_a_confidence_is_shared_among_what_is_estimated(snapshot):
    seen = []

    def estimate(given):
        seen.append(given.confidence)
        return Bounds(0, 0.01)

    table = {"estimate": function("estimate", estimate, number("of"))}
    results, notes = decide_all("guarantee g: estimate(1) <= 0.05 with confidence 0.95", **table)
    assert results[0].verdict == "proved"
    assert notes == snapshot
    text = "let a = estimate(1) guarantee g: a + estimate(2) - a <= 0.05 with confidence 0.9"
    decide_all(text, **table)
    assert seen == [0.95, pytest.approx(0.95), pytest.approx(0.95)]


def test_which_statements_are_about_values():
    kinds = {}
    for name in ("poisoning", "deletion", "two_networks", "breast_cancer"):
        checked = check(parse((GOOD / f"{name}.spec").read_text()))
        kinds[name] = {is_value_claim(each, checked) for each in checked.statements}
    assert kinds["poisoning"] == kinds["deletion"] == {True}
    assert kinds["two_networks"] == kinds["breast_cancer"] == {False}
    hidden = check(
        parse('let N = network("n") let c = forall x in box(0, 1): label(N, x) == 1 guarantee g: c')
    )
    assert not is_value_claim(hidden.statements[0], hidden)
