"""The first page: each kind of statement and verdict in exactly these words, rounded against us."""

from __future__ import annotations

import msgspec
import pytest

from leaveout.verifier.page.first_page.sentences import of_answers
from leaveout.verifier.page.first_page.summary import summary
from leaveout.verifier.report import (
    AnswersRecord,
    BoxRecord,
    ColumnRecord,
    FactsRecord,
    LabelAnswersRecord,
    ModelRecord,
)

NETS = 'let N = network("full.onnx")\nlet F = family("family.npz")\nlet X = box(0, 1)\n'
FORESTS = 'let T = forest("t.npz")\nlet L = leave_one_out(T)\nlet X = box(0, 1)\n'
VOTES = 'let V = ballots("b.npz")\nlet W = ballots("w.npz")\n'
LEAK = "forall x in X, M in F: confidence(N, x) > {} => label(M, x) == label(N, x)"
FIND = "find s: least b per label such that\n    " + LEAK.format("b")
STAYS = "stays the same whichever one of the 12 training records is left out of training"
OF = "an answer ‘benign’ of full.onnx with a confidence above 0.775"
UNKNOWN = {"verdict": "unknown", "reason": "time: 3 s are over"}
SERVICE = "guarantee s: unlearns(S, updates = adaptive, alpha = {}, beta = {}, gamma = {})"
DELETED = (
    "Once records are deleted from the service (s.toml), whatever answers those who asked for it"
)
AUDIT = 'guarantee s: membership_advantage(audit("a.npz")) <= 0.5 with confidence 0.95'
ATTACKS = (
    "whatever the attacks that were tried look for, they find it in models that forgot records at "
    "most {} percentage points more, or less, often than in models trained without them (a.npz)."
)
RIGHT = "of the test rows (b.npz) are answered right even if someone"
WORST = "(the worst ones for each row)"
TOGETHER = "(the same ones for all rows)"


def model(**given):
    usual = {
        "model": "network",
        "file": "/home/me/full.onnx",
        "family": "family.npz",
        "statements": ("s",),
        "members": 12,
        "rows": 12,
        "labels": ("benign", "malignant"),
    }
    return ModelRecord(**(usual | given))


def told(made, spec, *results, **given):
    page = made.pages(made.file(*results, spec=spec, **given))
    return summary(page)


def said(made, spec, *results, **given):
    (line,) = told(made, spec, *results, **given).lines
    return line.words


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


def fact(name, **given):
    return (FactsRecord(name=name, facts=given),)


def test_a_bound_a_label_is_rounded_up_and_what_was_found_down(made):
    words = said(made, NETS + FIND, *leaks(made), models=(model(),))
    assert words == (
        "Within the range of inputs below, an answer ‘benign’ of full.onnx with a confidence above "
        f"0.774686, or ‘malignant’ with one above 0.52758, {STAYS}. With less confidence one "
        "record can change it: this was found at 0.773911 for ‘benign’ and 0.527051 for "
        "‘malignant’."
    )


def test_bounds_that_are_apart_hold_and_the_rest_is_called_unknown(made):
    results = leaks(made, tops=(2.0, None), found=(None, None), **UNKNOWN)
    words = said(made, NETS + FIND, *results, models=(model(),))
    assert words == (
        "Within the range of inputs below, an answer ‘benign’ of full.onnx with a confidence above "
        f"2 {STAYS}. Of answers ‘malignant’ nothing is proved. Whether less confidence would do "
        "is not known."
    )
    results = leaks(made, tops=(None, None), found=(None, None), **UNKNOWN)
    assert said(made, NETS + FIND, *results, models=(model(),)) == (
        "Within the range of inputs below, it is not known above which confidence an answer of "
        f"full.onnx {STAYS}."
    )


def test_bounds_of_many_labels_are_left_to_the_table(made):
    results = [made.leak(name="s", label=at, upper=0.5 + at / 10, witness=None) for at in range(8)]
    assert said(made, NETS + FIND, *results, models=(model(labels=()),)) == (
        "Within the range of inputs below, an answer of full.onnx with a confidence above the "
        f"bound of its label (0.5 to 1.2, see the table of bounds) {STAYS}."
    )


