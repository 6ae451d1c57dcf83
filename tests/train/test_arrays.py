"""Arrays: used as they are, and refused with the array and the row."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from leaveout.errors import TrainingError
from leaveout.models.train.data import read_data

X = np.array([[0.0, -3.5], [0.25, 9.0], [1.0, 0.5]])
Y = np.array([0, 1, 0], dtype=np.int8)


def save(tmp_path, **arrays):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    return path


def test_arrays_are_kept_as_they_are(tmp_path):
    data = read_data(save(tmp_path, X_train=X, y_train=Y, X_test=X[:1], y_test=Y[:1]), None)
    assert data.X.dtype == np.float32
    assert np.array_equal(data.X, X)
    assert data.y.tolist() == [0, 1, 0]
    assert data.labels == ("0", "1")
    assert data.X_test.shape == (1, 2)


def test_facts_hold_the_ranges_and_the_hash_but_no_row(tmp_path):
    data = read_data(save(tmp_path, X=X, y=Y), None)
    facts = data.facts()
    raw = X.astype("<f4").tobytes() + Y.astype("<i8").tobytes()
    assert facts.sha256 == hashlib.sha256(raw).hexdigest()
    assert (facts.rows, facts.minimum, facts.maximum) == (3, (0.0, -3.5), (1.0, 9.0))


@pytest.mark.parametrize(
    "arrays",
    [
        {"X": X},
        {"a": X},
        {"X_train": X, "y_train": Y, "X_test": X},
        {"X": X, "y": Y[:2]},
        {"X": X[:1], "y": Y[:1]},
        {"X": X[0], "y": Y},
        {"X": X.astype(str), "y": Y},
        {"X": X, "y": Y[:, None]},
        {"X": np.where(X == 9, np.nan, X), "y": Y},
        {"X": np.where(X == 9, 1e39, X), "y": Y},
        {"X": X, "y": Y + 0.5},
        {"X": X, "y": Y - 1},
        {"X": X, "y": Y + 1},
        {"X": X, "y": Y * 5},
        {"X": X, "y": Y * 0},
        {"X_train": X, "y_train": Y, "X_test": X, "y_test": Y + 1},
        {"X_train": X, "y_train": Y, "X_test": X[:, :1], "y_test": Y},
        {"X": X, "y": np.array([{}, {}, {}])},
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path, arrays, snapshot):
    path = save(tmp_path, **arrays)
    with pytest.raises(TrainingError) as caught:
        read_data(path, None)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value) == snapshot
    assert "\n" not in str(caught.value)


def test_a_label_column_means_nothing_for_arrays(tmp_path, snapshot):
    path = save(tmp_path, X=X, y=Y)
    assert len(read_data(path, "y").X) == 3
    with pytest.raises(TrainingError) as told:
        read_data(path, "ill")
    assert str(told.value) == snapshot


@pytest.mark.parametrize("content", [b"PK not a zip", b"text", b""])
def test_a_file_that_is_not_npz_is_refused(tmp_path, content, snapshot):
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(TrainingError) as told:
        read_data(path, None)
    assert str(told.value) == snapshot
