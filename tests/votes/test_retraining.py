"""Certificates against the truth: the training set is poisoned, everything is trained again.

The radius is computed here, from the votes alone. Members that answer as their nearest row does are
an attacker's best case: one row changes the vote of a member to whatever it likes.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from leaveout.models.votes import (
    PartRecipe,
    divide,
    hold_election,
    make_learner,
    partition,
    read_ballots,
    samples_from_arrays,
)

from support.counted import tally

NEAREST = make_learner("KNeighborsClassifier", {"n_neighbors": 1})
TREE = make_learner("DecisionTreeClassifier", {"max_depth": 4})
POINTS = 80


def plurality(ballots):
    return tally(ballots.votes, ballots.labels).predictions


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:500], y[:500], X[500 : 500 + POINTS], y[500 : 500 + POINTS]


def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:300], y[:300], X[300 : 300 + POINTS], y[300 : 300 + POINTS]


def elect(data, recipe):
    X, y, X_test, y_test = data
    labels = [str(label) for label in range(10 if X.shape[1] == 64 else 2)]
    return hold_election(samples_from_arrays(X, y, X_test, y_test, labels=labels), recipe)


def gaps(votes, labels):
    """Return the winner, and by how much it leads each other label: G of the papers."""
    counts = np.bincount(votes, minlength=labels)
    c = int(counts.argmax())
    return c, {u: int(counts[c] - counts[u] - (u < c)) for u in range(labels) if u != c}


def radius(votes, labels):
    """Levine and Feizi, theorems 1 and 2."""
    return min(gaps(votes, labels)[1].values()) // 2


def spread_radius(votes, labels, offsets):
    """Wang, Levine and Feizi (2022): the edits that gain most, as if none overlapped."""
    c, margin = gaps(votes, labels)
    best = []
    for u, gap in margin.items():
        gain = 1 + (votes == c).astype(int) - (votes == u)
        deltas = sum(np.roll(gain, -offset) for offset in offsets)
        best.append(int((np.cumsum(np.sort(deltas)[::-1]) <= gap).sum()))
    return min(best)


def radii(election):
    ballots, offsets = election.ballots, election.ballots.origin.offsets
    if offsets:
        return np.array([spread_radius(row, ballots.labels, offsets) for row in ballots.votes])
    return np.array([radius(row, ballots.labels) for row in ballots.votes])


def reaching(point, label, recipe, part, rng):
    """Return a row all but equal to ``point`` that the hash gives ``part`` as its base."""
    for _ in range(100_000):
        row = point + rng.uniform(-1e-7, 1e-7, len(point))
        y = np.array([label])
        labels = [str(label), str(label + 1)]
        samples = samples_from_arrays(row[None], y, row[None], y, labels=labels)
        if divide(samples, recipe).base[0] == part:
            return row
    raise AssertionError(part)


def poisoned(data, edits, rng):
    """Remove rows and insert others: copies with another label, test rows, and nonsense."""
    X, y, X_test, _ = data
    removed = rng.choice(len(X), rng.integers(0, edits + 1), replace=False)
    labels = int(y.max()) + 1
    rows = []
    for _ in range(edits - len(removed)):
        kind = rng.integers(3)
        if kind == 0:
            rows.append(X[rng.integers(len(X))] + rng.normal(0, 1e-3, X.shape[1]))
        elif kind == 1:
            rows.append(X_test[rng.integers(len(X_test))])
        else:
            rows.append(rng.normal(0, 1e6, X.shape[1]))
    inserted = np.array(rows).reshape(-1, X.shape[1])
    answers = rng.integers(0, labels, len(rows))
    order = rng.permutation(len(X) - len(removed) + len(rows))
    return (
        np.vstack([np.delete(X, removed, axis=0), inserted])[order],
        np.append(np.delete(y, removed), answers)[order],
        removed,
        inserted,
    )


@pytest.mark.parametrize("learner", [NEAREST, TREE], ids=["nearest", "tree"])
@pytest.mark.parametrize(("method", "spread"), [("dpa", 1), ("finite_aggregation", 3)])
def test_no_poisoning_within_the_radius_changes_an_answer(method, spread, learner):
    rng = np.random.default_rng(11)
    data = digits() if method == "dpa" else cancer()
    recipe = PartRecipe(method=method, spread=spread, parts=12, learner=learner)
    clean = elect(data, recipe)
    answers, certified = plurality(clean.ballots), radii(clean)
    assert (certified >= 3).any()
    changed = 0
    for _ in range(25):
        edits = int(rng.integers(1, certified.max() + 1))
        X, y, removed, inserted = poisoned(data, edits, rng)
        again = elect((X, y, *data[2:]), recipe)
        touched = {member for row in removed for member in clean.partition.reached_members(row)}
        for row in inserted:
            (place,) = np.flatnonzero((row == X).all(axis=1))[:1]
            touched |= set(again.partition.reached_members(int(place)))
        assert len(touched) <= edits * spread
        same = np.array([member not in touched for member in range(clean.ballots.parts)])
        assert np.array_equal(again.ballots.scores[:, same], clean.ballots.scores[:, same])
        changed += int((again.ballots.votes != clean.ballots.votes).sum())
        held = certified >= edits
        assert np.array_equal(plurality(again.ballots)[held], answers[held])
    assert changed


@pytest.mark.parametrize("point", [0, 3, 17])
def test_the_attack_that_the_formula_speaks_of_succeeds_one_edit_later_and_not_before(point):
    rng = np.random.default_rng(point)
    data = digits()
    recipe = PartRecipe(parts=11, learner=NEAREST)
    clean = elect(data, recipe)
    votes = clean.ballots.votes[point]
    c, margin = gaps(votes, 10)
    rival = min(margin, key=margin.get)
    budget = radius(votes, 10)
    assert budget >= 1
    X, y = data[:2]
    for spent, part in enumerate(np.flatnonzero(votes == c)[: budget + 1], start=1):
        X = np.vstack([X, reaching(data[2][point], rival, recipe, part, rng)])
        y = np.append(y, rival)
        again = elect((X, y, *data[2:]), recipe)
        assert again.ballots.votes[point, part] == rival
        assert (again.ballots.votes != clean.ballots.votes).any(axis=0).sum() <= spent
        answer = plurality(again.ballots)[point]
        assert answer == (c if spent <= budget else rival)


def test_an_attack_on_finite_aggregation_turns_a_member_for_each_offset():
    rng = np.random.default_rng(5)
    data = cancer()
    recipe = PartRecipe(method="finite_aggregation", spread=3, parts=7, learner=NEAREST)
    clean = elect(data, recipe)
    certified = radii(clean)
    point = int(np.argmax((certified >= 1) & (plurality(clean.ballots) == clean.ballots.truth)))
    c, _ = gaps(clean.ballots.votes[point], 2)
    X, y, turned = data[0], data[1], set()
    answer, spent = c, 0
    while answer == c and spent < 21:
        votes = clean.ballots.votes[point]
        gain = [
            len(
                {(base + o) % 21 for o in clean.partition.offsets if votes[(base + o) % 21] == c}
                - turned
            )
            for base in range(21)
        ]
        base = int(np.argmax(gain))
        X = np.vstack([X, reaching(data[2][point], 1 - c, recipe, base, rng)])
        y = np.append(y, 1 - c)
        spent += 1
        turned |= {(base + o) % 21 for o in clean.partition.offsets}
        again = elect((X, y, *data[2:]), recipe)
        assert (again.ballots.votes[point, sorted(turned)] == 1 - c).all()
        answer = plurality(again.ballots)[point]
    assert answer != c
    assert spent > certified[point]


@pytest.mark.parametrize("learner", [NEAREST, TREE], ids=["nearest", "tree"])
def test_no_relabelling_within_the_radius_changes_an_answer_of_ss_dpa(learner):
    rng = np.random.default_rng(2)
    data = cancer()
    recipe = PartRecipe(
        method="ss_dpa", parts=30, learner=learner, features=("StandardScaler", "PCA")
    )
    clean = elect(data, recipe)
    answers, certified = plurality(clean.ballots), radii(clean)
    assert (certified >= 5).any()
    for _ in range(25):
        count = int(rng.integers(1, certified.max() + 1))
        rows = rng.choice(len(data[0]), count, replace=False)
        y = data[1].copy()
        y[rows] = 1 - y[rows]
        again = elect((data[0], y, *data[2:]), recipe)
        assert np.array_equal(again.partition.base, clean.partition.base)
        same = ~np.isin(np.arange(30), clean.partition.base[rows])
        assert np.array_equal(again.ballots.scores[:, same], clean.ballots.scores[:, same])
        held = certified >= count
        assert np.array_equal(plurality(again.ballots)[held], answers[held])


def test_relabelling_the_nearest_row_of_each_part_succeeds_one_relabel_after_the_radius():
    data = cancer()
    recipe = PartRecipe(method="ss_dpa", parts=15, learner=NEAREST)
    clean = elect(data, recipe)
    point = int(np.argmax(radii(clean) >= 3))
    votes = clean.ballots.votes[point]
    c, _ = gaps(votes, 2)
    budget, y = radius(votes, 2), data[1].copy()
    distances = ((data[0] - data[2][point]) ** 2).sum(axis=1)
    for spent, part in enumerate(np.flatnonzero(votes == c)[: budget + 1], start=1):
        rows = np.flatnonzero(clean.partition.base == part)
        y[rows[distances[rows].argmin()]] = 1 - c
        again = elect((data[0], y, *data[2:]), recipe)
        assert (plurality(again.ballots)[point] == c) == (spent <= budget)


@pytest.mark.parametrize("method", ["dpa", "ss_dpa"])
def test_a_relabel_touches_exactly_one_part(method):
    rng = np.random.default_rng(0)
    data = cancer()
    recipe = PartRecipe(method=method, parts=10, learner=NEAREST)
    # Asked about its own training rows, a member shows every label it was given.
    everywhere = (data[0], data[1], data[0], data[1])
    clean = elect(everywhere, recipe)
    for row in rng.choice(len(data[0]), 8, replace=False):
        y = data[1].copy()
        y[row] = 1 - y[row]
        again = elect((data[0], y, data[0], data[1]), recipe)
        parts = np.flatnonzero((again.ballots.votes != clean.ballots.votes).any(axis=0))
        assert parts.tolist() == [clean.partition.base[row]]


def test_a_hash_that_reads_labels_lets_one_relabel_touch_two_parts():
    data = cancer()
    # Its scores show every change of what it was trained on.
    learner = make_learner("GaussianNB")
    for reads, most in ((False, 1), (True, 2)):
        recipe = PartRecipe(parts=10, learner=learner, hash_reads_label=reads)
        clean = elect(data, recipe)
        assert clean.ballots.origin.hash_reads_label == reads
        touched = []
        for row in range(6):
            y = data[1].copy()
            y[row] = 1 - y[row]
            again = elect((data[0], y, *data[2:]), recipe)
            changed = (again.ballots.scores != clean.ballots.scores).any(axis=(0, 2))
            touched.append(int(changed.sum()))
        assert max(touched) == most


def test_poisoned_tables_keep_the_certified_answers(tmp_path):
    """From file to file: text of any kind is inserted, encodings are decided in the parts."""
    rng = np.random.default_rng(4)
    X, y, X_test, y_test = cancer()
    header = ["a", "b", "kind", "label"]

    def rows_of(X, y):
        kinds = np.where(X[:, 3] < 500, "small", np.where(X[:, 3] < 900, "middling", "large"))
        return [
            [repr(float(x[0])), repr(float(x[1])), kind, ["bad", "good"][label]]
            for x, kind, label in zip(X, kinds, y)
        ]

    def run(name, rows):
        source = tmp_path / f"{name}.csv"
        for path, content in ((source, rows), (tmp_path / "test.csv", rows_of(X_test, y_test))):
            with path.open("w", newline="") as stream:
                csv.writer(stream).writerows([header, *content])
        partition(
            source,
            tmp_path / name,
            label="label",
            test=tmp_path / "test.csv",
            labels=["bad", "good"],
            recipe=PartRecipe(parts=12, learner=TREE),
            workers=1,
            onnx=False,
        )
        return read_ballots(tmp_path / name / "ballots.npz")

    rows = rows_of(X, y)
    clean = run("clean", rows)
    certified = np.array([radius(votes, 2) for votes in clean.votes])
    assert (certified >= 3).sum() > 20
    for attempt in range(8):
        edits = int(rng.integers(1, certified.max() + 1))
        kept = list(rows)
        for _ in range(edits):
            if rng.random() < 0.4:
                kept.pop(int(rng.integers(len(kept))))
            else:
                cells = ["", "1e308", "-1e308", "nan", "x", "huge", "small", "7"]
                kept.append([*rng.choice(cells, 3), str(rng.choice(["bad", "good", "neither"]))])
        again = run(f"poisoned{attempt}", kept)
        assert (again.votes != clean.votes).any(axis=0).sum() <= edits
        held = certified >= edits
        assert np.array_equal(plurality(again)[held], plurality(clean)[held])
