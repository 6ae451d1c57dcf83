"""The first page on values: each kind of statement and verdict in exactly these words."""

from __future__ import annotations

import pytest

from leaveout.verifier.records import FactsRecord

from support.sentences import AUDIT, NETS, UNKNOWN, VOTES, said

SERVICE = "guarantee s: unlearns(S, updates = adaptive, alpha = {}, beta = {}, gamma = {})"
DELETED = (
    "Once records are deleted from the service (s.toml), whatever answers those who asked for it"
)
ATTACKS = (
    "whatever the attacks that were tried look for, they find it in models that forgot records at "
    "most {} percentage points more, or less, often than in models trained without them (a.npz)."
)
RIGHT = "of the test rows (b.npz) are answered right even if someone"
WORST = "(the worst ones for each row)"
TOGETHER = "(the same ones for all rows)"


def fact(name, **given):
    return (FactsRecord(name=name, facts=given),)


VALUES = [
    (
        f"{VOTES}guarantee s: certified_accuracy(dpa(V), edits = 4) >= 0.5",
        {"lower": 0.8839779005524862, "upper": 0.8839779005524863},
        f"At least 88.3 % {RIGHT} adds or removes up to 4 training records {WORST}. Asked for: at "
        "least 50 %.",
    ),
    (
        f"{VOTES}guarantee s: certified_accuracy(dpa(V), edits = 1) > 0.125",
        {"lower": 0.57, "upper": 0.57},
        f"At least 57 % {RIGHT} adds or removes one training record {WORST}. Asked for: more than "
        "12.5 %.",
    ),
    (
        f"{VOTES}guarantee s: certified_accuracy(dpa(V), removals = 8) >= 0.9",
        {"verdict": "refuted", "lower": 0.7734806, "upper": 0.7734807},
        f"It is not so that at least 90 % {RIGHT} removes up to 8 training records {WORST}. It can "
        "be shown for at least 77.3 % and at most 77.4 % of them.",
    ),
    (
        f"{VOTES}guarantee s: collective_accuracy(dpa(V), insertions = 8) >= 0.9",
        {"lower": 0.5, "upper": 0.951, **UNKNOWN},
        f"It is not known whether at least 90 % {RIGHT} adds up to 8 training records {TOGETHER}. "
        "Reason: the time given was over. It can be shown for at least 50 % and at most 95.1 % of "
        "them.",
    ),
    (
        f"{VOTES}guarantee s: collective_accuracy(ss_dpa(W), relabels = 1000) >= 0.25",
        {"lower": 0.25, "upper": 0.25},
        "At least 25 % of the test rows (w.npz) are answered right even if someone changes the "
        f"labels of up to 1,000 training records {TOGETHER}. Asked for: at least 25 %.",
    ),
    (
        f"{VOTES}find s: greatest r such that certified_accuracy(dpa(V), modifications = r) >= 0.5",
        {"kind": "find", "lower": 9.0, "upper": 9.0},
        f"At least 50 % {RIGHT} replaces up to 9 training records by others {WORST}. For more this "
        "cannot be shown.",
    ),
    (
        f"{VOTES}find s: greatest r such that certified_accuracy(dpa(V), edits = r) >= 0.5",
        {"kind": "find", "lower": 9.0, "upper": 12.0, **UNKNOWN},
        f"At least 50 % {RIGHT} adds or removes up to 9 training records {WORST}. Whether that "
        "holds for more than 9 is not known.",
    ),
    (
        f"{VOTES}guarantee s: median_radius(ss_dpa(W)) >= 8",
        {"lower": 11.0, "upper": 11.0},
        "At least half of the test rows (w.npz) are answered right even if someone changes the "
        "labels of up to 11 training records.",
    ),
    (
        f"{VOTES}guarantee s: median_radius(dpa(V)) > 8",
        {"verdict": "refuted", "lower": 8.0, "upper": 8.0},
        f"It is not so that at least half {RIGHT} adds or removes up to 9 training records.",
    ),
    (
        'guarantee s: idp(access("hospital/family"), epsilon = 0.2)',
        {"facts": fact("idp", epsilon=0.2, members=569, bound_0=0.5)},
        "Asked only through its guard, the model in hospital/family gives no answer that is more "
        "than 1.22141 times as likely with any one of 569 training records as without it, or the "
        "other way round. Answers that a record can change are drawn at random; over several of "
        "them the factors multiply: over ten to 7.38906.",
    ),
    (
        'guarantee s: idp(access("family"), epsilon = 0)',
        {"verdict": "refuted"},
        "It is not so that asked only through its guard, the model in family gives every answer "
        "exactly as likely with one training record as without it.",
    ),
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
        f"{DELETED} had seen, nothing that one can look for in its models is more than 2.41191 "
        "times as likely as in models trained anew without them, plus a probability of 0.001, "
        "except with a probability of 0.001. This is for up to 100 answers between two full "
        "retrainings.",
    ),
    (
        'let S = sharded("s.toml")\n' + SERVICE.format(0, 0, 0).replace("adaptive", "oblivious"),
        UNKNOWN,
        "It is not known whether once records are deleted from the service (s.toml), by requests "
        "that do not depend on its answers, nothing that one can look for in its models is "
        "likelier than in models trained anew without them. Reason: the time given was over.",
    ),
    (
        'guarantee s: forall z in points("del.csv"): unlearn(forest("t.npz"), z) == '
        'retrain(forest("t.npz"), z)',
        {"facts": fact("unlearn", rows=1)},
        "Each deletion listed in del.csv leaves exactly the forest that training anew without the "
        "deleted record gives. 1 deletion was carried out and compared.",
    ),
    (
        'guarantee s: forall z in points("del.csv"): unlearn(forest("t.npz"), z) == '
        'retrain(forest("t.npz"), z)',
        {"verdict": "refuted", "facts": fact("unlearn", rows=1)},
        "It is not so that each deletion listed in del.csv leaves exactly the forest that training "
        "anew without the deleted record gives.",
    ),
    (
        'guarantee s: caches_sound(forest("t.npz"))',
        {"facts": fact("caches_sound", trees=10, rows=569)},
        "The forest (t.npz), and everything it stores for later deletions, is what training on the "
        "records that it holds gives. It was computed anew from 569 records.",
    ),
    (
        'guarantee s: same_function(forest("t.npz"), forest("u.npz"), box(0, 1))',
        {},
        "The two forests give the same answer to every input of the set that the specification "
        "names.",
    ),
    (
        AUDIT,
        {"lower": 0.0, "upper": 0.29692282, "confidence": 0.95},
        f"Measured on samples, with 95 % confidence: {ATTACKS.format(29.7)} Asked for: at most 50; "
        "0 would mean that no attack tells the two apart.",
    ),
    (
        AUDIT,
        {"verdict": "refuted", "lower": 0.7, "upper": 0.9, "confidence": 0.95},
        f"Measured on samples, with 95 % confidence: it is not so that {ATTACKS.format(50)} An "
        "attack finds it 70 points apart.",
    ),
    (
        AUDIT,
        {"lower": 0.0, "upper": 0.9, **UNKNOWN},
        f"It is not known whether {ATTACKS.format(50)} Reason: the time given was over.",
    ),
    (
        f"{VOTES}guarantee s: certified_accuracy(dpa(V), edits = 4) <= 0.5",
        {},
        "The share of test points that dpa(V) answers right whatever 4 edits of the training set "
        "do, each point attacked by itself, is at most 0.5.",
    ),
    (
        f"{NETS}guarantee s: forall x in X: score(N, x, 0) >= 0.5",
        {"verdict": "refuted"},
        "It is not so that for every x in X: N's score of label 0 at x is at least 0.5.",
    ),
    (
        f"{NETS}find s: greatest b such that forall x in X: score(N, x, 0) >= b",
        {"kind": "find", "lower": 0.125, "upper": 0.25, **UNKNOWN},
        "The greatest b such that for every x in X: N's score of label 0 at x is at least b: b is "
        "between 0.125 and 0.25.",
    ),
    (
        f"{NETS}find s: greatest b such that forall x in X: score(N, x, 0) >= b",
        {"kind": "find", "verdict": "refuted"},
        "There is no such number: The greatest b such that for every x in X: N's score of label 0 "
        "at x is at least b.",
    ),
]


@pytest.mark.parametrize(("spec", "given", "words"), VALUES)
def test_statements_of_every_kind(made, spec, given, words):
    assert said(made, spec, made.result(name="s", **given)) == words


def test_every_function_with_a_verdict_of_its_own_has_plain_words():
    from leaveout.specs.table import BUILT_IN
    from leaveout.specs.types import BOOLEAN, NUMBER
    from leaveout.verifier.page.first_page.claims import PLAIN
    from leaveout.verifier.values.subjects import DECIDERS

    # Those over points are parts of formulas; those over one test point, too.
    parts = {"radius", "answered_right"}
    for function in BUILT_IN:
        decides = function.result in (BOOLEAN, NUMBER) and function.name in DECIDERS
        if decides and function.name not in parts:
            assert function.name in PLAIN
