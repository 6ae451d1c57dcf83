"""Deciders of values: what they are given, what they tell, and what is said of those that err."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leaveout.errors import SpecError
from leaveout.models import Network
from leaveout.specs import Parameter
from leaveout.specs.deciders import Arguments, Bounds, Decided
from leaveout.specs.types import BOOLEAN, FAMILY, INPUTS, LABEL, LIST, NETWORK, NUMBER, TEXT

from support.files import write_question
from support.values import ITEM, decide, decide_all, function, refused


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


def test_a_fact_that_no_file_can_hold_is_refused(snapshot):
    def telling(given):
        given.tell({"what": object()})
        return Bounds.exactly(1)

    said = refused("guarantee g: telling() <= 1", telling=function("telling", telling))
    assert said == snapshot


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


def test_arguments_of_another_kind_are_refused(snapshot):
    given = Arguments({"a": 1.0, "b": "text"})
    assert given.number("a") == 1
    assert given.number("c", 2) == 2
    with pytest.raises(TypeError) as told:
        given.number("b")
    assert str(told.value) == snapshot
    with pytest.raises(TypeError) as told:
        given.path("a")
    assert str(told.value) == snapshot


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


def test_an_argument_must_be_known(snapshot):
    result = decide("guarantee g: accuracy(at = between(1, 2)) >= 0")
    assert result.verdict == "unknown"
    assert result.reason == snapshot


def test_an_argument_must_be_in_range(snapshot):
    said = refused("guarantee g: accuracy(at = 5 / 2) >= 0")
    assert said == snapshot


@pytest.mark.parametrize(
    "answer",
    [
        Bounds(math.nan, 1),
        Bounds(2, 1),
        Bounds(math.inf, math.inf),
        Bounds("1", 2),
        1.5,
        None,
    ],
)
def test_bounds_that_cannot_be_right_are_refused(answer, snapshot):
    text = refused("guarantee g: bad() > 0", bad=function("bad", lambda _: answer))
    assert text == snapshot


@pytest.mark.parametrize(
    "answer",
    [
        Decided("maybe"),
        Decided("refuted"),
        True,
    ],
)
def test_verdicts_that_cannot_be_right_are_refused(answer, snapshot):
    bad = function("bad", lambda _: answer, result=BOOLEAN)
    assert refused("guarantee g: bad()", bad=bad) == snapshot


def test_a_decider_that_fails_is_named(snapshot):
    def bad(given):
        raise KeyError("ballots\nand more")

    said = refused("guarantee g: 1 < 2 and bad() > 0", bad=function("bad", bad))
    assert said == snapshot
    assert "Traceback" not in said


def test_a_decider_that_ends_the_program_is_an_error(snapshot):
    def bad(given):
        raise SystemExit(3)

    assert refused("guarantee g: bad() > 0", bad=function("bad", bad)) == snapshot


def test_what_a_decider_refuses_is_shown_as_it_is(snapshot):
    def bad(given):
        raise SpecError("no such file")

    said = refused("guarantee g: bad() > 0", bad=function("bad", bad))
    assert said == snapshot


def test_values_that_do_not_compare(snapshot):
    arrays = function("arrays", lambda _: np.zeros(2), result=ITEM)
    said = refused("guarantee g: arrays() == arrays()", arrays=arrays)
    assert said == snapshot


def test_a_function_without_a_decider_is_refused():
    said = refused("guarantee g: odd() < 1", odd=function("odd", None))
    assert said.startswith("patient.spec:1:14: this version cannot decide 'odd' yet")
    assert len(said.splitlines()) == 3
