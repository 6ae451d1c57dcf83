"""Rows that cannot be read or trained on: each is its own failure, and reaches no other member."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris

from leaveout.errors import TrainingError
from leaveout.models.reading import read_table
from leaveout.models.votes import (
    PartRecipe,
    hold_election,
    make_learner,
    read_samples,
    samples_from_arrays,
)
from leaveout.models.votes.source import read_lines
from leaveout.verifier.cli.app import run

from support.snapshots import passages

TREE = make_learner("DecisionTreeClassifier", {"max_depth": 3})
PARTS = 6

UNREADABLE = {
    "few cells": b"1,small,good",
    "many cells": b"1,small,2,3,good",
    "one word": b"good",
    "open quote": b'1,"small,2,good',
    "open quote at the end": b'1,small,2,"good',
    "text after a quote": b'1,"small"x,2,good',
    "long cell": b"1," + b"x" * 200_000 + b",2,good",
    "no text": b"1,\xff,2,good",
    "no label": b"1,small,2,",
    "another label": b"1,small,2,worse",
    "the header": b"radius,kind,texture,label",
    "blanks": b"  \t",
    "nothing": b"",
}
READABLE = {
    "not finite": b"nan,small,-inf,good",
    "words for numbers": b"wide,small,,bad",
    "far": b"1e308,small,-1e308,good",
    "a zero byte": b"1,sm\0all,2,good",
    "a mark": b"\xef\xbb\xbf1,small,2,good",
    "quoted": b'1,"a ""b"", c",2,good',
    "other line ends": b"1,small,2\x0b\xe2\x80\xa8,good",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Write rows to train on, and others to test on; return both files."""
    X, y = load_breast_cancer(return_X_y=True)
    folder = tmp_path_factory.mktemp("table")
    for name, rows in (("train.csv", range(90)), ("test.csv", range(100, 130))):
        with (folder / name).open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["radius", "kind", "texture", "label"])
            for row in rows:
                kind = "small" if X[row, 0] < 13 else "large"
                writer.writerow([X[row, 0], kind, X[row, 1], ["bad", "good"][y[row]]])
    return folder / "train.csv", folder / "test.csv"


def elect(path, test, method="dpa", **options):
    given = {"label": "label", "test": test, "labels": ["bad", "good"], "bad_rows": "skip"}
    samples = read_samples(path, **given | options)
    spread = 2 if method == "finite_aggregation" else 1
    return hold_election(
        samples, PartRecipe(parts=PARTS, method=method, spread=spread, learner=TREE)
    )


def changed(before, after):
    """Return the members whose votes or scores are other bits, or who have other rows."""
    first, second = before.ballots, after.ballots
    assert np.array_equal(first.truth, second.truth)
    assert first.labels == second.labels
    same = (first.votes == second.votes).all(axis=0)
    bits = [each.scores.view(np.uint32) for each in (first, second)]
    same &= (bits[0] == bits[1]).all(axis=(0, 2))
    same &= np.array(first.origin.sizes) == np.array(second.origin.sizes)
    return set(np.flatnonzero(~same).tolist())


@pytest.mark.parametrize("method", ["dpa", "finite_aggregation"])
def test_a_line_changes_the_members_it_reaches_and_no_other(table, tmp_path, method):
    train, test = table
    before = elect(train, test, method)
    lines = train.read_bytes().splitlines()
    path = tmp_path / "poisoned.csv"
    reach = 2 if method == "finite_aggregation" else 1
    for name, line in (UNREADABLE | READABLE).items():
        for place in (1, 40, len(lines)):
            path.write_bytes(b"\r\n".join([*lines[:place], line, *lines[place:]]))
            after = elect(path, test, method)
            reached = after.partition.reached_members(place - 1) if name in READABLE else ()
            assert changed(before, after) == set(reached), name
            assert len(reached) == (reach if name in READABLE else 0)


def test_a_return_within_a_line_makes_two_of_it(table, tmp_path):
    train, test = table
    path = tmp_path / "poisoned.csv"
    path.write_bytes(train.read_bytes() + b"1,small,2,good\r3,large,4,bad\n")
    after = elect(path, test)
    assert sum(after.ballots.origin.sizes) == 92
    assert len(changed(elect(train, test), after)) in {1, 2}


def test_a_cell_over_several_lines_is_no_row_and_swallows_none(table, tmp_path, snapshot):
    train, test = table
    lines = train.read_bytes().splitlines()
    path = tmp_path / "poisoned.csv"
    path.write_bytes(b"\n".join([lines[0], b'1,"two', b'lines",2,good', *lines[1:], b'5,"open']))
    found, left_aside = read_lines(path)
    assert (len(found.rows), found.lines[0]) == (90, 4)
    assert sorted(left_aside) == snapshot
    assert not changed(elect(train, test), elect(path, test))


