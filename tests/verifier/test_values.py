"""Claims about values: three-valued logic over two-sided bounds, and finds over a trend."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leaveout.errors import LeaveoutError, SpecError
from leaveout.models import Network
from leaveout.specs import Function, Parameter, Type, check, functions, parse
from leaveout.specs.deciders import Arguments, Bounds, Decided
from leaveout.specs.types import BOOLEAN, FAMILY, INPUTS, LABEL, LIST, NETWORK, NUMBER, TEXT
from leaveout.verifier.resolve_names import Resolver
from leaveout.verifier.values.decider import ValueDecider, is_value_claim
from leaveout.verifier.values.ranges import Range, compare

from support.files import write_question

GOOD = Path(__file__).parents[1] / "specs" / "good"
ITEM = Type("Item", "an item", equates=True)
ITEMS = Type("Items", "some items", each=ITEM)


def function(name, decider, *parameters, result=NUMBER):
    return Function(name, parameters, result, "For tests.", f"{name}() < 1", decider=decider)


def number(name, **fields):
    return Parameter(name, (NUMBER,), **fields)


def between(given):
    return Bounds(given["low"], given["high"], "numerical: sampled")


def accuracy(given):
    """A share that falls from 1 to 0 in steps; between two amounts only bounds are known."""
    at, spread = given["at"], given.number("spread", 0)
    return Bounds(Fraction(10 - int(at + spread), 10), Fraction(10 - int(at - spread), 10))


TABLE = {
    **functions(),
    "between": function("between", between, number("low"), number("high")),
    "accuracy": function(
        "accuracy",
        accuracy,
        number("at", named=True, whole=True, least=0, most=10, trend="falling"),
        number("spread", named=True, optional=True),
    ),
    "told": function(
        "told",
        lambda given: Decided(given["verdict"], "solver: gave up", "because", "as told"),
        Parameter("verdict", words=("proved", "refuted", "unknown")),
        result=BOOLEAN,
    ),
    "items": function("items", lambda given: given["of"], Parameter("of", (LIST,)), result=ITEMS),
    "amount": function(
        "amount", lambda given: Bounds.exactly(given["item"]), Parameter("item", (ITEM,))
    ),
}


def decide_all(text, folder=Path(), seconds=None, **more):
    """Return the results of a specification, and the notes."""
    table = {**TABLE, **more}
    checked = check(parse(text, "patient.spec"), table)
    decider = ValueDecider(checked, Resolver(checked, folder), folder)
    for statement in checked.statements:
        assert is_value_claim(statement, checked)
        decider.load(statement)
    return [decider.decide(each, seconds) for each in checked.statements], decider.notes


def decide(text, folder=Path(), seconds=None, **more):
    """Return the result of the one statement."""
    (result,), _ = decide_all(text, folder, seconds, **more)
    return result


def refused(text, **more):
    with pytest.raises(LeaveoutError) as caught:
        decide(text, **more)
    return str(caught.value)


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


def test_the_bounds_of_a_compared_value_are_reported():
    results, notes = decide_all(
        "guarantee a: between(1, 2) > 1.5 guarantee b: 3 < between(1, 2) "
        "guarantee c: between(1, 2) < between(4, 8) guarantee d: 0.1 < 0"
    )
    assert [(r.lower, r.upper) for r in results[:3]] == [(1, 2), (1, 2), (-7, -2)]
    assert results[0].reason == "numerical: between(1, 2) is between 1 and 2; sampled"
    assert results[3].lower <= 0.1 <= results[3].upper
    assert results[1].example.words == "between(1, 2) is between 1 and 2"
    assert not notes


def test_a_refuted_claim_says_why():
    result = decide("guarantee g: forall i in items([7, 8]): amount(i) < 8")
    assert result.example.words == (
        "amount(i) is 8, where i = items([7, 8]), number 1 counted from 0"
    )


def test_a_note_of_a_decider_is_kept_once():
    _, notes = decide_all("guarantee g: told(proved) guarantee h: told(proved) and told(proved)")
    assert notes == ["told: as told"]


def test_what_a_decider_tells_reaches_the_result_whatever_the_verdict():
    def telling(given):
        given.tell({"at": np.int64(3), "share": np.float64(0.5), "rows": [1, 2], "far": math.inf})
        return Bounds.exactly(1)

    more = {"telling": function("telling", telling)}
    results, _ = decide_all(
        "guarantee a: telling() <= 1 guarantee b: telling() > 1 "
        "guarantee c: told(refuted) guarantee d: 1 < 2",
        **more,
    )
    for result in results[:2]:
        (record,) = result.facts
        assert record.name == "telling"
        assert record.facts == {"at": 3, "share": 0.5, "rows": (1, 2), "far": "inf"}
        assert {type(each) for each in record.facts.values()} == {int, float, tuple, str}
    assert [each.facts for each in results[2:]] == [(), ()]


def test_facts_of_a_call_that_is_repeated_are_all_kept():
    def telling(given):
        given.tell({"item": given["item"]})
        return Bounds.exactly(given["item"])

    more = {"telling": function("telling", telling, Parameter("item", (ITEM,)))}
    text = "guarantee {}: forall i in items([{}]): telling(i) <= 9 "
    one, two = decide_all(text.format("a", "1, 2") + text.format("b", "3"), **more)[0]
    assert [each.facts["item"] for each in one.facts] == [1, 2]
    assert [each.facts["item"] for each in two.facts] == [3]


def test_a_fact_that_no_file_can_hold_is_refused():
    def telling(given):
        given.tell({"what": object()})
        return Bounds.exactly(1)

    said = refused("guarantee g: telling() <= 1", telling=function("telling", telling))
    assert "a fact is a number, a text or whole numbers, not a object" in said


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


def test_numbers_can_be_iterated():
    every = Type("Every", "some numbers", each=NUMBER)
    some = function("some", lambda _: (0.5, np.float32(1.5), 2), result=every)
    claim = "forall n in some(): n >= 0.5 and between(0, 2) * n <= 4"
    assert decide(f"guarantee g: {claim}", some=some).verdict == "proved"
    wrong = function("some", lambda _: (0.5, "a"), result=every)
    assert "n is no number: a bound is a str" in refused(f"guarantee g: {claim}", some=wrong)


# Arguments


def test_a_decider_is_given_its_arguments(tmp_path):
    seen = []

    def look(given):
        seen.append(given)
        return Bounds.exactly(0)

    parameters = [
        Parameter("of", (LIST,)),
        Parameter("file", (TEXT,)),
        Parameter("more", (NUMBER,), optional=True),
        Parameter("how", words=("fast", "slow"), named=True),
    ]
    text = 'let p = "a.csv" guarantee g: look([1, 1 / 2], p, how = slow) == 0'
    assert decide(text, tmp_path, look=function("look", look, *parameters)).verdict == "proved"
    (arguments,) = seen
    assert dict(arguments) == {"of": [1, 0.5], "file": "a.csv", "how": "slow"}
    assert arguments.path("file") == tmp_path / "a.csv"
    assert (arguments.seconds, arguments.confidence) == (None, None)


def test_arguments_of_another_kind_are_refused():
    given = Arguments({"a": 1.0, "b": "text"})
    assert given.number("a") == 1
    assert given.number("c", 2) == 2
    with pytest.raises(TypeError, match="'b' is a str, no number"):
        given.number("b")
    with pytest.raises(TypeError, match="'a' is a float, no text"):
        given.path("a")


def test_networks_families_and_sets_of_inputs_are_loaded(tmp_path):
    write_question(tmp_path)
    seen = []

    def look(given):
        seen.append({name: type(value).__name__ for name, value in given.items()})
        return Decided("proved")

    kinds = {"net": NETWORK, "members": FAMILY, "where": INPUTS}
    parameters = [
        Parameter(name, (kind,), optional=True, named=True) for name, kind in kinds.items()
    ]
    table = {"look": function("look", look, *parameters, result=BOOLEAN)}
    lets = 'let N = network("full.onnx") let F = family("family.npz") let X = box(0, 1) '
    text = lets + "guarantee g: look(net = N, members = F, where = X) and look(members = F)"
    assert decide(text, tmp_path, **table).verdict == "proved"
    assert seen == [{"net": "Network", "members": "Family", "where": "Box"}, {"members": "Family"}]


def test_a_claim_of_every_member(tmp_path):
    write_question(tmp_path)
    seen = []

    def total(given):
        assert isinstance(given["net"], Network)
        seen.append(sum(float(np.abs(v).sum()) for v in given["net"].parameters.values()))
        return Bounds.exactly(seen[-1])

    table = {"total": function("total", total, Parameter("net", (NETWORK,)))}
    text = 'let N = network("full.onnx") guarantee g: forall M in family("family.npz"): '
    result = decide(f"{text} total(M) >= 0 and total(N) >= 0", tmp_path, **table)
    assert result.verdict == "proved"
    assert len(set(seen)) == len(seen) > 2


def test_a_label_compares_with_a_number():
    chosen = function("chosen", lambda _: 2, result=LABEL)
    assert decide("guarantee g: chosen() == 2", chosen=chosen).verdict == "proved"
    assert decide("guarantee g: chosen() != chosen()", chosen=chosen).verdict == "refuted"


def test_an_argument_must_be_known():
    result = decide("guarantee g: accuracy(at = between(1, 2)) >= 0")
    assert result.verdict == "unknown"
    assert result.reason == (
        "numerical: 'at' of accuracy must be known, between(1, 2) is between 1 and 2"
    )


def test_an_argument_must_be_in_range():
    said = refused("guarantee g: accuracy(at = 5 / 2) >= 0")
    assert "patient.spec:1:28: 'at' of accuracy is a whole number from 0 to 10, not 2.5" in said


# Deciders that go wrong


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Bounds(math.nan, 1), "a bound is not a number (NaN)"),
        (Bounds(2, 1), "the lower bound 2 is above the upper 1"),
        (Bounds(math.inf, math.inf), "a bound is infinite on the wrong side"),
        (Bounds("1", 2), "a bound is a str, no number"),
        (1.5, "expected Bounds, got a float"),
        (None, "expected Bounds, got None"),
    ],
)
def test_bounds_that_cannot_be_right_are_refused(answer, said):
    text = refused("guarantee g: bad() > 0", bad=function("bad", lambda _: answer))
    first = f"patient.spec:1:14: plug-in function 'bad' ({__name__}) gave no usable answer: {said}"
    assert text.startswith(first)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Decided("maybe"), "there is no verdict 'maybe'"),
        (Decided("refuted"), "'refuted' needs a witness"),
        (True, "expected Decided, got a bool"),
    ],
)
def test_verdicts_that_cannot_be_right_are_refused(answer, said):
    bad = function("bad", lambda _: answer, result=BOOLEAN)
    assert said in refused("guarantee g: bad()", bad=bad)


def test_a_decider_that_fails_is_named():
    def bad(given):
        raise KeyError("ballots\nand more")

    said = refused("guarantee g: 1 < 2 and bad() > 0", bad=function("bad", bad))
    assert said.startswith(
        f"patient.spec:1:24: plug-in function 'bad' ({__name__}) failed: KeyError:"
    )
    assert "Traceback" not in said


def test_a_decider_that_ends_the_program_is_an_error():
    def bad(given):
        raise SystemExit(3)

    assert "failed: SystemExit: 3" in refused("guarantee g: bad() > 0", bad=function("bad", bad))


def test_what_a_decider_refuses_is_shown_as_it_is():
    def bad(given):
        raise SpecError("no such file")

    said = refused("guarantee g: bad() > 0", bad=function("bad", bad))
    assert said.startswith("patient.spec:1:14: bad: no such file\n")


def test_values_that_do_not_compare():
    arrays = function("arrays", lambda _: np.zeros(2), result=ITEM)
    said = refused("guarantee g: arrays() == arrays()", arrays=arrays)
    assert "these values do not compare: ValueError" in said


def test_a_function_without_a_decider_is_refused():
    text = (GOOD / "poisoning.spec").read_text()
    undecided = replace(functions()["certified_accuracy"], decider=None)
    said = refused(text, certified_accuracy=undecided)
    assert said.startswith("patient.spec:3:21: this version cannot decide 'certified_accuracy' yet")
    assert len(said.splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("guarantee g: 1 / (2 - 2) > 0", "division by zero"),
        ("guarantee g: between(1, 2) / between(0, 0) > 0", "division by zero"),
        (
            "guarantee g: (forall i in items([1]): amount(i) < 2) with confidence 0.9",
            "'with confidence' over many values",
        ),
    ],
)
def test_claims_that_are_refused(text, said):
    assert said in refused(text)


# Time and confidence


def test_without_time_left_nothing_is_asked():
    result = decide("guarantee g: between(1, 2) > 0", seconds=0.0)
    assert (result.verdict, result.reason) == (
        "unknown",
        "time: the time was over before between(1, 2)",
    )


def test_a_decider_may_run_out_of_time():
    def slow(given):
        raise TimeoutError

    result = decide("guarantee g: slow() > 0", slow=function("slow", slow))
    assert (result.verdict, result.reason) == ("unknown", "time: slow ran out of time")


def test_an_interrupt_is_no_error():
    def stop(given):
        raise KeyboardInterrupt

    result = decide("guarantee g: stop() > 0", stop=function("stop", stop))
    assert (result.verdict, result.reason) == ("unknown", "time: interrupted")


def test_a_confidence_is_shared_among_what_is_estimated():
    seen = []

    def estimate(given):
        seen.append(given.confidence)
        return Bounds(0, 0.01)

    table = {"estimate": function("estimate", estimate, number("of"))}
    results, notes = decide_all("guarantee g: estimate(1) <= 0.05 with confidence 0.95", **table)
    assert results[0].verdict == "proved"
    assert notes == ["g: what was sampled holds with confidence 0.95"]
    text = "let a = estimate(1) guarantee g: a + estimate(2) - a <= 0.05 with confidence 0.9"
    decide_all(text, **table)
    assert seen == [0.95, pytest.approx(0.95), pytest.approx(0.95)]


# Finds


@pytest.mark.parametrize(
    ("find", "verdict", "bounds"),
    [
        ("greatest r such that accuracy(at = r) >= 0.5", "proved", (5, 5)),
        ("greatest r such that 0.5 <= accuracy(at = r)", "proved", (5, 5)),
        ("greatest r such that accuracy(at = r) > 0.5", "proved", (4, 4)),
        ("least r such that accuracy(at = r) < 0.5", "proved", (6, 6)),
        ("least r such that accuracy(at = r) <= 1", "proved", (0, 0)),
        ("greatest r such that accuracy(at = r) >= 0", "proved", (10, 10)),
        ("greatest r such that accuracy(at = r) > 1", "refuted", (None, None)),
        ("least r such that accuracy(at = r) < 0", "refuted", (None, None)),
        ("greatest r such that accuracy(at = r, spread = 2) >= 0.5", "unknown", (3, 7)),
        ("greatest r such that steps(r) <= 1000", "proved", (1000, 1000)),
        ("least r such that steps(r) >= 1000.5", "proved", (1001, 1001)),
        ("least r such that steps(r) >= 0", "proved", (0, 0)),
        ("greatest b such that between(1, 1) >= b", "proved", (1, 1)),
        ("least b such that between(1, 2) <= b", "unknown", (1, 2)),
        ("least b such that b >= between(1, 2)", "unknown", (1, 2)),
        ("greatest t such that level(t) <= 0.25", "proved", (0.5, 0.5)),
        ("least t such that level(t) >= 0.25", "proved", (0.5, 0.5)),
        ("greatest r such that flat(r) <= 1", "unknown", (2**40, None)),
    ],
)
def test_a_find(find, verdict, bounds):
    result = decide(
        f"find f: {find}",
        steps=function(
            "steps",
            lambda given: Bounds.exactly(given["r"]),
            number("r", whole=True, least=0, trend="rising"),
        ),
        level=function(
            "level",
            lambda given: Bounds.exactly(given["t"] ** 2),
            number("t", least=0, most=1, trend="rising"),
        ),
        flat=function(
            "flat", lambda _: Bounds.exactly(1), number("r", whole=True, least=0, trend="rising")
        ),
    )
    assert result.kind == "find"
    assert result.verdict == verdict
    for found, expected in zip((result.lower, result.upper), bounds, strict=True):
        assert found == (None if expected is None else pytest.approx(expected, abs=2e-6))
    assert (result.reason is not None) == (verdict == "unknown")


@given(
    near=st.integers(-1, 40), gap=st.integers(1, 10), most=st.integers(30, 60), least=st.booleans()
)
@settings(deadline=None, max_examples=60)
def test_a_find_ends_at_what_is_known(near, gap, most, least):
    far = near + gap
    # known(r) is 0 up to near, 1 from far, and anything between.
    known = function(
        "known",
        lambda given: Bounds(int(given["r"] >= far), int(given["r"] > near)),
        number("r", whole=True, least=0, most=most, trend="rising"),
    )
    direction, claim = ("least", "known(r) >= 1") if least else ("greatest", "known(r) <= 0")
    result = decide(f"find f: {direction} r such that {claim}", known=known)
    if least:
        expected = (max(near + 1, 0), far if far <= most else None)
    else:
        expected = (near if near >= 0 else None, min(far - 1, most))
    if result.verdict == "refuted":
        assert far <= 0 if not least else near >= most
    else:
        assert (result.lower, result.upper) == (
            (min(expected[0], most), expected[1]) if not least and near >= most else expected
        )


@pytest.mark.parametrize(
    ("find", "said"),
    [
        ("least r such that accuracy(at = r) >= 0.5", "every smaller one holds too"),
        ("greatest b such that between(1, 2) <= b", "every larger one holds too"),
        ("least b such that between(1, 2) < b", "write '<='"),
        ("least r per label such that accuracy(at = r) < 0.5", "leave 'per label' out"),
        ("greatest r such that accuracy(at = 2 * r) >= 0.5", "must itself be an argument"),
        ("greatest r such that accuracy(at = r) + 1 >= 0.5", "must itself be an argument"),
        ("greatest r such that accuracy(at = r) >= r", "on both sides"),
        ("greatest r such that not accuracy(at = r) < 0.5", "this cannot be searched"),
        ("greatest r such that between(r, 9) >= 2", "does not say how it changes with 'low'"),
        ("greatest r such that accuracy(at = r) >= 0.5 with confidence 0.9", "asks many times"),
    ],
)
def test_finds_that_cannot_be_answered(find, said):
    assert said in refused(f"find f: {find}")


# Ranges and what is a value claim


ENDS = st.tuples(st.integers(-5, 5), st.integers(-5, 5)).map(sorted)


@given(left=ENDS, right=ENDS, operator=st.sampled_from("+-*/"))
@settings(deadline=None)
def test_arithmetic_holds_every_result(left, right, operator):
    a, b = Range.between(*left), Range.between(*right)
    operations = {"+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__"}
    for x in range(left[0], left[1] + 1):
        for y in range(right[0], right[1] + 1):
            if operator == "/" and right[0] <= 0 <= right[1]:
                continue
            exact = getattr(Fraction(x), operations[operator])(Fraction(y))
            whole = getattr(a, operations[operator])(b)
            assert whole.lower <= exact <= whole.upper
            for compared in ("<", "<=", "==", "!=", ">", ">="):
                said = compare(a, compared, b)
                assert said in (None, {"<": x < y, "<=": x <= y, "==": x == y, "!=": x != y,
                                       ">": x > y, ">=": x >= y}[compared])  # fmt: skip


def test_ranges_are_rounded_outwards():
    third = Range.between(Fraction(1, 3), Fraction(1, 3))
    low, high = third.floats
    assert Fraction(low) < Fraction(1, 3) < Fraction(high)
    assert math.nextafter(low, 1) == high
    huge = Range.between(10**400, 10**400)
    assert huge.floats == (math.nextafter(math.inf, 0), None)
    product, exact = huge, 10**400
    for _ in range(6):
        product, exact = product * product, exact * exact
    assert product.lower <= exact <= product.upper
    assert product.reason


@pytest.mark.parametrize("value", [np.float64(0.5), np.float32(0.5), 1, Fraction(1, 2), True])
def test_any_number_can_be_a_bound(value):
    assert Range.between(value, value).lower == Fraction(float(value))


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
