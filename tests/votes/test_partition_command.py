"""The command ``leaveout partition``: flags in, files and a table out, or one error."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from leaveout.models.votes import read_ballots

from support.parts import invoke
from support.snapshots import passages


def test_it_trains_and_says_what_comes_next(arrays, tmp_path, capsys, snapshot):
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
    assert stdout == snapshot

    ballots = read_ballots(out / "ballots.npz")
    assert (ballots.points, ballots.parts) == (269, 9)
    assert ballots.scores is not None
    assert f"{(ballots.votes == ballots.truth[:, None]).mean():.2%}" in stdout
    origin = ballots.origin
    assert origin.learner == "StandardScaler() within the part, LogisticRegression(C=0.5)"
    assert (origin.method, origin.hash_reads_label, origin.seed) == ("dpa", False, 0)
    assert sum(origin.sizes) == 300
    assert any(version.startswith("scikit-learn ") for version in origin.versions)
    assert any(
        not each.checked and "values are used unchanged" in each.text for each in origin.assumptions
    )
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
    assert any("fixed beforehand" in a.text and a.checked for a in other.origin.assumptions)
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


def test_a_key_of_the_hash_deals_the_rows_out_anew_and_is_written_down(
    arrays, tmp_path, capsys, snapshot
):
    texts = []
    for key in ("", "salt"):
        out = tmp_path / f"out{key}"
        words = [arrays, "--learner", "GaussianNB", "--no-onnx", "--workers", 1, "--parts", 5]
        assert invoke(capsys, *words, "--hash-key", key, "-o", out)[0] == 0
        assert read_ballots(out / "ballots.npz").origin.hash == snapshot
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
    "words",
    [
        ["--parts", "1"],
        ["--parts", "many"],
        ["--method", "bagging"],
        ["--spread", "3"],
        ["--learner", "LogisticRegresion"],
        ["--set", "max_depth"],
        ["--set", "max_depth=2", "--set", "max_depth=3"],
        ["--set", "depth=3"],
        ["--set", "max_depth=-3"],
        ["--set", "PCA.n_components=3"],
        ["--epochs", "3"],
        ["--features", "PCA"],
        ["--method", "ss_dpa", "--features", "PCAA"],
        ["--method", "ss_dpa", "--features", "SelectFpr"],
        ["--method", "ss_dpa", "--features", "SelectKBest"],
        ["--duplicates", "drop"],
        ["--duplicates", "merge"],
        ["--labels", "0,0"],
        ["--labels", "0"],
        ["--labels", "a,b"],
        ["--labels", "0,2"],
        ["--workers", "0"],
        ["--seed", "-1"],
        ["--label", "answer"],
        ["--test", "x.csv"],
        ["--test", "x.csv", "--test-share", "0.5"],
        ["--test-share", "0.5"],
        ["--test-share", "1.5"],
    ],
)
def test_bad_flags_are_one_error_and_nothing_is_written(arrays, tmp_path, capsys, words, snapshot):
    code, stdout, stderr = invoke(capsys, arrays, "-o", tmp_path / "out", "--workers", 1, *words)
    assert (code, stdout) == (2, "")
    assert stderr == snapshot
    assert stderr.startswith("leaveout: ")
    assert stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["cancer.npz"]


def test_the_help_teaches(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, stdout, _ = invoke(capsys, "--help")
    assert code == 0
    for word in ("--parts", "--method", "--spread", "--features", "relabel", "poisoning.spec"):
        assert word in stdout


def test_members_that_survive_changes_are_asked_for_by_flags(table, tmp_path, capsys, snapshot):
    out, rows = tmp_path / "out", ["--label", "answer", "--test-share", "0.2", "--parts", 30]
    learner = ["--learner", "tree", "--set", "depth=1", "--survive", "relabels"]
    words = [table, *rows, *learner, "--exact-to", 1, "--workers", 1, "-o", out]
    code, _, stderr = invoke(capsys, *words)
    assert (code, stderr.count("\n")) == (2, 1)
    assert stderr == snapshot
    assert not out.exists()
    code, stdout, stderr = invoke(capsys, *words, "--encoding", table)
    assert (code, stderr) == (0, "")
    assert passages(stdout, "1") == snapshot
    assert "dpa(V, members = certified), relabels = 3" in (out / "poisoning.spec").read_text()
    origin = read_ballots(out / "ballots.npz").origin
    assert origin.learner == "tree(depth=1, leaf=1)"
    assert (origin.thresholds_against, origin.thresholds_exact_to) == ("relabels", 1)
    assert any(version.startswith("numba ") for version in origin.versions)


def test_arrays_take_no_encoding(arrays, table, tmp_path, capsys):
    code, _, stderr = invoke(capsys, arrays, "--encoding", table, "-o", tmp_path / "out")
    assert (code, stderr) == (2, f"leaveout: {arrays}: an NPZ is used unchanged; drop --encoding\n")
