"""The table that ``leaveout partition`` prints: what a reader takes from it."""

from __future__ import annotations

import numpy as np
import pytest

from leaveout.models.votes import read_ballots

from support.counted import finite_published, plurality_radii, tally
from support.parts import invoke
from support.snapshots import passages


def bank(path, yes, no, test_yes, test_no, names=("no", "yes")):
    """Write rows of which a few say yes, which one number shows, and as many to test on."""
    rng = np.random.default_rng(1)
    for name, counts in (("train.csv", (no, yes)), ("test.csv", (test_no, test_yes))):
        lines = ["balance,said"]
        for label, count in enumerate(counts):
            lines += [f"{rng.random() + label},{names[label]}" for _ in range(count)]
        (path / name).write_text("\n".join(lines) + "\n")
    words = [path / "train.csv", "--label", "said", "--test", path / "test.csv", "--no-onnx"]
    return [*words, "--workers", 1, "--labels", ",".join(names)]


def cells(stdout, label):
    (line,) = (line for line in stdout.splitlines() if line.startswith(label + " "))
    return line.removeprefix(label).split()


def test_an_ensemble_that_never_answers_a_label_is_not_called_accurate(tmp_path, capsys, snapshot):
    words = bank(tmp_path, yes=30, no=1_000, test_yes=11, test_no=89)
    words += ["--parts", 60, "--learner", "DecisionTreeClassifier", "--set", "min_samples_leaf=9"]
    code, stdout, stderr = invoke(capsys, *words, "-o", tmp_path / "o")
    assert (code, stderr) == (0, "")
    assert passages(stdout, "89.00%", "100.00%") == snapshot
    assert "ensemble        89.00%\n" in stdout
    assert cells(stdout, "no")[:3] == ["89", "100.0%", "100.0%"]
    assert cells(stdout, "yes") == ["11", *["0.0%"] * len(cells(stdout, "no")[1:])]
    text = " ".join(stdout.split())
    assert text == snapshot
    assert read_ballots(tmp_path / "o" / "ballots.npz").origin.undefended_right == 100


@pytest.mark.parametrize(
    "method", ["dpa", "ss_dpa", "finite_aggregation", "hash_bagging", "boosted"]
)
def test_each_label_has_a_row_of_what_is_right_and_what_is_certified(tmp_path, capsys, method):
    words = bank(tmp_path, yes=150, no=300, test_yes=40, test_no=60)
    words += ["--method", method, "--parts", 20, "--learner", "GaussianNB", "--no-undefended"]
    code, stdout, _ = invoke(capsys, *words, "-o", tmp_path / "o")
    assert code == 0
    assert "undefended" not in stdout
    ballots = read_ballots(tmp_path / "o" / "ballots.npz")
    assert ballots.origin.undefended_right is None
    tallied = tally(ballots.votes, 2)
    radii = plurality_radii(tallied)
    if method == "finite_aggregation":
        radii = finite_published(ballots.votes, 2, np.array(ballots.origin.offsets))
    if method == "hash_bagging":
        radii = radii // len(ballots.origin.families)
    radii = np.where(tallied.predictions == ballots.truth, radii, -1)
    unit = "relabels" if method == "ss_dpa" else "edits"
    assert f"1 {unit[:-1]} " in stdout
    middle = max(r for r in range(21) if (radii >= r).mean() >= 0.5)
    counts = sorted({1, 2, middle})
    assert f"{middle} {unit}" in stdout
    for label, name in enumerate(("no", "yes")):
        own = radii[ballots.truth == label]
        shares = [f"{(own >= count).sum() * 1000 // len(own) / 10:.1f}%" for count in (0, *counts)]
        assert cells(stdout, name) == [str(len(own)), *shares]


def test_labels_without_rows_and_long_names_are_shown_within_eighty_columns(
    tmp_path, capsys, snapshot
):
    names = ("a" * 60, "b c\td" * 9)
    words = bank(tmp_path, yes=300, no=300, test_yes=0, test_no=1_000_0, names=names)
    words[-1] += ",never seen"
    words += ["--parts", 30, "--learner", "GaussianNB"]
    code, stdout, _ = invoke(capsys, *words, "-o", tmp_path / "o")
    assert code == 0
    table = stdout[: stdout.index("files")]
    assert max(map(len, table.splitlines())) <= 80
    assert cells(stdout, "a" * 21 + "...")[0] == "10,000"
    assert set(cells(stdout, "never seen")) == {"0", "-"}
    text = " ".join(stdout.split())
    assert text == snapshot
    assert "majority 100.00%" in text


def test_parts_that_learn_little_are_told_of(tmp_path, capsys, snapshot):
    words = bank(tmp_path, yes=20, no=60, test_yes=5, test_no=5)
    code, stdout, _ = invoke(capsys, *words, "--parts", 50, "-o", tmp_path / "o")
    assert code == 0
    text = " ".join(stdout.split())
    sizes = read_ballots(tmp_path / "o" / "ballots.npz").origin.sizes
    small = sum(0 < size < 10 for size in sizes)
    assert text == snapshot
    assert f"{sizes.count(0)}" in text
    assert f"{small}" in text
    assert text.count("have no rows") == 1


def test_only_the_labels_answered_worst_are_shown_of_many(tmp_path, capsys, snapshot):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(30), 40)
    X = y[:, None] + rng.normal(0, np.where(y < 15, 0.01, 2))[:, None]
    np.savez(tmp_path / "d.npz", X_train=X, y_train=y, X_test=X[::4], y_test=y[::4])
    words = [tmp_path / "d.npz", "--parts", 5, "--learner", "GaussianNB", "--workers", 1]
    code, stdout, _ = invoke(capsys, *words, "--no-onnx", "-o", tmp_path / "o")
    assert code == 0
    assert passages(stdout, "10") == snapshot
    shown = {int(line.split()[0]) for line in stdout.splitlines() if "%" in line and line[0] < "a"}
    assert len(shown) == 20
    assert shown > set(range(15, 30))


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_labels_that_hardly_any_two_rows_share_are_refused(tmp_path, capsys, kind, snapshot):
    ages = np.random.default_rng(0).integers(100, 400, 500)
    words = [tmp_path / f"d.{kind}", "--test-share", 0.3, "-o", tmp_path / "o"]
    if kind == "csv":
        lines = "".join(f"{i},{age}\n" for i, age in enumerate(ages))
        (tmp_path / "d.csv").write_text("x,age\n" + lines)
        words += ["--label", "age"]
    else:
        np.savez(tmp_path / "d.npz", X=np.arange(500.0)[:, None], y=ages)
    code, _, stderr = invoke(capsys, *words)
    assert code == 2
    assert stderr == snapshot
    assert stderr.count("\n") == 1
    assert not (tmp_path / "o").exists()