@pytest.mark.parametrize(
    "name", sorted({*UNREADABLE} - {"another label", "the header", "blanks", "nothing"})
)
def test_by_default_such_a_line_is_refused_with_the_cure(table, tmp_path, name, snapshot):
    train, test = table
    path = tmp_path / "poisoned.csv"
    path.write_bytes(train.read_bytes() + UNREADABLE[name] + b"\n")
    options = {"bad_rows": "refuse", "labels": None if name == "no label" else ["bad", "good"]}
    with pytest.raises(TrainingError) as caught:
        elect(path, test, **options)
    assert str(caught.value) == snapshot
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def _assumed(origin):
    return [
        f"{'checked' if each.checked else 'assumed'}: {each.text}" for each in origin.assumptions
    ]


def test_what_is_taken_for_granted_is_in_the_manifest(table, tmp_path, snapshot):
    train, test = table
    path = tmp_path / "poisoned.csv"
    path.write_bytes(train.read_bytes() + b"1,2\n1,2,3,\n")
    origin = elect(path, test).ballots.origin
    assert origin.notes == snapshot
    assert _assumed(origin) == snapshot
    origin = elect(train, test, bad_rows="refuse").ballots.origin
    assert _assumed(origin) == snapshot
    with pytest.raises(TrainingError) as told:
        read_samples(train, bad_rows="drop")
    assert str(told.value) == snapshot


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_line_that_is_held_out_to_test_on_stops_nothing_either(table, tmp_path, share, snapshot):
    train, _ = table
    options = {"test_share": share}
    before = elect(train, None, **options)
    path = tmp_path / "poisoned.csv"
    held = 0
    for number in range(8):
        for label in (b"", b"worse"):
            path.write_bytes(train.read_bytes() + b"%d,small,2,%s\n" % (number, label))
            after = elect(path, None, **options)
            held += any("held-out test row" in note for note in after.ballots.origin.notes)
            assert not changed(before, after)
    assert held > 1
    with pytest.raises(TrainingError) as told:
        path.write_bytes(b"radius,label\n1,worse\n2,worse\n")
        elect(path, None, **options)
    assert str(told.value) == snapshot


@given(
    st.lists(
        st.lists(
            st.text(st.characters(blacklist_characters="\r\n", codec="utf-8"), max_size=6),
            min_size=3,
            max_size=3,
        ),
        max_size=6,
    )
)
def test_tables_of_one_line_a_row_are_read_alike(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["a", "b", "c"])
        writer.writerows(rows)
    whole, (lines, left_aside) = read_table(path), read_lines(path)
    assert (lines.header, lines.rows) == (whole.header, whole.rows)
    assert list(lines.lines) == list(whole.lines)
    assert left_aside == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n1,2\n",
        b'"a,b\n1,2\n',
        b"\xff,b\n1,2\n",
        b"a,a\n1,2\n",
    ],
)
def test_a_header_that_is_none_is_refused(tmp_path, content, snapshot):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(TrainingError) as caught:
        read_lines(path)
    assert str(caught.value) == snapshot


# Arrays


def arrays(rows=90):
    X, y = load_breast_cancer(return_X_y=True)
    return X[:rows], y[:rows], X[400:430], y[400:430]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("whole", [False, True])
def test_a_row_of_an_array_that_is_not_finite_is_left_aside_by_itself(
    tmp_path, value, whole, snapshot
):
    X, y, X_test, y_test = arrays()
    bad = np.full((1, 30), value) if whole else X[:1].copy()
    bad[0, 3] = value
    recipe = PartRecipe(parts=PARTS, learner=TREE)
    path = tmp_path / "d.npz"
    found = []
    for place in (None, 0, 50, 90):
        rows = (X, y) if place is None else (np.insert(X, place, bad, 0), np.insert(y, place, 1))
        np.savez(path, X_train=rows[0], y_train=rows[1], X_test=X_test, y_test=y_test)
        found.append(hold_election(read_samples(path, bad_rows="skip"), recipe))
    for place, after in zip((0, 50, 90), found[1:], strict=True):
        assert not changed(found[0], after)
        assert after.ballots.origin.notes[0] == snapshot
        assert f"{place}" in after.ballots.origin.notes[0]
    with pytest.raises(TrainingError) as told:
        read_samples(path)
    assert str(told.value) == snapshot


@pytest.mark.parametrize("method", ["dpa", "ss_dpa"])
@pytest.mark.parametrize("label", [np.nan, -1, 0.5, 2**40, np.inf])
def test_a_label_of_an_array_that_is_none_leaves_other_samples_where_they_are(
    method, label, snapshot
):
    X, y, X_test, y_test = arrays()
    recipe = PartRecipe(parts=PARTS, learner=TREE, method=method)
    before = hold_election(samples_from_arrays(X, y, X_test, y_test, bad_rows="skip"), recipe)
    relabelled = y.astype(np.float64)
    relabelled[33] = label
    samples = samples_from_arrays(X, relabelled, X_test, y_test, bad_rows="skip")
    after = hold_election(samples, recipe)
    assert after.partition.reached_members(33) == ()
    assert changed(before, after) <= {int(before.partition.base[33])}
    with pytest.raises(TrainingError) as told:
        samples_from_arrays(X, relabelled, X_test, y_test)
    assert str(told.value) == snapshot