LEAKS = [
    ("proved", "0.775", {}, f"Within the range of inputs below, {OF} {STAYS}."),
    (
        "refuted",
        "0.775",
        {},
        f"Within the range of inputs below, it is not so that {OF} {STAYS}. An input was found at "
        "which leaving one record out changes an answer given with a confidence of 0.8.",
    ),
    (
        "unknown",
        "0.775",
        {"reason": "time: over", "upper": 1.25, "label": 0},
        f"Within the range of inputs below, it is not known whether {OF} {STAYS}. Reason: the time "
        "given was over. It is proved where the confidence is above 1.25.",
    ),
]


@pytest.mark.parametrize(("verdict", "number", "given", "words"), LEAKS)
def test_a_guarantee_about_leaks(made, verdict, number, given, words):
    claim = LEAK.format(number).replace("(N, x) >", "(N, x, 0) >").replace("== label(N, x)", "== 0")
    leak = made.leak(name="s", kind="guarantee", verdict=verdict, **({"label": None} | given))
    if verdict == "refuted":
        witness = msgspec.structs.replace(leak.witness, confidence=0.8000001)
        leak = msgspec.structs.replace(leak, witness=witness)
    assert said(made, f"{NETS}guarantee s: {claim}", leak, models=(model(),)) == words


def test_a_claim_at_a_number_is_said_above_it_and_one_without_is_of_every_answer(made):
    leak = made.leak(name="s", kind="guarantee", label=None)
    at_least = LEAK.format("0.8").replace("> 0.8", ">= 0.8")
    assert "an answer of full.onnx with a confidence above 0.8 stays" in said(
        made, f"{NETS}guarantee s: {at_least}", leak
    )
    every = "forall x in X, M in F: label(M, x) == label(N, x)"
    assert said(made, f"{NETS}guarantee s: {every}", leak, models=(model(),)) == (
        f"Within the range of inputs below, every answer of full.onnx {STAYS}."
    )


@pytest.mark.parametrize(
    ("models", "who"),
    [
        ((model(),), "the 12 training records"),
        ((model(rows=1000),), "12 of the 1,000 training records"),
        ((model(rows=None),), "12 training records"),
        ((), "12 training records"),
    ],
)
def test_no_more_records_are_named_than_were_left_out(made, models, who):
    leak = made.leak(name="s", kind="guarantee", label=None)
    words = said(made, f"{NETS}guarantee s: {LEAK.format(0.8)}", leak, models=models)
    assert f"whichever one of {who} is left out of training." in words


def test_a_param_has_the_value_that_the_run_gave_it(made):
    spec = f"param t = 0.5\n{NETS}guarantee s: {LEAK.format('t')}"
    leak = made.leak(name="s", kind="guarantee", label=None)
    assert "above 0.5 stays" in said(made, spec, leak)
    assert "above 0.9 stays" in said(made, spec, leak, notes=("param t = 0.9, not 0.5 as written",))


def test_forests_and_pairs_of_models(made):
    leak = made.leak(name="s", kind="guarantee", label=None)
    forest = LEAK.format("0.1").replace("N", "T").replace(" F:", " L:")
    words = said(made, f"{FORESTS}guarantee s: {forest}", leak, models=(model(model="forest"),))
    assert words == (
        f"Within the range of inputs below, an answer of t.npz with a confidence above 0.1 {STAYS}."
    )
    pair = "forall x in X: confidence(N, x) > 0.1 => label(Q, x) == label(N, x)"
    words = said(made, f'let Q = network("q.onnx")\n{NETS}guarantee s: {pair}', leak)
    assert words == (
        "Within the range of inputs below, an answer of full.onnx with a confidence above 0.1 is "
        "the same from both models."
    )


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

    # Those over points are parts of formulas; those over one test point, too.
    parts = {"radius", "answered_right"}
    for function in BUILT_IN:
        decides = function.result in (BOOLEAN, NUMBER) and function.decider is not None
        if decides and function.name not in parts:
            assert function.plain is not None, function.name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"verdict": "proved"}, "The statement called s is proved."),
        (
            {"kind": "find", "lower": 0.25, "upper": 0.5, **UNKNOWN},
            "The statement called s asks for a number, which is between 0.25 and 0.5.",
        ),
    ],
)
def test_without_its_specification_a_statement_has_its_verdict_alone(made, given, words):
    missing = " What it says is not known here: its specification was not found, or was changed."
    for spec, digest in ((None, ""), ("guarantee s: 1 == 1", "0" * 64)):
        result = made.result(name="s", **given)
        assert said(made, spec, result, spec_sha256=digest) == words + missing


