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
    ("arrays", "said"),
    [
        ({"X": X}, "no array 'y'"),
        ({"a": X}, "no array 'X' (it has a)"),
        ({"X_train": X, "y_train": Y, "X_test": X}, "no array 'y_test'"),
        ({"X": X, "y": Y[:2]}, "'X' has 3 rows and 'y' 2"),
        ({"X": X[:1], "y": Y[:1]}, "1 rows, expected at least 2"),
        ({"X": X[0], "y": Y}, "'X' is float64 of shape (2,)"),
        ({"X": X.astype(str), "y": Y}, "expected numbers"),
        ({"X": X, "y": Y[:, None]}, "'y' is int8 of shape (3, 1)"),
        ({"X": np.where(X == 9, np.nan, X), "y": Y}, "'X' row 1, column 1 is nan"),
        ({"X": np.where(X == 9, 1e39, X), "y": Y}, "'X' row 1, column 1 is 1e+39"),
        ({"X": X, "y": Y + 0.5}, "'y' row 0 is 0.5, expected a label 0, 1, 2"),
        ({"X": X, "y": Y - 1}, "'y' row 0 is -1"),
        ({"X": X, "y": Y + 1}, "no row has the label 0; number the labels from 0"),
        ({"X": X, "y": Y * 5}, "goes up to 5, but no row has the label 1"),
        ({"X": X, "y": Y * 0}, "every row of 'y' has the label 0"),
        ({"X_train": X, "y_train": Y, "X_test": X, "y_test": Y + 1}, "'y_test' row 1 has the lab"),
        ({"X_train": X, "y_train": Y, "X_test": X[:, :1], "y_test": Y}, "'X_test' has 1 features"),
        ({"X": X, "y": np.array([{}, {}, {}])}, "holds an array of Python objects"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path, arrays, said):
    path = save(tmp_path, **arrays)
    with pytest.raises(TrainingError) as caught:
        read_data(path, None)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_label_column_means_nothing_for_arrays(tmp_path):
    path = save(tmp_path, X=X, y=Y)
    assert len(read_data(path, "y").X) == 3
    with pytest.raises(TrainingError, match="drop --label"):
        read_data(path, "ill")


@pytest.mark.parametrize("content", [b"PK not a zip", b"text", b""])
def test_a_file_that_is_not_npz_is_refused(tmp_path, content):
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(TrainingError, match=r"NPZ file|is damaged or was cut short"):
        read_data(path, None)
