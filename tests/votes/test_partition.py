"""Partitions and members: functions of the samples as a set, part by part."""

from __future__ import annotations

import csv
import hashlib
import os
import struct
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import load_breast_cancer

from leaveout.encoders.votes.tally import tally
from leaveout.errors import TrainingError
from leaveout.models.votes import (
    PartRecipe,
    divide,
    hold_election,
    make_learner,
    partition,
    read_samples,
    samples_from_arrays,
)
from leaveout.models.votes.features import TableFeatures, column_of
from leaveout.models.votes.hashing import array_keys, cell_keys, hash_samples, spread_offsets

from support import children

TREE = make_learner("DecisionTreeClassifier", {"max_depth": 3})
LINEAR = make_learner("LogisticRegression")


def plurality(ballots):
    return tally(ballots.votes, ballots.labels).predictions


def cancer(rows=300, seed=None):
    """Return training and test rows; with a seed, the training rows in another order."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.arange(rows)
    if seed is not None:
        order = np.random.default_rng(seed).permutation(rows)
    return X[order], y[order], X[400:], y[400:]


def write_table(path, X, y, seed=None):
    """Write a CSV with two numeric columns and one of words, and a test table beside it."""
    order = np.arange(len(X))
    if seed is not None:
        order = np.random.default_rng(seed).permutation(len(X))
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["radius", "kind", "texture", "label"])
        for row in order:
            kind = "small" if X[row, 0] < 13 else "large" if X[row, 0] < 17 else "huge"
            writer.writerow([X[row, 0], kind, X[row, 1], ["bad", "good"][y[row]]])


# Hashes and keys


def test_hashes_are_these_numbers_on_every_machine():
    X = np.array([[0.0, 1.5], [-1e-300, np.pi]])
    keys = array_keys(X)
    assert hash_samples(keys).tolist() == [9882616065078449893, 10220567862017454994]
    assert hash_samples(keys, "salt").tolist() == [8652807354857493118, 13214513428486922830]
    assert hash_samples(keys, "", ["a", "b"]).tolist() == [
        3739374318569994952,
        10493105409213241854,
    ]
    written = struct.pack(">Q", 1 << 63) + struct.pack(">d", -1.5)
    by_hand = hashlib.blake2b(written, digest_size=8, person=b"leaveout part").digest()
    assert int.from_bytes(by_hand, "little") == 9882616065078449893
    cells = cell_keys([("a", "bc"), ("ab", "c"), ("ü", "")])
    assert hash_samples(cells).tolist() == [
        17854366584879409309,
        2416954302789512964,
        12666205448008189937,
    ]
    assert spread_offsets(12, 3, 0) == (2, 3, 8)
    assert spread_offsets(1000, 4, 0) == (69, 117, 390, 539)


def test_a_zero_has_no_sign_and_a_float32_is_its_float64():
    assert array_keys(np.array([[0.0]])) == array_keys(np.array([[-0.0]]))
    X, y = np.array([[0.1], [-0.0], [0.3]], dtype=np.float32), np.array([0, 1, 0])
    wide = X.astype(np.float64)
    assert samples_from_arrays(X, y, X, y).keys == samples_from_arrays(wide, y, X, y).keys


@given(hnp.arrays(np.float64, (7, 2), elements=st.floats(allow_nan=False, width=64)))
def test_keys_sort_as_rows_do(X):
    keys = array_keys(X)
    rows = [tuple(row + 0.0) for row in X]
    for i in range(len(X)):
        for j in range(len(X)):
            assert (keys[i] < keys[j]) == (rows[i] < rows[j])
            assert (keys[i] == keys[j]) == (rows[i] == rows[j])


@given(st.lists(st.lists(st.text(max_size=3), min_size=2, max_size=2), min_size=2, max_size=6))
def test_rows_of_cells_share_a_key_only_if_they_are_equal(rows):
    keys = cell_keys(rows)
    for i, first in enumerate(rows):
        for j, second in enumerate(rows):
            assert (keys[i] == keys[j]) == (first == second)


# Partitions


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
    reached = [division.reached(row) for row in range(samples.rows)]
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
    reached = np.array([division.reached(row) for row in range(samples.rows)])
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
    assert set(np.flatnonzero(~same)) <= set(before.partition.reached(7))
    origin = before.ballots.origin
    assert (origin.method, origin.families, origin.offsets) == ("hash_bagging", (5, 5, 5), ())
    assert "'leaveout f'" in origin.hash


def test_a_boosted_member_adds_up_what_several_classifiers_of_its_part_score():
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
    assert origin.learner.startswith("the sum of the scores of 3 of RandomForestClassifier")
    assert any("none is written as ONNX" in note for note in origin.notes)
    assert not boosted.exported


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"families": 2}, "--families 2 is of --method hash_bagging"),
        ({"families": 0, "method": "hash_bagging"}, "--families 0: expected a whole number"),
        ({"spread": 2}, "--spread 2 is of --method finite_aggregation or boosted"),
        ({"spread": 2, "method": "hash_bagging"}, "--spread 2 is of"),
        ({"spread": 5_000, "method": "boosted"}, "250,000 classifiers, expected at most"),
    ],
)
def test_families_and_classifiers_are_of_their_methods(given, wrong):
    with pytest.raises(TrainingError, match=wrong):
        PartRecipe(**given)


def test_ss_dpa_deals_the_sorted_samples_out_in_turn():
    X, y, X_test, y_test = cancer(rows=103, seed=1)
    samples = samples_from_arrays(X, y, X_test, y_test)
    division = divide(samples, PartRecipe(method="ss_dpa", parts=10))
    order = np.lexsort(X.T[::-1])
    assert division.base[order].tolist() == [rank % 10 for rank in range(103)]


def test_ss_dpa_refuses_rows_that_are_one_sample_or_keeps_them_together():
    X, y, X_test, y_test = cancer(rows=40)
    X, y = np.vstack([X, X[5:8]]), np.concatenate([y, 1 - y[5:8]])
    samples = samples_from_arrays(X, y, X_test, y_test)
    with pytest.raises(TrainingError, match=r"rows \d+ and \d+ .* one sample, 6 rows .* merge"):
        divide(samples, PartRecipe(method="ss_dpa", parts=5))
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
    assert after.partition.reached(7) == ()
    others = np.arange(6) != touched
    assert np.array_equal(before.partition.base[:7], after.partition.base[:7])
    assert np.array_equal(before.ballots.scores[:, others], after.ballots.scores[:, others])


@pytest.mark.parametrize("method", ["dpa", "finite_aggregation"])
def test_rows_of_other_labels_are_left_aside_one_by_one(method):
    X, y, X_test, y_test = cancer(rows=120)
    recipe = PartRecipe(method=method, parts=5, learner=TREE)
    labels = ["0", "1"]
    clean = hold_election(samples_from_arrays(X, y, X_test, y_test, labels=labels), recipe)
    more = samples_from_arrays(
        np.vstack([X, X[:4] + 1]), np.append(y, [2, 2, 7, 9]), X_test, y_test, labels=labels
    )
    poisoned = hold_election(more, recipe)
    assert np.array_equal(clean.ballots.scores, poisoned.ballots.scores)
    assert "4 training rows have a label that is none" in poisoned.ballots.origin.notes[0]


# Nothing but the set of rows matters


@pytest.mark.parametrize("method", ["dpa", "ss_dpa", "finite_aggregation"])
@pytest.mark.parametrize("kind", ["arrays", "table"])
def test_the_order_of_rows_changes_no_byte_of_the_ballots(tmp_path, method, kind):
    parts = []
    for seed in (None, 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        X, y, X_test, y_test = cancer(seed=seed)
        options = {}
        if kind == "arrays":
            source = folder / "data.npz"
            np.savez(source, X_train=X, y_train=y, X_test=X_test, y_test=y_test)
        else:
            source = folder / "data.csv"
            write_table(source, X, y)
            options = {"label": "label", "test_share": 0.3}
        recipe = PartRecipe(
            method=method,
            parts=7,
            spread=3 if method == "finite_aggregation" else 1,
            features=("StandardScaler", "PCA") if method == "ss_dpa" else (),
            learner=LINEAR,
            scale=True,
        )
        samples = read_samples(source, **options)
        division = divide(samples, recipe)
        parts.append({key: division.reached(row) for row, key in enumerate(samples.keys)})
        partition(source, folder / "out", recipe=recipe, workers=1, onnx=False, **options)
    assert parts[0] == parts[1]
    first, second = (tmp_path / str(s) / "out" / "ballots.npz" for s in (None, 4))
    assert first.read_bytes() == second.read_bytes()


# Of numpy 2.0 to 2.3, and later ones.
FEATURES = "AVX2 FMA3 AVX512F AVX512_SKX X86_V3 X86_V4 AVX512_ICL AVX512_SPR"

PROGRAM = """
import hashlib, sys
import numpy as np
from sklearn.datasets import load_breast_cancer
from leaveout.models.votes import PartRecipe, hold_election, make_learner, samples_from_arrays
X, y = load_breast_cancer(return_X_y=True)
samples = samples_from_arrays(X[:300], y[:300], X[300:], y[300:])
for name, scale in ((None, False), (sys.argv[2], True)):
    recipe = PartRecipe(parts=6, learner=make_learner(name), scale=scale)
    election = hold_election(samples, recipe, workers=int(sys.argv[1]))
    for array in (election.partition.base, election.ballots.votes, election.ballots.scores):
        print(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())
