"""The command ``leaveout partition``: flags in, files and a table out, or one error."""

from __future__ import annotations

import csv
import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from leaveout.models.votes import (
    PartitionInterruptedError,
    output,
    partition,
    partitioning,
    read_ballots,
)
from leaveout.models.votes.hashing import array_keys, held_out
from leaveout.verifier.cli.app import run


@pytest.fixture
def arrays(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    path = tmp_path / "cancer.npz"
    np.savez(path, X_train=X[:300], y_train=y[:300], X_test=X[300:], y_test=y[300:])
    return path


@pytest.fixture
def table(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    path = tmp_path / "cancer.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["radius", "texture", "answer"])
        writer.writerows([a, b, ["bad", "good"][label]] for (a, b), label in zip(X[:, :2], y))
    return path


def invoke(capsys, *words):
    code = run(["partition", *map(str, words)])
    return code, *capsys.readouterr()


def test_it_trains_and_says_what_comes_next(arrays, tmp_path, capsys):
    out = tmp_path / "out"
    words = [arrays, "--parts", 9, "--workers", 1, "-o", out]
    words += ["--learner", "LogisticRegression", "--scale", "--set", "C=0.5"]
    code, stdout, stderr = invoke(capsys, *words)
    assert (code, stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in stdout.splitlines() if line[:1] > " ")
    assert (lines["members"], lines["labels"]) == ("9", "2")
    assert "rows            300\n" in stdout
    assert lines["next"] == f"leaveout verify {out / 'poisoning.spec'}"
    assert "median" in stdout
    assert "base accuracy" in stdout

    ballots = read_ballots(out / "ballots.npz")
    assert (ballots.points, ballots.parts) == (269, 9)
    assert ballots.scores is not None
    assert f"base accuracy   {(ballots.votes == ballots.truth[:, None]).mean():.2%}" in stdout
    origin = ballots.origin
    assert origin.learner == "StandardScaler() within the part, LogisticRegression(C=0.5)"
    assert (origin.method, origin.hash_reads_label, origin.seed) == ("dpa", False, 0)
    assert sum(origin.sizes) == 300
    assert any(version.startswith("scikit-learn ") for version in origin.versions)
    assert any(not each.checked and "values are taken" in each.text for each in origin.assumptions)
    assert all(each.text for each in origin.assumptions)

    with (out / "parts.csv").open() as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["row", "parts"]
    assert [row[0] for row in rows[1:]] == [str(row) for row in range(300)]
    counts = np.bincount([int(row[1]) for row in rows[1:]], minlength=9)
    assert tuple(counts) == origin.sizes
    assert len(list((out / "models").iterdir())) == 9
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--parts", 20], ["dpa(V), edits = 2) >= 0.5", "dpa(V), edits = r) >= 0.5"]),
        (["--parts", 3], ["dpa(V), edits = 1) >= 0.5"]),
        (["--method", "ss_dpa"], ["ss_dpa(V), relabels = 5)", "ss_dpa(V), relabels = r)"]),
        (
            ["--method", "finite_aggregation", "--parts", 10],
            ["finite_aggregation(V), edits = 1)", "finite_aggregation(V), edits = r)"],
        ),
    ],
)
def test_the_specification_asks_of_the_change_that_the_method_is_about(
    arrays, tmp_path, capsys, words, said
):
    out = tmp_path / "out"
    fast = ["--learner", "DecisionTreeClassifier", "--no-onnx", "--no-scores", "--workers", 1]
    code, stdout, stderr = invoke(capsys, arrays, *words, *fast, "-o", out)
    assert (code, stderr) == (0, "")
    text = (out / "poisoning.spec").read_text()
    assert 'let V = ballots("ballots.npz")' in text
    for part in said:
        assert part in text
    ballots = read_ballots(out / "ballots.npz")
    assert ballots.scores is None
    assert not (out / "models").exists()
    assert str(out / "models") not in stdout
    if "finite_aggregation" in words:
        assert ballots.parts == 40
        assert len(ballots.origin.offsets) == 4


