"""Votes over groups: all rows of one person are in one part, so a person is one edit."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.errors import TrainingError
from leaveout.models.reading import Reading
from leaveout.models.votes import PartRecipe, hold_election, make_learner, read_samples
from leaveout.verifier.cli import run

READING = Reading(group="patient")


def visits(count, people, seed=0):
    """Return rows: patient, two values and a label."""
    rng = np.random.default_rng(seed)
    owners = rng.integers(0, people, count)
    values = rng.integers(0, 30, (count, 2))
    return [
        [f"P{owner}", *map(str, own), "yes" if sum(own) > 29 else "no"]
        for owner, own in zip(owners.tolist(), values.tolist(), strict=True)
    ]


def write(path, rows):
    path.write_text("\n".join(map(",".join, [["patient", "a", "b", "ill"], *rows])) + "\n")
    return path


def elect(path, test, method):
    samples = read_samples(path, label="ill", test=test, labels=["no", "yes"], reading=READING)
    more = {"finite_aggregation": {"spread": 2}, "hash_bagging": {"families": 2}}.get(method, {})
    recipe = PartRecipe(
        parts=6,
        method=method,
        learner=make_learner("DecisionTreeClassifier", {"max_depth": 3}),
        **more,
    )
    return hold_election(samples, recipe)


@pytest.mark.parametrize("method", ["dpa", "finite_aggregation", "hash_bagging"])
def test_whatever_becomes_of_a_persons_rows_changes_the_members_of_one_edit(tmp_path, method):
    rows = visits(120, 15)
    test = write(tmp_path / "test.csv", visits(20, 5, seed=1))
    before = elect(write(tmp_path / "a.csv", rows), test, method)
    assert any("'patient'" in each.text for each in before.ballots.origin.assumptions)
    assert "'patient'" in before.ballots.origin.hash
    rng = np.random.default_rng(3)
    for owner in sorted({row[0] for row in rows})[:8]:
        own = [at for at, row in enumerate(rows) if row[0] == owner]
        reached = {frozenset(before.partition.reached_members(at)) for at in own}
        assert len(reached) == 1
        others = [row for row in rows if row[0] != owner]
        forged = [[owner, str(rng.integers(0, 99)), "7", "yes"] for _ in range(rng.integers(0, 9))]
        path = write(tmp_path / "b.csv", [*others[:50], *forged, *others[50:]])
        after = elect(path, test, method)
        same = (before.ballots.votes == after.ballots.votes).all(axis=0)
        same &= np.array(before.ballots.origin.sizes) == np.array(after.ballots.origin.sizes)
        assert set(np.flatnonzero(~same).tolist()) <= reached.pop()


def test_a_person_is_trained_on_or_tested_on_and_the_column_is_no_feature(tmp_path):
    rows = visits(200, 30)
    samples = read_samples(
        write(tmp_path / "a.csv", rows), label="ill", test_share=0.3, reading=READING
    )
    trained = {home.decode() for home in samples.homes}
    assert 0 < len(trained) < 30
    own = [row for row in rows if any(home.endswith(row[0]) for home in trained)]
    assert len(samples.homes) == samples.rows == len(own)
    assert len(samples.truth) == 200 - len(own)
    encoder = samples.features.fit_encoder(np.arange(samples.rows))
    assert {column.name for column in encoder.columns} == {"a", "b"}


def test_a_hash_of_labels_is_refused(tmp_path, snapshot):
    path = write(tmp_path / "a.csv", visits(60, 9))
    samples = read_samples(path, label="ill", test_share=0.3, reading=READING)
    with pytest.raises(TrainingError) as told:
        hold_election(samples, PartRecipe(parts=3, hash_reads_label=True))
    assert str(told.value) == snapshot


@pytest.mark.parametrize(
    "words",
    [
        ["--method", "ss_dpa"],
        ["--learner", "nearest", "--survive", "removals"],
    ],
)
def test_what_counts_single_rows_is_refused(tmp_path, capsys, words, snapshot):
    path = write(tmp_path / "a.csv", visits(60, 9))
    given = ["partition", str(path), "--label", "ill", "--group", "patient", "--test-share", "0.3"]
    assert run([*given, "--parts", "3", *words, "-o", str(tmp_path / "o")]) == 2
    assert capsys.readouterr().err == snapshot


def test_a_column_that_is_not_there_is_named(tmp_path, snapshot):
    path = write(tmp_path / "a.csv", visits(9, 3))
    with pytest.raises(TrainingError) as told:
        read_samples(path, label="ill", test_share=0.3, reading=Reading(group="person"))
    assert str(told.value) == snapshot
