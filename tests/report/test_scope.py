"""What the first page covers, what it does not, and on which assumptions it rests."""

from __future__ import annotations

import pytest

from leaveout.verifier.records import BoxRecord, ColumnRecord

from support.sentences import AUDIT, LEAK, NETS, VOTES, model, told

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
    from leaveout.verifier.records import ChoicesRecord

    listed = tuple(ChoicesRecord(columns=at, values=values) for at, values in choices)
    return BoxRecord(lower=lower, upper=upper, choices=listed)


def test_inputs_are_in_the_units_of_the_table(made, snapshot):
    one_hot = ((1, 2), ((1.0, 0.0), (0.0, 1.0)))
    doses = ((3,), ((0.0,), (0.5,), (1.0,)))
    shape = box((0.0,) * 4, (0.5, 1.0, 1.0, 1.0), (one_hot, doses))
    assert scoped(made, shape).covered == snapshot
    whole = box((0.1, 0.0, 0.0, 0.0), (0.1, 1.0, 1.0, 1.0))
    assert scoped(made, whole).covered == snapshot


def test_ranges_are_rounded_inwards(made, snapshot):
    shape = box((1 / 3, 0.0, 0.0, 0.0), (2 / 3, 1.0, 1.0, 1.0))
    assert " ".join(scoped(made, shape).covered) == snapshot


def test_columns_that_do_not_fit_are_left_out_and_numbers_named_as_the_model_reads_them(
    made, snapshot
):
    assert scoped(made, box((0.0,) * 3, (1.0,) * 3)).covered == snapshot
    assert scoped(made, box((0.0,) * 3, (1.0, 1.0, 2.0))).covered == snapshot


def test_what_is_not_covered_names_those_who_have_no_model_without_them(made, snapshot):
    shape = box((0.0,) * 4, (1.0,) * 4)
    few = scoped(made, shape, rows=1000)
    assert few.covered[0] == snapshot
    assert few.not_covered == snapshot
    assert not any("never left out" in each for each in few.not_covered)
    spec = f"{NETS}guarantee s: {LEAK.format(0.8)}"
    old = told(made, spec, made.leak(name="s", kind="guarantee", label=None)).scope
    assert old.not_covered == snapshot


def test_what_every_reader_must_know_is_said_once(made):
    spec = f"{NETS}guarantee s: {LEAK.format(0.8)}\nguarantee t: {LEAK.format(0.9)}"
    results = [made.leak(name=name, kind="guarantee", label=None) for name in "st"]
    found = told(made, spec, *results).scope
    for words in (
        *("it is not a probability", "A record is one row"),
        *("two or more are left out at once", "whether the model is fit for that use"),
        "Inputs outside the named ranges.",
    ):
        assert sum(words in each for each in (*found.covered, *found.not_covered)) == 1, words


@pytest.mark.parametrize(("level", "odds"), [(0.95, "0.05"), (0.999, "0.001"), (2 / 3, "0.333334")])
def test_what_a_confidence_means_is_said(made, level, odds):
    said = f"such a measurement leads to a false sentence with probability at most {odds}."
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