def test_a_specification_that_no_longer_checks_is_said_in_the_words_of_its_functions(made):
    spec = f"{VOTES}guarantee s: certified_accuracy(dpa(Q), edits = 4) >= 0.5"
    assert said(made, spec, made.result(name="s", lower=0.75)) == (
        "The share of test points that dpa(Q) answers right whatever 4 edits of the training set "
        "do, each point attacked by itself, is at least 0.5."
    )


def test_a_statement_of_the_same_name_and_another_kind_is_not_taken_for_it(made):
    words = said(made, f"{VOTES}find s: greatest r such that 1 == r", made.result(name="s"))
    assert words.startswith("The statement called s is proved.")


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


SAME = "each would be the same had that record been left out before training"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            answers(553, 569),
            "97 % of the 569 answers to patients.csv (553) owe nothing to any one of the 569 "
            f"training records: {SAME}. Of the other 16 this is not proved.",
        ),
        (
            answers(999, 1000, members=500, rows=1000),
            "99 % of the 1,000 answers to patients.csv (999) owe nothing to any one of the 500 "
            f"training records left out in turn (of 1,000): {SAME}. Of the other one this is not "
            "proved.",
        ),
        (
            answers(3, 1000, rows=None),
            "3 of the 1,000 answers to patients.csv owe nothing to any one of the 569 training "
            f"records left out in turn: {SAME}. Of the other 997 this is not proved.",
        ),
        (
            answers(2, 2),
            "All 2 answers to patients.csv owe nothing to any one of the 569 training records: "
            f"{SAME}.",
        ),
        (
            answers(0, 7),
            "Of none of the 7 answers to patients.csv is it proved that it owes nothing to any one "
            "of the 569 training records.",
        ),
        (
            answers(1, 1),
            "The one answer to patients.csv owes nothing to any one of the 569 training records: "
            "it would be the same had that record been left out before training.",
        ),
    ],
)
def test_a_share_of_answers_is_rounded_down(found, words):
    assert of_answers(found) == words


COLUMNS = (
    ColumnRecord(name="age", unit="years", at=(0,), zero=20.0, one=90.0),
    ColumnRecord(name="sex", at=(1, 2), categories=("f", "m")),
    ColumnRecord(name="dose", unit="mg", at=(3,), zero=0.0, one=1.0),
)


def scoped(made, box, columns=COLUMNS, **given):
    leak = made.leak(name="s", kind="guarantee", label=None, box=box)
    spec = f"{NETS}guarantee s: {LEAK.format(0.8)}"
    return told(made, spec, leak, models=(model(columns=columns, **given),)).scope


def box(lower, upper, choices=()):
    from leaveout.verifier.report import ChoicesRecord

    listed = tuple(ChoicesRecord(columns=at, values=values) for at, values in choices)
    return BoxRecord(lower=lower, upper=upper, choices=listed)


def test_inputs_are_in_the_units_of_the_table(made):
    one_hot = ((1, 2), ((1.0, 0.0), (0.0, 1.0)))
    doses = ((3,), ((0.0,), (0.5,), (1.0,)))
    shape = box((0.0,) * 4, (0.5, 1.0, 1.0, 1.0), (one_hot, doses))
    assert (
        "Inputs: age 20 to 55 years; sex f or m; dose 0, 0.5, 1 mg." in scoped(made, shape).covered
    )
    whole = box((0.1, 0.0, 0.0, 0.0), (0.1, 1.0, 1.0, 1.0))
    said = "Inputs: age 27 years; sex any mixture of 2 categories; dose 0 to 1 mg."
    assert said in scoped(made, whole).covered


