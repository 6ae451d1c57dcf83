"""Nothing but the set of rows matters to ballots, and to a member nothing but those of its part."""

from __future__ import annotations

import hashlib
import os
import sys

import numpy as np
import pytest

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

from support import children
from support.counted import tally
from support.parts import LINEAR, TREE, cancer, write_table


def plurality(ballots):
    return tally(ballots.votes, ballots.labels).predictions


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
        parts.append({key: division.reached_members(row) for row, key in enumerate(samples.keys)})
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
    (touched,) = second.partition.reached_members(150)
    for part in range(4):
        same = first.exported[part].content == second.exported[part].content
        assert same == (part != touched)


def test_a_worker_that_dies_is_one_error(monkeypatch, snapshot):
    samples = samples_from_arrays(*cancer(rows=60))
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(TrainingError) as told:
        hold_election(samples, PartRecipe(parts=4, learner=TREE), workers=2)
    assert str(told.value) == snapshot
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
        reached = after.partition.reached_members(200)
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
    encoder = features.fit_encoder(np.array([0, 1, 2, 5]))
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
