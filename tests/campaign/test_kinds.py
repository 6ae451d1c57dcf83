"""The oracle of each kind can fail: an answer that is made false is called wrong."""

from __future__ import annotations

import dataclasses
import json
import types
from pathlib import Path

import msgspec
import numpy as np
import pytest
from campaign import replay
from onnx import helper

import attacks.certificates
import attacks.claims
import attacks.leaks
import attacks.vnnlib
from attacks.kind import generator, load, sort_of
from attacks.listed import planted_question
from attacks.truth import Runtime
from attacks.workers import judged
from support import networks
from support.depth import enough, rounds

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


def planted(seed=0):
    """A question with a leak of label 0 whose confidence is about 1, where values are large."""
    case = planted_question(generator(seed, "planted", 0))
    ask = {
        "engines": ["native"], "label": 0, "decide": False, "floor": 0.0, "attack": True,
        "kernel": "cpu", "proofs": True, "seconds": 2.0,
    }  # fmt: skip
    return {**case, "ask": ask}


def test_scores_are_those_before_the_last_softmax_and_behind_any_other():
    weights = {"V": np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 1.0]], np.float32)}
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"]),
        helper.make_node("MatMul", ["p", "V"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"]),
    ]
    point = np.array([[1.0, 3.0]])
    share = 1 / (1 + np.exp(2.0))
    scores = [[share, 1 - share]] @ weights["V"].astype(float)
    for end, output in ((2, "s"), (3, "y")):
        model = networks.model(nodes[:end], weights, ["n", 2], ["n", 3])
        model.graph.output[0].name = output
        np.testing.assert_allclose(Runtime(model).scores(point)[0], scores, rtol=1e-6)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_a_case_that_was_found_is_right_now(path):
    name, outcome = replay(path)
    assert outcome.wrong is None, f"{name}: {outcome.wrong}"


def changed_result(monkeypatch, change):
    run = attacks.leaks.run
    monkeypatch.setattr(attacks.leaks, "run", lambda *given: change(run(*given)))
    return sort_of(judged(load("listed"), planted()).wrong or "")


def test_a_bound_below_a_planted_leak_is_called_wrong(monkeypatch):
    def change(result):
        low = np.full_like(result.member_upper, 0.25)
        return dataclasses.replace(result, lower=0.0, upper=0.25, witness=None, member_upper=low)

    assert changed_result(monkeypatch, change) == "a leak above the bound"


def test_a_bound_that_is_no_number_is_called_wrong(monkeypatch):
    found = changed_result(monkeypatch, lambda r: dataclasses.replace(r, upper=np.nan))
    assert found == "a bound is no number"


def test_a_lower_bound_without_a_witness_is_called_wrong(monkeypatch):
    def change(result):
        return dataclasses.replace(result, lower=0.5, upper=9.0, witness=None)

    assert changed_result(monkeypatch, change) == "a lower bound without a witness"


def test_a_witness_beside_the_set_or_that_does_not_leak_is_called_wrong():
    case = planted()
    instance = attacks.leaks.instance_of(case)
    result = attacks.leaks.run(instance, case["ask"], "native")
    x = np.asarray(case["planted"][0], np.float32)
    witness = types.SimpleNamespace(x=x, member=0)
    shown = dataclasses.replace(result, lower=0.5, upper=9.0, witness=witness)
    assert sort_of(attacks.leaks.judge(case, case["ask"], shown)) == "the witness does not replay"
    witness.x = np.nextafter(x, np.float32(np.inf))
    column = case["box"]["tables"][0]["columns"][0]
    assert witness.x[column] != x[column]
    assert sort_of(attacks.leaks.judge(case, case["ask"], shown)) == "the witness is not in the set"


def claim(**values):
    case = {k: v for k, v in planted().items() if k != "ask"}
    net = case["net"]
    case["net"] = {**net, "floats": case["members"][0]}
    asked = {"shape": "robust", "premise": None, "value": None}
    asked["claim"] = ["label", "==", ["N", "x"], 0]
    return {
        **case, "other": net, "two": False, "family": False, "seconds": 2.0, **asked, **values,
    }  # fmt: skip


def changed_report(monkeypatch, case, **values):
    verify = attacks.claims.leaveout.verify

    def change(*given, **options):
        report = verify(*given, **options)
        result = msgspec.structs.replace(report.results[0], **values)
        return msgspec.structs.replace(report, results=(result,))

    with monkeypatch.context() as patch:
        patch.setattr(attacks.claims.leaveout, "verify", change)
        return sort_of(judged(load("claims"), case).wrong or "")


@pytest.mark.parametrize("two", [False, True])
def test_a_false_claim_that_is_called_proved_is_wrong(monkeypatch, two):
    case = claim(two=two)
    assert changed_report(monkeypatch, case) == ""
    found = changed_report(monkeypatch, case, verdict="proved", example=None)
    assert found == "a counter-example to what is proved"


def test_a_true_claim_that_is_called_refuted_is_wrong(monkeypatch):
    case = claim(claim=["compare", ">", ["score", "N", "x", 0], ["constant", -1e6]])
    assert changed_report(monkeypatch, case, verdict="refuted") == "refuted without an example"


def test_a_find_whose_bound_is_passed_is_wrong(monkeypatch):
    case = claim(shape="least", value=["-", ["score", "N", "x", 1], ["score", "N", "x", 0]])
    case["claim"] = ["never"]
    found = changed_report(monkeypatch, case, lower=None, upper=-1e3, example=None)
    assert found == "a counter-example to what is proved"


@pytest.mark.parametrize("verdict", ["proved", "refuted"])
def test_a_query_with_the_other_answer_is_wrong(monkeypatch, verdict):
    kind, seen = load("vnnlib"), 0
    decide = attacks.vnnlib.decide

    def change(query, **options):
        found = decide(query, **options)
        nothing = found.points is None
        return dataclasses.replace(
            found,
            verdict=verdict,
            points=tuple(b.float32(b.lower) for b in query.points) if nothing else found.points,
            scores=tuple(np.zeros(a.network.labels) for a in query.applications),
        )

    monkeypatch.setattr(attacks.vnnlib, "decide", change)
    for number in range(rounds(40)):
        seen += judged(kind, kind.make(generator(3, "vnnlib", number))).wrong is not None
    assert seen >= enough(5)


def test_an_accepted_forgery_is_called_wrong(monkeypatch):
    case = {k: v for k, v in planted().items() if k != "ask"}
    case |= {"label": 0, "forgery": "hollow", "below": 0.3, "also": ""}
    kind = load("certificates")
    outcome = judged(kind, case)
    assert (outcome.answer, outcome.wrong) == ("refused", None)
    claimed = types.SimpleNamespace(upper=0.25, label=0)
    monkeypatch.setattr(attacks.certificates, "check", lambda path: [claimed])
    assert sort_of(judged(kind, case).wrong) == "a false bound is accepted"


@pytest.mark.parametrize("name", ["crowds", "leaks", "listed", "claims", "vnnlib", "certificates"])
def test_a_case_depends_on_its_number_alone_and_is_plain_data(name):
    kind = load(name)
    for number in range(rounds(30)):
        case = kind.make(generator(1, name, number))
        assert case == load(name).make(generator(1, name, number))
        assert json.loads(json.dumps(case)) == case
        smaller = [json.dumps(each) for each in kind.shrink(case)]
        assert json.dumps(case) not in smaller