def test_rows_of_an_array_to_hold_a_share_of_out_are_left_aside_too(tmp_path):
    X, y, _, _ = arrays()
    path = tmp_path / "d.npz"
    found = []
    for bad in ([], [[np.nan] * 30], [[np.inf] * 30, [5.0] * 30, [6.0] * 30, [7.0] * 30]):
        rows = np.vstack([X, *(np.array([row]) for row in bad)])
        np.savez(path, X=rows, y=np.append(y, [9] * len(bad)))
        samples = read_samples(path, test_share=0.3, labels=["0", "1"], bad_rows="skip")
        found.append(hold_election(samples, PartRecipe(parts=PARTS, learner=TREE)))
    assert not changed(found[0], found[1])
    assert not changed(found[0], found[2])


# Members that cannot be trained


@pytest.mark.parametrize("workers", [1, 2])
def test_a_member_that_cannot_be_trained_votes_the_first_label_and_stops_no_other(
    workers, snapshot
):
    X, y = load_iris(return_X_y=True)
    learner = make_learner("KNeighborsClassifier", {"n_neighbors": 16})
    recipe = PartRecipe(parts=5, learner=learner)
    labels = ["0", "1", "2"]
    clean = hold_election(samples_from_arrays(X, y, X, y, labels=labels), recipe)
    sizes = clean.ballots.origin.sizes
    assert not clean.findings.failed
    part = int(np.argmin(sizes))
    kept = np.ones(len(X), dtype=bool)
    kept[np.flatnonzero(clean.partition.base == part)[: sizes[part] - 12]] = False
    after = hold_election(
        samples_from_arrays(X[kept], y[kept], X, y, labels=labels), recipe, workers=workers
    )
    assert changed(clean, after) == {part}
    assert set(after.ballots.votes[:, part]) == {0}
    (why,) = after.findings.failed
    assert why == snapshot
    assert f"{part}" in why
    assert after.ballots.origin.notes == snapshot
    assert _assumed(after.ballots.origin) == snapshot


def test_scores_that_are_no_numbers_are_that_members_failure(monkeypatch, snapshot):
    from leaveout.models.votes import member

    X, y, X_test, y_test = arrays()
    given = member.label_scores
    calls = []

    def scores(model, X, labels):
        calls.append(model)
        found = given(model, X, labels)
        if len(calls) == 3:
            found[0, 0] = np.nan
        return found

    recipe = PartRecipe(parts=PARTS, learner=TREE)
    samples = samples_from_arrays(X, y, X_test, y_test)
    before = hold_election(samples, recipe)
    monkeypatch.setattr(member, "label_scores", scores)
    after = hold_election(samples, recipe)
    assert changed(before, after) == {2}
    assert set(after.ballots.votes[:, 2]) == {0}
    assert after.findings.failed[0] == snapshot


def test_the_command_skips_and_says_so(table, tmp_path, capsys, snapshot):
    train, test = table
    path = tmp_path / "poisoned.csv"
    path.write_bytes(train.read_bytes() + b'1,"2\n1,2\n7,8\n')
    words = ["partition", str(path), "--label", "label", "--test", str(test), "--parts", "3"]
    words += ["--no-onnx", "--workers", "1", "--learner", "GaussianNB", "-o", str(tmp_path / "o")]
    assert run(words) == 2
    assert capsys.readouterr().err == snapshot
    assert run([*words, "--bad-rows", "skip"]) == 0
    out = capsys.readouterr().out
    assert passages(out, "93") == snapshot


def test_rows_that_cannot_be_read_move_no_threshold_of_another_member(table, tmp_path):
    train, test = table
    path = tmp_path / "poisoned.csv"
    learner = make_learner("nearest", {"k": 3})
    recipe = PartRecipe(parts=PARTS, learner=learner, survive="edits")
    options = {"label": "label", "test": test, "labels": ["bad", "good"], "encoding": test}
    before = hold_election(read_samples(train, **options), recipe, undefended=True)
    assert before.ballots.origin.undefended_right is not None
    for line in (*UNREADABLE.values(), b"nan,new,7,good"):
        path.write_bytes(train.read_bytes() + line + b"\n")
        after = hold_election(read_samples(path, **options, bad_rows="skip"), recipe)
        reached = after.partition.reached_members(90) if line.startswith(b"nan") else ()
        others = np.setdiff1d(np.arange(PARTS), reached)
        assert changed(before, after) == set(reached)
        first, second = (each.ballots.thresholds[:, others] for each in (before, after))
        assert np.array_equal(first, second)