def test_a_table_is_tested_on_another_one_or_on_a_share_of_its_rows(table, tmp_path, capsys):
    fast = ["--learner", "GaussianNB", "--no-onnx", "--parts", 5, "--workers", 1]
    code, _, _ = invoke(
        capsys, table, "--label", "answer", "--test-share", "0.25", *fast, "-o", tmp_path / "a"
    )
    assert code == 0
    held = read_ballots(tmp_path / "a" / "ballots.npz")
    assert 100 < held.points < 190
    assert held.points + sum(held.origin.sizes) == 569
    assert held.origin.label_names == ("bad", "good")
    words = [table, "--label", "answer", "--test", table, "--labels", "good,bad"]
    code, _, _ = invoke(capsys, *words, *fast, "-o", tmp_path / "b")
    assert code == 0
    other = read_ballots(tmp_path / "b" / "ballots.npz")
    assert (other.points, other.origin.label_names) == (569, ("good", "bad"))
    assert any("given beforehand" in a.text and a.checked for a in other.origin.assumptions)
    assert any("are those of" in a.text and not a.checked for a in held.origin.assumptions)


def test_arrays_without_a_test_part_are_tested_on_a_share_of_their_rows(tmp_path, capsys):
    X, y = load_breast_cancer(return_X_y=True)
    path = tmp_path / "data.npz"
    fast = ["--learner", "GaussianNB", "--no-onnx", "--parts", 5, "--workers", 1]
    contents = []
    for name, order in (("a", np.arange(569)), ("b", np.arange(569)[::-1])):
        np.savez(path, X=X[order], y=y[order])
        words = [path, "--test-share", "0.25", *fast, "-o", tmp_path / name]
        assert invoke(capsys, *words)[0] == 0
        contents.append((tmp_path / name / "ballots.npz").read_bytes())
    assert contents[0] == contents[1]
    ballots = read_ballots(tmp_path / "a" / "ballots.npz")
    assert ballots.points + sum(ballots.origin.sizes) == 569


def test_an_empty_directory_is_filled_where_it_is(arrays, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.chdir(out)
    before = out.stat().st_ino
    words = [arrays, "--learner", "GaussianNB", "--parts", 3, "--workers", 1, "-o", "."]
    assert invoke(capsys, *words)[0] == 0
    assert out.stat().st_ino == before
    names = {path.name for path in out.iterdir()}
    assert {"ballots.npz", "parts.csv", "poisoning.spec"} <= names
    assert {path.name for path in tmp_path.iterdir()} == {"out", "cancer.npz"}


def test_a_key_of_the_hash_deals_the_rows_out_anew_and_is_written_down(arrays, tmp_path, capsys):
    texts = []
    for key in ("", "salt"):
        out = tmp_path / f"out{key}"
        words = [arrays, "--learner", "GaussianNB", "--no-onnx", "--workers", 1, "--parts", 5]
        assert invoke(capsys, *words, "--hash-key", key, "-o", out)[0] == 0
        assert f"key {key!r})" in read_ballots(out / "ballots.npz").origin.hash
        texts.append((out / "parts.csv").read_text())
    assert texts[0] != texts[1]


def test_whether_a_row_is_held_out_depends_on_the_row_alone(table, tmp_path, capsys):
    from leaveout.models.votes import read_samples

    def tests(path):
        return set(read_samples(path, label="answer", test_share=0.25).keys)

    before = tests(table)
    lines = table.read_text().splitlines()
    half = tmp_path / "half.csv"
    half.write_text("\n".join([lines[0], *lines[:0:-2]]) + "\n")
    assert tests(half) < before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--parts", "1"], "--parts 1: expected at least 2"),
        (["--parts", "many"], "--parts"),
        (["--method", "bagging"], "--method bagging: expected one of dpa, boosted, ss_dpa"),
        (["--spread", "3"], "--spread 3 is of --method finite_aggregation"),
        (["--learner", "LogisticRegresion"], "did you mean 'LogisticRegression'?"),
        (["--set", "max_depth"], "--set max_depth: expected NAME=VALUE"),
        (["--set", "max_depth=2", "--set", "max_depth=3"], "'max_depth' is set twice"),
        (["--set", "depth=3"], "--set depth: RandomForestClassifier has no parameter 'depth'"),
        (["--set", "max_depth=-3"], "'max_depth' parameter"),
        (["--set", "PCA.n_components=3"], "'PCA' is none of --features (there are none)"),
        (["--epochs", "3"], "--epochs is of --learner torch"),
        (["--features", "PCA"], "--features are fitted on all samples"),
        (["--method", "ss_dpa", "--features", "PCAA"], "no transformer of that name (did you"),
        (["--method", "ss_dpa", "--features", "SelectFpr"], "it reads labels"),
        (["--method", "ss_dpa", "--features", "SelectKBest"], "cannot be fitted without labels"),
        (["--duplicates", "drop"], "--duplicates drop: expected refuse or merge"),
        (["--duplicates", "merge"], "--duplicates is of --method ss_dpa"),
        (["--labels", "0,0"], "--labels 0,0: a label is empty or there twice"),
        (["--labels", "0"], "there is no label but 0"),
        (["--labels", "a,b"], "--labels a,b: 'a' is not a label"),
        (["--labels", "0,2"], "'y_test' row 1: '1' is not one of the labels 0, 2"),
        (["--workers", "0"], "--workers 0"),
        (["--seed", "-1"], "--seed -1"),
        (["--label", "answer"], "drop --label"),
        (["--test", "x.csv"], "drop --test"),
        (["--test", "x.csv", "--test-share", "0.5"], "drop one"),
        (["--test-share", "0.5"], "has test rows in X_test already"),
        (["--test-share", "1.5"], "--test-share 1.5: expected a share in (0, 1)"),
    ],
)
def test_bad_flags_are_one_error_and_nothing_is_written(arrays, tmp_path, capsys, words, said):
    code, stdout, stderr = invoke(capsys, arrays, "-o", tmp_path / "out", "--workers", 1, *words)
    assert (code, stdout) == (2, "")
    assert said in stderr
    assert stderr.startswith("leaveout: ")
    assert stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cancer.npz"]


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