"""


def digests(workers, learner="LogisticRegression", **environment):
    result = children.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(workers), learner],
        env={**os.environ, **environment},
        check=True,
    )
    return result.stdout.split()


def test_workers_threads_hash_seeds_and_kinds_of_processor_change_nothing():
    """Trees alone are held to the kind of processor: they multiply no matrices."""
    usual = digests(1, PYTHONHASHSEED="1", OPENBLAS_NUM_THREADS="2", OMP_NUM_THREADS="2")
    assert len(set(usual)) == 5
    assert usual == digests(2, PYTHONHASHSEED="2", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    other = digests(1, OPENBLAS_CORETYPE="Nehalem", NPY_DISABLE_CPU_FEATURES=FEATURES)
    assert usual[:4] == other[:4]


def test_torch_members_are_the_same_with_any_number_of_workers_and_whatever_others_hold():
    pytest.importorskip("torch")
    X, y, X_test, y_test = cancer(rows=150)
    learner = make_learner("torch", {"layers": (8,), "epochs": 20})
    recipe = PartRecipe(parts=4, learner=learner, scale=True)
    samples = samples_from_arrays(X, y, X_test, y_test)
    first = hold_election(samples, recipe, workers=1, onnx=True)
    assert first.ballots.votes.mean(axis=0).std() > 0
    assert (plurality(first.ballots) == y_test).mean() > 0.8
    # Another row for one part alone: the others' networks are the same bits.
    poisoned = samples_from_arrays(
        np.vstack([X, X[:1] * 7]), np.append(y, 1 - y[:1]), X_test, y_test
    )
    second = hold_election(poisoned, recipe, workers=2, onnx=True)
    (touched,) = second.partition.reached(150)
    for part in range(4):
        same = first.exported[part].content == second.exported[part].content
        assert same == (part != touched)


def test_a_worker_that_dies_is_one_error(monkeypatch):
    samples = samples_from_arrays(*cancer(rows=60))
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(TrainingError, match=r"a worker process ended .* nothing is written"):
        hold_election(samples, PartRecipe(parts=4, learner=TREE), workers=2)
    with pytest.raises(TrainingError, match="--workers 0"):
        hold_election(samples, PartRecipe(parts=4, learner=TREE), workers=0)


def test_numerical_libraries_run_on_one_thread_while_members_are_trained():
    from threadpoolctl import threadpool_info, threadpool_limits

    samples = samples_from_arrays(*cancer(rows=60))
    during = []

    def look(done):
        during.extend(library["num_threads"] for library in threadpool_info())

    with threadpool_limits(2):
        before = [library["num_threads"] for library in threadpool_info()]
        assert 2 in before
        hold_election(samples, PartRecipe(parts=3, learner=LINEAR), on_done=look)
        assert [library["num_threads"] for library in threadpool_info()][: len(before)] == before
    assert set(during) == {1}


# What a part reads


def test_no_cell_of_a_poisoned_row_changes_the_encoding_of_another_part(tmp_path):
    X, y, _, _ = cancer(rows=200)
    path, test = tmp_path / "data.csv", tmp_path / "test.csv"
    write_table(path, X, y)
    write_table(test, X[:50], y[:50])
    recipe = PartRecipe(parts=8, learner=TREE)
    options = {"label": "label", "test": test, "labels": ["bad", "good"]}
    before = hold_election(read_samples(path, **options), recipe)
    content = path.read_text()
    lines = ["1e308,tiny,-1e308,good", "?,,nan,bad", "inf,x,1e999,good", "0,large,0,worse"]
    for line in lines:
        path.write_text(content + line + "\n")
        after = hold_election(read_samples(path, **options), recipe)
        reached = after.partition.reached(200)
        assert len(reached) == (not line.endswith("worse"))
        others = np.setdiff1d(np.arange(8), reached)
        assert np.array_equal(before.ballots.scores[:, others], after.ballots.scores[:, others])
    path.write_text(content + "".join(f"{line}\n" for line in lines))
    hold_election(read_samples(path, **options), recipe)


def test_a_table_is_encoded_as_the_words_say():
    cells = [
        ["1", "3", "a", "2", "x", "a", "9", "nan", "1e308", "-1e308"],
        ["u", "v", "u", "u", "w", "", "v", "7", "u", "u"],
    ]
    features = TableFeatures(tuple(column_of(f"c{i}", column) for i, column in enumerate(cells)))
    encoder = features.fitted(np.array([0, 1, 2, 5]))
    # c0: numbers 1 to 3, the word a; c1: the words "", u, v.
    assert encoder.width == 5
    assert encoder(np.arange(10)).tolist() == [
        [0.0, 0, 0, 1, 0],
        [1.0, 0, 0, 0, 1],
        [0.0, 1, 0, 1, 0],
        [0.5, 0, 0, 1, 0],
        [0.0, 0, 0, 0, 0],
        [0.0, 1, 1, 0, 0],
        [4.0, 0, 0, 0, 1],
        [0.0, 0, 0, 0, 0],
        # No farther than a million ranges, or single precision would overflow.
        [1e6, 0, 0, 1, 0],
        [-1e6, 0, 0, 1, 0],
    ]


def test_the_digest_of_the_data_is_of_the_rows_in_sorted_order():
    first, second = samples_from_arrays(*cancer()), samples_from_arrays(*cancer(seed=2))
    assert first.sha256() == second.sha256()
    X, y, X_test, y_test = cancer()
    y[0] = 1 - y[0]
    assert samples_from_arrays(X, y, X_test, y_test).sha256() != first.sha256()
    assert len(first.sha256()) == len(hashlib.sha256().hexdigest())
