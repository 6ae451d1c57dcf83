"""Tables and arrays that ``leaveout partition`` refuses, in one line that names the place."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.models.votes import read_ballots
from leaveout.models.votes.samples import array_keys, held_out

from support.parts import invoke


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", []),
        ("a,b\n", []),
        ("a,b\n1,x\n2,y\n", []),
        ("a,b\n1,x\n2,y\n", ["--label", "bb"]),
        ("b\nx\ny\n", ["--label", "b"]),
        ("a,b\n1,x\n2,y\n", ["--label", "b"]),
        ("a,b\n1,x\n2\n", ["--label", "b"]),
        ("a,a\n1,x\n", ["--label", "a"]),
        ("a,\n1,x\n", ["--label", "a"]),
        ('a,b\n1,"x\n', ["--label", "b"]),
        ("a,b\n1,x\n2,x\n", ["--label", "b", "--test-share", "0.5"]),
        ("a,b\n1,x\n2,\n", ["--label", "b", "--test-share", "0.5"]),
        ("a,b\n1,x\n2,y\n", ["--label", "b", "--test-share", "0.999999"]),
        (
            "a,b\n" + "".join(f"{i},{i}.5\n" for i in range(30)),
            ["--label", "b", "--test-share", "0.5"],
        ),
    ],
)
def test_bad_tables_are_one_error_and_nothing_is_written(
    tmp_path, capsys, content, words, snapshot
):
    path = tmp_path / "data.csv"
    path.write_text(content)
    code, stdout, stderr = invoke(capsys, path, "-o", tmp_path / "out", *words)
    assert (code, stdout) == (2, "")
    assert stderr == snapshot
    assert str(path) in stderr
    assert stderr.count("\n") == 1
    assert [each.name for each in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    "content",
    [
        "radius,answer\n1,good\n",
        "radius,texture,answer\n1,2,Good\n",
        "radius,texture,answer\n",
    ],
)
def test_bad_test_tables_are_one_error(table, tmp_path, capsys, content, snapshot):
    (tmp_path / "test.csv").write_text(content)
    words = [table, "--label", "answer", "--test", tmp_path / "test.csv", "-o", tmp_path / "out"]
    code, _, stderr = invoke(capsys, *words)
    assert code == 2
    assert stderr == snapshot
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"X_test": None},
        {"X_train": np.full((4, 2), np.nan)},
        {"X_train": np.full((4, 2), 1e300)},
        {"X_train": np.zeros((4, 3))},
        {"X_train": np.zeros((3, 2))},
        {"X_train": np.array([["a", "b"]] * 4)},
        {"X_train": np.array([[{}] * 2] * 4)},
        {"y_train": np.array([0, 1, 2_000_000_000, 1])},
        {"y_train": np.array([0, 10**6, 0, 1])},
        {"y_train": np.array([0, 32_768, 0, 1])},
        {"y_train": np.array(1)},
        {"y_train": np.array([0, 1, 1, 0.5])},
        {"y_train": np.zeros(4, dtype=int)},
        {"y_test": np.array([0, 1, 2, 1])},
        {"X_test": np.zeros((0, 2)), "y_test": np.zeros(0)},
    ],
)
def test_bad_arrays_are_one_error(tmp_path, capsys, changes, snapshot):
    X, y = np.arange(8.0).reshape(4, 2), np.array([0, 1, 1, 0])
    given = {"X_train": X, "y_train": y, "X_test": X, "y_test": y} | changes
    path = tmp_path / "data.npz"
    np.savez(path, **{name: value for name, value in given.items() if value is not None})
    code, _, stderr = invoke(capsys, path, "-o", tmp_path / "out")
    assert code == 2
    assert stderr == snapshot
    assert stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def changed(place, value):
    X = np.arange(40.0).reshape(20, 2)
    X[place] = value
    return X


@pytest.mark.parametrize(
    "changes",
    [
        {"y": np.array(1)},
        {"X": np.array(1.0)},
        {"X": changed((7, 1), np.nan)},
        {"X": changed((17, 0), np.inf)},
        {"X": np.full((20, 2), "a")},
        {"X": np.zeros((0, 2)), "y": np.zeros(0)},
        {"X": np.zeros((20, 2))},
        {"y": np.arange(19) % 2},
        {"y": np.where(np.arange(20) == 13, 0.5, 1)},
        {"y": np.arange(20) * 10**8},
        {"X": None},
    ],
)
def test_bad_arrays_to_hold_a_share_of_out_are_one_error_that_names_rows_of_the_file(
    tmp_path, capsys, changes, snapshot
):
    given = {"X": changed((0, 0), 0.0), "y": np.arange(20) % 2} | changes
    path = tmp_path / "data.npz"
    np.savez(path, **{name: value for name, value in given.items() if value is not None})
    words = [path, "--test-share", "0.3", "-o", tmp_path / "out"]
    code, _, stderr = invoke(capsys, *words)
    assert code == 2
    assert stderr == snapshot
    assert stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_held_out_row_whose_label_is_none_of_them_is_named_as_in_the_file(
    tmp_path, capsys, snapshot
):
    X, y = changed((0, 0), 0.0), np.arange(20) % 2
    path = tmp_path / "data.npz"
    held = int(np.flatnonzero(held_out(array_keys(X), 0.3))[-1])
    y[held] = 7
    np.savez(path, X=X, y=y)
    code, _, stderr = invoke(capsys, path, "--test-share", "0.3", "-o", tmp_path / "out")
    assert code == 2
    assert stderr == snapshot
    assert f"{held}" in stderr


def test_labels_far_apart_are_fine_once_they_are_named(tmp_path, capsys):
    X, y = changed((0, 0), 0.0), np.where(np.arange(20) % 2, 10**6, 5)
    path = tmp_path / "data.npz"
    np.savez(path, X=X, y=y)
    words = [path, "--test-share", "0.3", "--labels", "5,1000000", "--parts", 2, "--workers", 1]
    words += ["--learner", "GaussianNB", "--no-onnx", "-o", tmp_path / "out"]
    assert invoke(capsys, *words)[0] == 0
    assert read_ballots(tmp_path / "out" / "ballots.npz").labels == 2


def test_more_labels_than_ballots_hold_are_refused_before_training(tmp_path, capsys, snapshot):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n" + "".join(f"{i},x{i}\n" for i in range(33_000)))
    words = [path, "--label", "b", "--test-share", "0.3", "-o", tmp_path / "out"]
    code, _, stderr = invoke(capsys, *words)
    assert code == 2
    assert stderr == snapshot
    assert stderr.count("\n") == 1
