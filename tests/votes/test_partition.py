"""Partitions: which rows reach which members, and what a change of a row reaches."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.errors import TrainingError
from leaveout.models.votes import (
    PartRecipe,
    divide,
    hold_election,
    make_learner,
    samples_from_arrays,
)

from support.parts import TREE, cancer


def test_a_relabel_moves_no_row_unless_the_hash_is_told_to_read_labels():
    X, y, X_test, y_test = cancer()
    flipped = 1 - y
    before, after = (samples_from_arrays(X, each, X_test, y_test) for each in (y, flipped))
    for method in ("dpa", "ss_dpa", "finite_aggregation"):
        recipe = PartRecipe(method=method, parts=10)
        assert np.array_equal(divide(before, recipe).base, divide(after, recipe).base)
    recipe = PartRecipe(parts=10, hash_reads_label=True)
    assert (divide(before, recipe).base != divide(after, recipe).base).mean() > 0.5


@pytest.mark.parametrize("spread", [1, 4])
def test_members_have_the_rows_that_reach_them_and_each_row_reaches_as_many_as_it_should(spread):
    samples = samples_from_arrays(*cancer())
    recipe = PartRecipe(method="finite_aggregation", parts=6, spread=spread)
    division = divide(samples, recipe)
    assert division.members == 6 * spread
    reached = [division.reached_members(row) for row in range(samples.rows)]
    assert all(len(set(members)) == spread for members in reached)
    assert all(
        members
        == tuple(sorted((division.base[row] + o) % division.members for o in division.offsets))
        for row, members in enumerate(reached)
    )
    for member, rows in enumerate(division.rows(samples.y)):
        assert set(rows.tolist()) == {row for row in range(300) if member in reached[row]}
        values = [samples.keys[row] for row in rows]
        assert values == sorted(values)


def test_in_hash_bagging_a_row_reaches_one_member_of_each_family_by_a_hash_of_its_own():
    samples = samples_from_arrays(*cancer())
    recipe = PartRecipe(method="hash_bagging", parts=6, families=3)
    division = divide(samples, recipe)
    assert division.members == 18
    reached = np.array([division.reached_members(row) for row in range(samples.rows)])
    assert (reached // 6 == [0, 1, 2]).all()
    # The hashes have nothing to do with each other.
    assert len({tuple(row % 6) for row in reached}) > 100
    plain = divide(samples, PartRecipe(parts=6))
    assert np.array_equal(plain.base, reached[:, 0])
    for member, rows in enumerate(division.rows(samples.y)):
        assert set(rows.tolist()) == set(np.flatnonzero((reached == member).any(axis=1)).tolist())
        assert [samples.keys[row] for row in rows] == sorted(samples.keys[row] for row in rows)


def test_in_hash_bagging_an_edit_changes_one_member_of_each_family():
    X, y, X_test, y_test = cancer(rows=120)
    recipe = PartRecipe(method="hash_bagging", parts=5, families=3, learner=TREE)
    before = hold_election(samples_from_arrays(X, y, X_test, y_test), recipe)
    X[7] += 100.0
    removed = np.arange(120) != 7
    after = hold_election(samples_from_arrays(X[removed], y[removed], X_test, y_test), recipe)
    same = (before.ballots.scores == after.ballots.scores).all(axis=(0, 2))
    assert set(np.flatnonzero(~same)) <= set(before.partition.reached_members(7))
    origin = before.ballots.origin
    assert (origin.method, origin.families, origin.offsets) == ("hash_bagging", (5, 5, 5), ())
    assert "'leaveout f'" in origin.hash


def test_a_boosted_member_adds_up_what_several_classifiers_of_its_part_score(snapshot):
    samples = samples_from_arrays(*cancer())
    forest = make_learner("RandomForestClassifier", {"n_estimators": 3, "max_depth": 3})
    recipe = PartRecipe(method="boosted", parts=4, spread=3, learner=forest, seed=5)
    boosted = hold_election(samples, recipe, workers=2)
    alone = [
        hold_election(samples, PartRecipe(parts=4, learner=forest, seed=5 + shift)).ballots
        for shift in range(12)
    ]
    for part in range(4):
        # Classifier j of part i has seed 5 + 3 i + j, as member i of an election from 5 + 2 i + j.
        own = [alone[2 * part + copy].scores[:, part] for copy in range(3)]
        assert np.array_equal(boosted.ballots.scores[:, part], own[0] + own[1] + own[2])
    assert boosted.ballots.parts == 4
    origin = boosted.ballots.origin
    assert origin.method == "dpa"
    assert origin.learner == snapshot
    assert origin.notes == snapshot
    assert not boosted.exported


@pytest.mark.parametrize(
    "given",
    [
        {"families": 2},
        {"families": 0, "method": "hash_bagging"},
        {"spread": 2},
        {"spread": 2, "method": "hash_bagging"},
        {"spread": 5_000, "method": "boosted"},
    ],
)
def test_families_and_classifiers_are_of_their_methods(given, snapshot):
    with pytest.raises(TrainingError) as told:
        PartRecipe(**given)
    assert str(told.value) == snapshot


def test_ss_dpa_deals_the_sorted_samples_out_in_turn():
    X, y, X_test, y_test = cancer(rows=103, seed=1)
    samples = samples_from_arrays(X, y, X_test, y_test)
    division = divide(samples, PartRecipe(method="ss_dpa", parts=10))
    order = np.lexsort(X.T[::-1])
    assert division.base[order].tolist() == [rank % 10 for rank in range(103)]


def test_ss_dpa_refuses_rows_that_are_one_sample_or_keeps_them_together(snapshot):
    X, y, X_test, y_test = cancer(rows=40)
    X, y = np.vstack([X, X[5:8]]), np.concatenate([y, 1 - y[5:8]])
    samples = samples_from_arrays(X, y, X_test, y_test)
    with pytest.raises(TrainingError) as told:
        divide(samples, PartRecipe(method="ss_dpa", parts=5))
    assert str(told.value) == snapshot
    recipe = PartRecipe(method="ss_dpa", parts=5, merge_duplicates=True, learner=TREE)
    division = divide(samples, recipe)
    assert division.base[40:].tolist() == division.base[5:8].tolist()
    assert sorted(np.bincount(division.base[:40])) == [8] * 5
    origin = hold_election(samples, recipe).ballots.origin
    assert origin.distinct_samples
    assert any("one relabel" in each.text and each.checked for each in origin.assumptions)


def test_in_ss_dpa_a_relabel_to_no_label_shifts_no_other_sample():
    X, y, X_test, y_test = cancer(rows=60)
    recipe = PartRecipe(method="ss_dpa", parts=6, learner=TREE)
    before = hold_election(samples_from_arrays(X, y, X_test, y_test, labels=["0", "1"]), recipe)
    strange = y.copy()
    strange[7] = 9
    after = hold_election(
        samples_from_arrays(X, strange, X_test, y_test, labels=["0", "1"]), recipe
    )
    touched = before.partition.base[7]
    assert after.partition.reached_members(7) == ()
    others = np.arange(6) != touched
    assert np.array_equal(before.partition.base[:7], after.partition.base[:7])
    assert np.array_equal(before.ballots.scores[:, others], after.ballots.scores[:, others])


@pytest.mark.parametrize("method", ["dpa", "finite_aggregation"])
def test_rows_of_other_labels_are_left_aside_one_by_one(method, snapshot):
    X, y, X_test, y_test = cancer(rows=120)
    recipe = PartRecipe(method=method, parts=5, learner=TREE)
    labels = ["0", "1"]
    clean = hold_election(samples_from_arrays(X, y, X_test, y_test, labels=labels), recipe)
    more = samples_from_arrays(
        np.vstack([X, X[:4] + 1]), np.append(y, [2, 2, 7, 9]), X_test, y_test, labels=labels
    )
    poisoned = hold_election(more, recipe)
    assert np.array_equal(clean.ballots.scores, poisoned.ballots.scores)
    assert poisoned.ballots.origin.notes[0] == snapshot