def test_ranges_are_rounded_inwards(made):
    shape = box((1 / 3, 0.0, 0.0, 0.0), (2 / 3, 1.0, 1.0, 1.0))
    assert "age 43.3334 to 66.6666 years" in " ".join(scoped(made, shape).covered)


def test_columns_that_do_not_fit_are_left_out_and_numbers_named_as_the_model_reads_them(made):
    assert (
        "Inputs: any 3 numbers from 0 to 1, as the model reads them."
        in scoped(made, box((0.0,) * 3, (1.0,) * 3)).covered
    )
    assert any(
        "each in a range listed in the details" in each
        for each in scoped(made, box((0.0,) * 3, (1.0, 1.0, 2.0))).covered
    )


def test_what_is_not_covered_names_those_who_have_no_model_without_them(made):
    shape = box((0.0,) * 4, (1.0,) * 4)
    few = scoped(made, shape, rows=1000)
    assert "Leaving out any one of 12 of 1,000 training records" in few.covered[0]
    assert "The other 988 training records, none of which was left out." in few.not_covered
    assert not any("never left out" in each for each in few.not_covered)
    spec = f"{NETS}guarantee s: {LEAK.format(0.8)}"
    old = told(made, spec, made.leak(name="s", kind="guarantee", label=None)).scope
    assert "Training records that were never left out, if there are any." in old.not_covered


def test_what_every_reader_must_know_is_said_once(made):
    spec = f"{NETS}guarantee s: {LEAK.format(0.8)}\nguarantee t: {LEAK.format(0.9)}"
    results = [made.leak(name=name, kind="guarantee", label=None) for name in "st"]
    found = told(made, spec, *results).scope
    for words in (
        *("it is no probability", "A record is one row"),
        *("two or more left out together", "whether the model is fit for that use"),
        "Inputs outside the ranges named.",
    ):
        assert sum(words in each for each in (*found.covered, *found.not_covered)) == 1, words


@pytest.mark.parametrize(("level", "odds"), [(0.95, "0.05"), (0.999, "0.001"), (2 / 3, "0.333334")])
def test_what_a_confidence_means_is_said(made, level, odds):
    said = f"a measurement made so leads to a false sentence with a probability of at most {odds}."
    found = told(made, AUDIT, made.result(name="s", upper=0.3, confidence=level)).scope.covered
    assert sum(each.endswith(said) for each in found) == 1
    certain = told(made, AUDIT.partition(" with")[0], made.result(name="s", upper=0.3))
    assert not any("measurement" in each for each in certain.scope.covered)


def test_assumptions_are_numbered_once_and_statements_refer_to_them(made):
    spec = (
        f"{VOTES}guarantee one: certified_accuracy(dpa(V), edits = 4) >= 0.5\n"
        "guarantee two: certified_accuracy(ss_dpa(W), relabels = 4) >= 0.5\n"
        'guarantee three: unlearns(sharded("s.toml"), updates = adaptive, alpha = 1, beta = 0, '
        "gamma = 0)\n"
    )
    notes = (
        "b.npz: taken on trust: rows are patients",
        "one: each changes at most 1 part",
        "w.npz: taken on trust: rows are patients",
        "w.npz: taken on trust: labels alone change",
        "rests on: seeds stay secret",
    )
    results = [made.result(name=name) for name in ("one", "two", "three")]
    found = told(made, spec, *results, notes=notes)
    assert [(each.number, each.words, each.about) for each in found.assumptions] == [
        (1, "rows are patients", ("b.npz", "w.npz")),
        (2, "labels alone change", ("w.npz",)),
        (3, "seeds stay secret", ()),
    ]
    assert [each.rests_on for each in found.lines] == [(1,), (1, 2), (3,)]
    page = made.page(*results, spec=spec, notes=notes)
    assert page.count("rows are patients") == 1
    assert "<li>one: each changes at most 1 part</li>" in page
    assert '<a href="#rests-on-2">2</a>' in page
    assert 'id="rests-on-2"' in page