def test_names_that_are_no_text_are_written_as_far_as_they_are(table, tmp_path, capsys):
    strange = os.fsdecode(b"bad\xff")
    data, out = tmp_path / f"{strange}.csv", tmp_path / strange
    try:
        data.write_bytes(table.read_bytes())
    except OSError:
        pytest.skip("file names are text here")
    fast = ["--learner", "GaussianNB", "--no-onnx", "--parts", 3, "--workers", 1]
    words = [data, "--label", "answer", "--test-share", "0.25", *fast]
    code, stdout, stderr = invoke(capsys, *words, "-o", out)
    assert (code, stderr) == (0, "")
    assert "of bad\ufffd.csv can change" in (out / "poisoning.spec").read_text(encoding="utf-8")
    assumptions = read_ballots(out / "ballots.npz").origin.assumptions
    assert sum("bad\ufffd.csv" in each.text for each in assumptions) == 2
    assert "bad\ufffd/ballots.npz" in stdout
    for flag in ("--hash-key", "--labels"):
        code, _, stderr = invoke(capsys, *words, flag, f"good,{strange}", "-o", tmp_path / "new")
        assert code == 2
        assert "is not UTF-8 text" in stderr
        assert stderr.count("\n") == 1


def test_a_directory_that_cannot_be_made_is_refused_before_training(
    arrays, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(partitioning, "hold_election", lambda *a, **k: pytest.fail("it trained"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "circle").symlink_to("circle")
    before = set(tmp_path.iterdir())
    for given, said in (
        ("file/x", "file/x: cannot be made: file is not a directory"),
        ("file/x/y", "file/x/y: cannot be made: file is not a directory"),
        ("circle/x", "circle/x: "),
        ("new/" + "x" * 250, "x: cannot be written: File name too long"),
        ("new/" + "x" * 300 + "/y", "File name too long"),
        ("absent/..", "absent/..: the directory is not empty"),
        ("/proc/x", "/proc/x: cannot be written: "),
    ):
        code, stdout, stderr = invoke(capsys, arrays, "-o", given)
        assert (code, stdout) == (2, "")
        assert said in stderr
        assert stderr.count("\n") == 1
    assert set(tmp_path.iterdir()) == before


def test_a_directory_without_permission_is_refused_before_training(
    arrays, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(partitioning, "hold_election", lambda *a, **k: pytest.fail("it trained"))
    make = Path.mkdir

    def refuse(self, *arguments, **options):
        if self.resolve().parent == tmp_path / "theirs":
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        make(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path)
    for given in ("theirs", "theirs/x", "theirs/x/y"):
        code, _, stderr = invoke(capsys, arrays, "-o", given)
        assert code == 2
        assert f"leaveout: {given}: cannot be written: Permission denied; name" in stderr
        assert stderr.count("\n") == 1


def test_what_fails_while_writing_is_told_of_the_directory_as_given(
    arrays, tmp_path, capsys, monkeypatch
):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "/somewhere/else")

    monkeypatch.chdir(tmp_path)
    words = [arrays, "--learner", "GaussianNB", "--no-onnx", "--workers", 1, "--parts", 3]
    for name in ("_parts_text", "write_ballots"):
        for made in (False, True):
            monkeypatch.setattr(output, name, full)
            if made:
                (tmp_path / "out").mkdir()
            code, _, stderr = invoke(capsys, *words, "-o", "out")
            assert code == 2
            assert stderr.startswith("leaveout: out: cannot be written: No space left on device")
            if made:
                (tmp_path / "out").rmdir()
            assert [path.name for path in tmp_path.iterdir()] == ["cancer.npz"]
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)


def test_nothing_half_written_is_left_in_a_directory_that_was_there(arrays, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    rename = Path.rename

    def stop(self, target):
        if self.name == "ballots.npz":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", stop)
    with pytest.raises(PartitionInterruptedError):
        partition(arrays, out, workers=1, onnx=False)
    assert not list(out.iterdir())


def test_a_directory_that_holds_something_is_left_alone(arrays, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("mine")
    code, _, stderr = invoke(capsys, arrays, "-o", out)
    assert code == 2
    assert "is not empty; name another one" in stderr
    assert [path.name for path in out.iterdir()] == ["thesis.tex"]
    code, _, stderr = invoke(capsys, arrays, "-o", out / "thesis.tex")
    assert code == 2
    assert "is not a directory" in stderr
    code, _, stderr = invoke(capsys, tmp_path / "absent.npz", "-o", tmp_path / "new")
    assert code == 2
    assert "absent.npz: no such file" in stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_stopped_from_the_keyboard_it_leaves_nothing(arrays, tmp_path, workers):
    told = []

    def stop(done, members):
        told.append((done, members))
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(
        PartitionInterruptedError, match="interrupted; nothing was written"
    ) as caught:
        partition(arrays, tmp_path / "out", workers=workers, on_progress=stop)
    assert caught.value.exit_code == 130
    assert told == [(0, 51), (1, 51), (2, 51), (3, 51)]
    assert [path.name for path in tmp_path.iterdir()] == ["cancer.npz"]


def test_stopped_while_it_still_loads_it_says_so(arrays, tmp_path, capsys, monkeypatch):
    name = "leaveout.models.votes.settings"

    class Stop:
        def find_spec(self, wanted, path=None, target=None):
            if wanted == name:
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Stop(), *sys.meta_path])
    code, stdout, stderr = invoke(capsys, arrays, "-o", tmp_path / "out")
    assert (code, stdout) == (130, "")
    assert stderr == "leaveout: interrupted; nothing was written\n"


def test_the_help_teaches(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, stdout, _ = invoke(capsys, "--help")
    assert code == 0
    for word in ("--parts", "--method", "--spread", "--features", "relabel", "poisoning.spec"):
        assert word in stdout


def test_members_that_survive_changes_are_asked_for_by_flags(table, tmp_path, capsys):
    out, rows = tmp_path / "out", ["--label", "answer", "--test-share", "0.2", "--parts", 30]
    learner = ["--learner", "tree", "--set", "depth=1", "--survive", "relabels"]
    words = [table, *rows, *learner, "--exact-to", 1, "--workers", 1, "-o", out]
    code, _, stderr = invoke(capsys, *words)
    assert (code, stderr.count("\n")) == (2, 1)
    assert "say --encoding CSV" in stderr and not out.exists()
    code, stdout, stderr = invoke(capsys, *words, "--encoding", table)
    assert (code, stderr) == (0, "")
    assert "survive so many relabels within their part: 1:" in stdout
    assert "dpa(V, members = certified), relabels = 3" in (out / "poisoning.spec").read_text()
    origin = read_ballots(out / "ballots.npz").origin
    assert origin.learner == "tree(depth=1, leaf=1)"
    assert (origin.thresholds_against, origin.thresholds_exact_to) == ("relabels", 1)
    assert any(version.startswith("numba ") for version in origin.versions)


def test_arrays_take_no_encoding(arrays, table, tmp_path, capsys):
    code, _, stderr = invoke(capsys, arrays, "--encoding", table, "-o", tmp_path / "out")
    assert (code, stderr) == (2, f"leaveout: {arrays}: an NPZ is used as it is; drop --encoding\n")
