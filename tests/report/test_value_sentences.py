"""The first page on values: each kind of statement and verdict in exactly these words."""

from __future__ import annotations

import pytest

from leaveout.verifier.records import FactsRecord

from support.sentences import AUDIT, NETS, UNKNOWN, VOTES, said

SERVICE = "guarantee s: unlearns(S, updates = adaptive, alpha = {}, beta = {}, gamma = {})"


def fact(name, **given):
    return (FactsRecord(name=name, facts=given),)


VALUES = [
    (
        f"{VOTES}guarantee s: certified_accuracy(dpa(V), edits = 4) >= 0.5",
        {"lower": 0.8839779005524862, "upper": 0.8839779005524863},
    ),
    (
        f"{VOTES}guarantee s: certified_accuracy(dpa(V), edits = 1) > 0.125",
        {"lower": 0.57, "upper": 0.57},
    ),
    (
        f"{VOTES}guarantee s: certified_accuracy(dpa(V), removals = 8) >= 0.9",
        {"verdict": "refuted", "lower": 0.7734806, "upper": 0.7734807},
    ),
    (
        f"{VOTES}guarantee s: collective_accuracy(dpa(V), insertions = 8) >= 0.9",
        {"lower": 0.5, "upper": 0.951, **UNKNOWN},
    ),
    (
        f"{VOTES}guarantee s: collective_accuracy(ss_dpa(W), relabels = 1000) >= 0.25",
        {"lower": 0.25, "upper": 0.25},
    ),
    (
        f"{VOTES}find s: greatest r such that certified_accuracy(dpa(V), modifications = r) >= 0.5",
        {"kind": "find", "lower": 9.0, "upper": 9.0},
    ),
    (
        f"{VOTES}find s: greatest r such that certified_accuracy(dpa(V), edits = r) >= 0.5",
        {"kind": "find", "lower": 9.0, "upper": 12.0, **UNKNOWN},
    ),
    (f"{VOTES}guarantee s: median_radius(ss_dpa(W)) >= 8", {"lower": 11.0, "upper": 11.0}),
    (
        f"{VOTES}guarantee s: median_radius(dpa(V)) > 8",
        {"verdict": "refuted", "lower": 8.0, "upper": 8.0},
    ),
    (
        'guarantee s: idp(access("hospital/family"), epsilon = 0.2)',
        {"facts": fact("idp", epsilon=0.2, members=569, bound_0=0.5)},
    ),
    ('guarantee s: idp(access("family"), epsilon = 0)', {"verdict": "refuted"}),
    (
        'let S = sharded("s.toml")\n' + SERVICE.format(1, "1e-3", "1e-3"),
        {
            "facts": fact(
                "unlearns",
                alpha_shown=0.8804161347661386,
                beta_shown=0.001,
                gamma_shown=0.001,
                predictions=100,
            )
        },
    ),
    (
        'let S = sharded("s.toml")\n' + SERVICE.format(0, 0, 0).replace("adaptive", "oblivious"),
        UNKNOWN,
    ),
    (
        'guarantee s: forall z in points("del.csv"): unlearn(forest("t.npz"), z) == '
        'retrain(forest("t.npz"), z)',
        {"facts": fact("unlearn", rows=1)},
    ),
    (
        'guarantee s: forall z in points("del.csv"): unlearn(forest("t.npz"), z) == '
        'retrain(forest("t.npz"), z)',
        {"verdict": "refuted", "facts": fact("unlearn", rows=1)},
    ),
    (
        'guarantee s: caches_sound(forest("t.npz"))',
        {"facts": fact("caches_sound", trees=10, rows=569)},
    ),
    ('guarantee s: same_function(forest("t.npz"), forest("u.npz"), box(0, 1))', {}),
    (AUDIT, {"lower": 0.0, "upper": 0.29692282, "confidence": 0.95}),
    (AUDIT, {"verdict": "refuted", "lower": 0.7, "upper": 0.9, "confidence": 0.95}),
    (AUDIT, {"lower": 0.0, "upper": 0.9, **UNKNOWN}),
    (f"{VOTES}guarantee s: certified_accuracy(dpa(V), edits = 4) <= 0.5", {}),
    (f"{NETS}guarantee s: forall x in X: score(N, x, 0) >= 0.5", {"verdict": "refuted"}),
    (
        f"{NETS}find s: greatest b such that forall x in X: score(N, x, 0) >= b",
        {"kind": "find", "lower": 0.125, "upper": 0.25, **UNKNOWN},
    ),
    (
        f"{NETS}find s: greatest b such that forall x in X: score(N, x, 0) >= b",
        {"kind": "find", "verdict": "refuted"},
    ),
]


@pytest.mark.parametrize(("spec", "given"), VALUES)
def test_statements_of_every_kind(made, spec, given, snapshot):
    assert said(made, spec, made.result(name="s", **given)) == snapshot


def test_every_function_with_a_verdict_of_its_own_has_plain_words():
    from leaveout.specs.table import BUILT_IN
    from leaveout.specs.types import BOOLEAN, NUMBER
    from leaveout.verifier.page.first_page.sentences import PLAIN
    from leaveout.verifier.values.subjects import DECIDERS

    # Those over points are parts of formulas; those over one test point, too.
    parts = {"radius", "answered_right"}
    for function in BUILT_IN:
        decides = function.result in (BOOLEAN, NUMBER) and function.name in DECIDERS
        if decides and function.name not in parts:
            assert function.name in PLAIN
