"""Tables and arrays that ``leaveout partition`` refuses, in one line that names the place."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.models.votes import read_ballots
from leaveout.models.votes.samples import array_keys, held_out

from support.parts import invoke


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ("", [], "is empty"),
        ("a,b\n", [], "there is no row below the header"),
        ("a,b\n1,x\n2,y\n", [], "as in --label 'b'"),
        ("a,b\n1,x\n2,y\n", ["--label", "bb"], "there is no column 'bb' (did you mean 'b'?)"),
        ("a;b\n1;x\n", ["--label", "b"], "separate columns by commas"),
        ("b\nx\ny\n", ["--label", "b"], "no column beside the label"),
        ("a,b\n1,x\n2,y\n", ["--label", "b"], "--test FILE, or --test-share 0.2"),
        ("a,b\n1,x\n2\n", ["--label", "b"], "line 3: 1 cells, expected 2"),
        ("a,a\n1,x\n", ["--label", "a"], "two columns are named 'a'"),
        ("a,\n1,x\n", ["--label", "a"], "column 2 has no name"),
        ('a,b\n1,"x\n', ["--label", "b"], "not CSV"),
        ("a,b\n1,x\n2,x\n", ["--label", "b", "--test-share", "0.5"], "no label but x"),
        ("a,b\n1,x\n2,\n", ["--label", "b", "--test-share", "0.5"], "line 3, column 'b': the"),
        ("a,b\n1,x\n2,y\n", ["--label", "b", "--test-share", "0.999999"], "no row is left"),
        (
            "a,b\n" + "".join(f"{i},{i}.5\n" for i in range(30)),
            ["--label", "b", "--test-share", "0.5"],
            "look like measurements",
        ),
    ],
)
def test_bad_tables_are_one_error_and_nothing_is_written(tmp_path, capsys, content, words, said):
    path = tmp_path / "data.csv"
    path.write_text(content)
    code, stdout, stderr = invoke(capsys, path, "-o", tmp_path / "out", *words)
    assert (code, stdout) == (2, "")
    assert said in stderr
    assert str(path) in stderr
    assert stderr.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("radius,answer\n1,good\n", "test.csv, line 1: there is no column 'texture'"),
        ("radius,texture,answer\n1,2,Good\n", "test.csv, line 2, column 'answer': 'Good' is not"),
        ("radius,texture,answer\n", "test.csv: there is no row below the header"),
    ],
)
def test_bad_test_tables_are_one_error(table, tmp_path, capsys, content, said):
    (tmp_path / "test.csv").write_text(content)
    words = [table, "--label", "answer", "--test", tmp_path / "test.csv", "-o", tmp_path / "out"]
    code, _, stderr = invoke(capsys, *words)
    assert code == 2
    assert said in stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"X_test": None}, "there is no array 'X_test'"),
        ({"X_train": np.full((4, 2), np.nan)}, "'X_train' row 0, column 0 is nan"),
        ({"X_train": np.full((4, 2), 1e300)}, "'X_train' row 0, column 0 is 1e+300"),
        ({"X_train": np.zeros((4, 3))}, "'X_test' has 2 features, 'X_train' has 3"),
        ({"X_train": np.zeros((3, 2))}, "'X_train' has 3 rows and 'y_train' 4; expected as many"),
        ({"X_train": np.array([["a", "b"]] * 4)}, "expected numbers of shape (rows, features)"),
        ({"X_train": np.array([[{}] * 2] * 4)}, "holds an array of Python objects"),
        (
            {"y_train": np.array([0, 1, 2_000_000_000, 1])},
            "'y_train' row 2 is 2000000000",
        ),
        ({"y_train": np.array([0, 10**6, 0, 1])}, "number the labels from 0, or say which there"),
        ({"y_train": np.array([0, 32_768, 0, 1])}, "'y_train' row 1 is 32768, expected a label 0"),
        ({"y_train": np.array(1)}, "'y_train' is int64 of shape ()"),
        ({"y_train": np.array([0, 1, 1, 0.5])}, "'y_train' row 3 is 0.5"),
        ({"y_train": np.zeros(4, dtype=int)}, "there is no label but 0"),
        ({"y_test": np.array([0, 1, 2, 1])}, "'y_test' row 2: '2' is not one of the labels"),
        ({"X_test": np.zeros((0, 2)), "y_test": np.zeros(0)}, "'X_test' has no row"),
    ],
)
def test_bad_arrays_are_one_error(tmp_path, capsys, changes, said):
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 1, 0])
    given = {"X_train": X, "y_train": y, "X_test": X, "y_test": y} | changes
    path = tmp_path / "data.npz"
    np.savez(path, **{name: value for name, value in given.items() if value is not None})
    code, _, stderr = invoke(capsys, path, "-o", tmp_path / "out")
    assert code == 2
    assert said in stderr
    assert stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def changed(place, value):
    X = np.arange(40.0).reshape(20, 2)
    X[place] = value
    return X


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"y": np.array(1)}, "'y' is int64 of shape (), expected whole numbers of shape (rows,)"),
        ({"X": np.array(1.0)}, "'X' is float64 of shape ()"),
        ({"X": changed((7, 1), np.nan)}, "'X' row 7, column 1 is nan"),
        ({"X": changed((17, 0), np.inf)}, "'X' row 17, column 0 is inf"),
        ({"X": np.full((20, 2), "a")}, "'X' is <U1 of shape (20, 2)"),
        ({"X": np.zeros((0, 2)), "y": np.zeros(0)}, "'X' has no row"),
        ({"X": np.zeros((20, 2))}, "no row is left to train or to test on"),
        ({"y": np.arange(19) % 2}, "'X' has 20 rows and 'y' 19; expected as many"),
        ({"y": np.where(np.arange(20) == 13, 0.5, 1)}, "'y' row 13 is 0.5, expected a label"),
        (
            {"y": np.arange(20) * 10**8},
            "is 1900000000, expected a label 0 to",
        ),
        ({"X": None}, "there is no array 'X' (it has y)"),
    ],
)
def test_bad_arrays_to_hold_a_share_of_out_are_one_error_that_names_rows_of_the_file(
    tmp_path, capsys, changes, said
):
    given = {"X": changed((0, 0), 0.0), "y": np.arange(20) % 2} | changes
    path = tmp_path / "data.npz"
    np.savez(path, **{name: value for name, value in given.items() if value is not None})
    words = [path, "--test-share", "0.3", "-o", tmp_path / "out"]
    code, _, stderr = invoke(capsys, *words)
    assert code == 2
    assert said in stderr
    assert stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_held_out_row_whose_label_is_none_of_them_is_named_as_in_the_file(tmp_path, capsys):
    X, y = changed((0, 0), 0.0), np.arange(20) % 2
    path = tmp_path / "data.npz"
    held = int(np.flatnonzero(held_out(array_keys(X), 0.3))[-1])
    y[held] = 7
    np.savez(path, X=X, y=y)
    code, _, stderr = invoke(capsys, path, "--test-share", "0.3", "-o", tmp_path / "out")
    assert code == 2
    assert f"'y' row {held}, held out to test on: '7' is not one of the labels 0, 1" in stderr


def test_labels_far_apart_are_fine_once_they_are_named(tmp_path, capsys):
    X, y = changed((0, 0), 0.0), np.where(np.arange(20) % 2, 10**6, 5)
    path = tmp_path / "data.npz"
    np.savez(path, X=X, y=y)
    words = [path, "--test-share", "0.3", "--labels", "5,1000000", "--parts", 2, "--workers", 1]
    words += ["--learner", "GaussianNB", "--no-onnx", "-o", tmp_path / "out"]
    assert invoke(capsys, *words)[0] == 0
    assert read_ballots(tmp_path / "out" / "ballots.npz").labels == 2


def test_more_labels_than_ballots_hold_are_refused_before_training(tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n" + "".join(f"{i},x{i}\n" for i in range(33_000)))
    words = [path, "--label", "b", "--test-share", "0.3", "-o", tmp_path / "out"]
    code, _, stderr = invoke(capsys, *words)
    assert code == 2
    assert "there are 33,000 labels, expected at most 32,768" in stderr
    assert stderr.count("\n") == 1
