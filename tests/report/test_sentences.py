"""The first page on leaks and answers: every verdict in exactly these words, rounded against us."""

from __future__ import annotations

import msgspec
import pytest

from leaveout.verifier.page.first_page.sentences import of_answers
from leaveout.verifier.records import AnswersRecord, LabelAnswersRecord

from support.sentences import LEAK, NETS, UNKNOWN, VOTES, model, said

FORESTS = 'let T = forest("t.npz")\nlet L = leave_one_out(T)\nlet X = box(0, 1)\n'
FIND = "find s: least b per label such that\n    " + LEAK.format("b")


def leaks(made, *, tops=(0.7746859, 0.5275795), found=(0.7739112, 0.5270519), **given):
    names = ("benign", "malignant")
    results = []
    for label, (top, low) in enumerate(zip(tops, found, strict=True)):
        each = made.leak(name="s", label=label, label_name=names[label], upper=top, **given)
        witness = None
        if low is not None:
            witness = msgspec.structs.replace(each.witness, confidence=low)
        results.append(msgspec.structs.replace(each, witness=witness))
    return results


def test_a_bound_a_label_is_rounded_up_and_what_was_found_down(made, snapshot):
    words = said(made, NETS + FIND, *leaks(made), models=(model(),))
    assert words == snapshot


def test_bounds_that_are_apart_hold_and_the_rest_is_called_unknown(made, snapshot):
    results = leaks(made, tops=(2.0, None), found=(None, None), **UNKNOWN)
    words = said(made, NETS + FIND, *results, models=(model(),))
    assert words == snapshot
    results = leaks(made, tops=(None, None), found=(None, None), **UNKNOWN)
    assert said(made, NETS + FIND, *results, models=(model(),)) == snapshot


def test_bounds_of_many_labels_are_left_to_the_table(made, snapshot):
    results = [made.leak(name="s", label=at, upper=0.5 + at / 10, witness=None) for at in range(8)]
    assert said(made, NETS + FIND, *results, models=(model(labels=()),)) == snapshot


LEAKS = [
    ("proved", "0.775", {}),
    ("refuted", "0.775", {}),
    ("unknown", "0.775", {"reason": "time: over", "upper": 1.25, "label": 0}),
]


@pytest.mark.parametrize(("verdict", "number", "given"), LEAKS)
def test_a_guarantee_about_leaks(made, verdict, number, given, snapshot):
    claim = LEAK.format(number).replace("(N, x) >", "(N, x, 0) >").replace("== label(N, x)", "== 0")
    leak = made.leak(name="s", kind="guarantee", verdict=verdict, **({"label": None} | given))
    if verdict == "refuted":
        witness = msgspec.structs.replace(leak.witness, confidence=0.8000001)
        leak = msgspec.structs.replace(leak, witness=witness)
    assert said(made, f"{NETS}guarantee s: {claim}", leak, models=(model(),)) == snapshot


def test_a_claim_at_a_number_is_said_above_it_and_one_without_is_of_every_answer(made, snapshot):
    leak = made.leak(name="s", kind="guarantee", label=None)
    at_least = LEAK.format("0.8").replace("> 0.8", ">= 0.8")
    assert said(made, f"{NETS}guarantee s: {at_least}", leak) == snapshot
    every = "forall x in X, M in F: label(M, x) == label(N, x)"
    assert said(made, f"{NETS}guarantee s: {every}", leak, models=(model(),)) == snapshot


@pytest.mark.parametrize(
    "models",
    [
        (model(),),
        (model(rows=1000),),
        (model(rows=None),),
        (),
    ],
)
def test_no_more_records_are_named_than_were_left_out(made, models, snapshot):
    leak = made.leak(name="s", kind="guarantee", label=None)
    words = said(made, f"{NETS}guarantee s: {LEAK.format(0.8)}", leak, models=models)
    assert words == snapshot


def test_a_param_has_the_value_that_the_run_gave_it(made, snapshot):
    spec = f"param t = 0.5\n{NETS}guarantee s: {LEAK.format('t')}"
    leak = made.leak(name="s", kind="guarantee", label=None)
    assert said(made, spec, leak) == snapshot
    assert said(made, spec, leak, notes=("param t = 0.9, not 0.5 as written",)) == snapshot


def test_forests_and_pairs_of_models(made, snapshot):
    leak = made.leak(name="s", kind="guarantee", label=None)
    forest = LEAK.format("0.1").replace("N", "T").replace(" F:", " L:")
    words = said(made, f"{FORESTS}guarantee s: {forest}", leak, models=(model(model="forest"),))
    assert words == snapshot
    pair = "forall x in X: confidence(N, x) > 0.1 => label(Q, x) == label(N, x)"
    words = said(made, f'let Q = network("q.onnx")\n{NETS}guarantee s: {pair}', leak)
    assert words == snapshot


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"verdict": "proved"}, "The statement s is proved."),
        (
            {"kind": "find", "lower": 0.25, "upper": 0.5, **UNKNOWN},
            "The statement s asks for a number, which is between 0.25 and 0.5.",
        ),
    ],
)
def test_without_its_specification_a_statement_has_its_verdict_alone(made, given, words):
    missing = " Its wording is not available: its specification was not found, or was changed."
    for spec, digest in ((None, ""), ("guarantee s: 1 == 1", "0" * 64)):
        result = made.result(name="s", **given)
        assert said(made, spec, result, spec_sha256=digest) == words + missing


def test_a_specification_that_no_longer_checks_is_said_in_the_words_of_its_functions(
    made, snapshot
):
    spec = f"{VOTES}guarantee s: certified_accuracy(dpa(Q), edits = 4) >= 0.5"
    assert said(made, spec, made.result(name="s", lower=0.75)) == snapshot


def test_a_statement_of_the_same_name_and_another_kind_is_not_taken_for_it(made, snapshot):
    words = said(made, f"{VOTES}find s: greatest r such that 1 == r", made.result(name="s"))
    assert words == snapshot


def answers(free, count, *, members=569, rows=569):
    label = LabelAnswersRecord(
        label=0, name="", answers=count, owe_nothing=free, not_above=count - free, unknown=0,
        outside=0, upper=0.5, words="",
    )  # fmt: skip
    return AnswersRecord(
        data="patients.csv", network="n", family="f", statements=("s",), members=members, rows=rows,
        words="", outside=(), labels=(label,), answers=(0,) * count, confidences=(1.0,) * count,
        states=("owes nothing",) * count,
    )  # fmt: skip


@pytest.mark.parametrize(
    "found",
    [
        answers(553, 569),
        answers(999, 1000, members=500, rows=1000),
        answers(3, 1000, rows=None),
        answers(2, 2),
        answers(0, 7),
        answers(1, 1),
    ],
)
def test_a_share_of_answers_is_rounded_down(found, snapshot):
    assert of_answers(found) == snapshot
