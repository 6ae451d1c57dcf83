"""Trees of libraries without a row each: trained, stored, guarded, bounded."""

from __future__ import annotations

import csv
import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import leaveout
from leaveout.errors import TrainingError, TreesError
from leaveout.kernel.claims.check import claim_lines
from leaveout.kernel.files import digest_of
from leaveout.models.archive import read_arrays, write_archive
from leaveout.models.boosting.training import MEMBERS, Settings, leave_one_out, train_trees
from leaveout.models.reading import Reading
from leaveout.models.trees.family import TreeFamily, read_tree_family
from leaveout.models.trees.reading import read_trees
from leaveout.verifier import verify
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import app
from leaveout.verifier.guard.loading import load_subject
from leaveout.verifier.row_records import RowsError

LEARNERS = ("hist", "lightgbm", "xgboost")


def rows(count: int, seed: int = 0, labels: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(count, 3)), 1)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=count) > 0).astype(int)
    if labels > 2:
        y += (X[:, 1] > 0.5).astype(int)
    return X, y


def write_table(path: Path, X: np.ndarray, y: np.ndarray) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(f"c{i}" for i in range(X.shape[1])), "outcome"])
        writer.writerows([*row, ("bad", "good", "best")[label]] for row, label in zip(X, y))
    return path


@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("learner", LEARNERS)
def test_members_are_what_the_library_trains_without_a_row(tmp_path, learner, labels):
    X, y = rows(60, labels=labels)
    settings = Settings(learner, trees=5, leaves=4)
    table = write_table(tmp_path / "rows.csv", X, y)
    report = train_trees(
        table, tmp_path / "out", label="outcome", settings=settings, members=8, workers=1
    )
    whole = read_trees(tmp_path / "out" / "trees.npz")
    family = read_tree_family(
        tmp_path / "out" / MEMBERS, whole, digest_of(tmp_path / "out" / "trees.npz")
    )
    assert (len(family), family.rows, report.family.rows) == (8, 60, 60)
    # The table's labels are numbered in the order of their names.
    names = sorted({("bad", "good", "best")[label] for label in y})
    assert list(whole.labels) == names
    code = np.array([names.index(("bad", "good", "best")[label]) for label in y])
    probes = np.random.default_rng(1).normal(size=(300, 3))
    found, _ = family.labels(probes)
    for at in range(8):
        kept = np.arange(60) != at
        model = settings.fit(X[kept], code[kept])
        assert (found[:, at] == model.predict(probes)).all()
        assert (family.member(at).scores(probes) == family.scores(probes)[:, at]).all()


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_guard_reveals_no_label_that_a_member_changes(tmp_path, learner):
    X, y = rows(80)
    settings = Settings(learner, trees=8, leaves=4)
    train_trees(
        write_table(tmp_path / "rows.csv", X, y), tmp_path / "out", label="outcome",
        settings=settings, members=20, workers=1,
    )  # fmt: skip
    subject = load_subject(tmp_path / "out")
    models = [settings.fit(X, y)]
    models += [settings.fit(np.delete(X, at, 0), np.delete(y, at)) for at in range(20)]
    probes = np.random.default_rng(2).normal(size=(200, 3))
    answers = np.stack([model.predict(probes) for model in models])
    leaks = (answers != answers[0]).any(axis=0)
    assert 0 < leaks.sum() < 200
    found = subject.leaks.find_all(probes)
    assert [each.label for each in found] == answers[0].tolist()
    assert [each.leak for each in found] == leaks.tolist()
    assert [subject.leaks.find(x).leak for x in probes[:20]] == leaks[:20].tolist()


def test_results_have_no_rows_and_say_so(tmp_path):
    X, y = rows(30)
    train_trees(
        write_table(tmp_path / "rows.csv", X, y), tmp_path / "out", label="outcome",
        settings=Settings(LEARNERS[0], trees=3, leaves=3), members=3, workers=1,
    )  # fmt: skip
    with pytest.raises(RowsError, match="boosted trees are not bounded one by one"):
        leaveout.verify(tmp_path / "out" / "trees.spec", workers=1).rows()


def test_gaps_in_arrays_name_the_cure(tmp_path):
    X, y = rows(20)
    X[3, 1] = np.nan
    np.savez(tmp_path / "gaps.npz", X=X, y=y)
    with pytest.raises(TrainingError, match=r"row 3, column 1 is nan.* CSV and add --missing keep"):
        train_trees(tmp_path / "gaps.npz", tmp_path / "out", workers=1)


def test_a_guard_answers_missing_values_where_rows_had_some(tmp_path):
    X, y = rows(80)
    X[::5, 1] = np.nan

    def fit(X, y):
        return Settings(trees=6, leaves=4).fit(X, y)

    leave_one_out(fit, X, y, out=tmp_path / "out", members=10, workers=1)
    subject = load_subject(tmp_path / "out")
    x = np.array([0.3, np.nan, 1.0])
    other = x.copy()
    other.view(np.uint64)[1] |= 7  # another NaN
    assert np.isnan(other[1])
    assert other.tobytes() != x.tobytes()
    assert subject.domain.point(other).tobytes() == subject.domain.point(x).tobytes()
    assert subject.domain.contains(subject.domain.point(x))
    with pytest.raises(Exception, match="feature 0 is nan"):
        subject.domain.contains(subject.domain.point(np.array([np.nan, 1.0, 1.0])))
    text = (tmp_path / "out" / "trees.spec").read_text()
    assert "missing(" in text


def test_bounds_of_changed_answers_are_exact(tmp_path):
    X, y = rows(40)
    settings = Settings(trees=3, leaves=3, rate=0.5)
    train_trees(
        write_table(tmp_path / "rows.csv", X, y), tmp_path / "out", label="outcome",
        settings=settings, members=6, workers=1,
    )  # fmt: skip
    report = verify(tmp_path / "out" / "trees.spec")
    (result,) = report.results
    assert result.name == "bound"
    assert re.search(r"x = \(\w+ = .*T\(x\) answers \d \(\w+\)", result.example.words)
    whole = read_trees(tmp_path / "out" / "trees.npz")
    family = read_tree_family(
        tmp_path / "out" / MEMBERS, whole, digest_of(tmp_path / "out" / "trees.npz")
    )
    axes = []
    for at in range(3):
        own = [n.threshold[n.feature == at] for n in (whole.nodes, family.pool)]
        cuts = np.unique(np.concatenate(own))
        cuts = cuts[(cuts >= X[:, at].min()) & (cuts < X[:, at].max())]
        axes.append(np.append(cuts, X[:, at].max()))
    grid = np.array(list(itertools.product(*axes)))
    leaks = (family.labels(grid)[0] != whole.answers(grid)[:, None]).any(axis=1)
    truth = np.abs(whole.scores(grid)[leaks, 0]).max()
    assert result.verdict == "proved"
    assert result.lower <= truth <= result.upper
    (early,) = verify(tmp_path / "out" / "trees.spec", time=1e-3).results
    assert early.verdict == "unknown"
    assert truth <= early.upper <= np.abs(whole.scores(grid)[:, 0]).max() * 1.5
    assert result.example.removed == {"M": result.example.members["M"]}


@pytest.mark.parametrize("learner", LEARNERS)
def test_gaps_of_a_table_stay_gaps(tmp_path, learner):
    X, y = rows(80)
    cells = X.astype(object)
    cells[::5, 1], cells[::7, 2] = "", "NA"
    cells[:, 0] = ["" if x == 0 else "low" if x < 0 else "high" for x in X[:, 0]]
    command = ["trees", "train", str(write_table(tmp_path / "rows.csv", cells, y))]
    command += ["--label", "outcome", "-o", str(tmp_path / "out"), "--learner", learner]
    command += ["--trees", "5", "--leaves", "4", "--members", "6", "--workers", "1"]
    assert "add --missing keep" in str(CliRunner().invoke(app, command).exception)
    done = CliRunner().invoke(app, [*command, "--missing", "keep"])
    assert done.exit_code == 0, done.output
    subject = load_subject(tmp_path / "out")
    Z = np.column_stack([X[:, 0] == 0, X[:, 0] > 0, X[:, 0] < 0, X[:, 1:]]).astype(float)
    Z[::5, 3] = Z[::7, 4] = np.nan
    told = [dict(zip(("c0", "c1", "c2"), each)) for each in cells]
    found = subject.encode(told)
    np.testing.assert_array_equal(found, Z)
    settings = Settings(learner, trees=5, leaves=4)
    models = [settings.fit(Z, y)]
    models += [settings.fit(np.delete(Z, at, 0), np.delete(y, at)) for at in range(6)]
    answers = np.stack([model.predict(Z) for model in models])
    leaks = (answers != answers[0]).any(axis=0)
    assert [each.label for each in subject.leaks.find_all(found)] == answers[0].tolist()
    assert [each.leak for each in subject.leaks.find_all(found)] == leaks.tolist()
    assert "missing(X2, at = [3, 4])" in (tmp_path / "out" / "trees.spec").read_text()
    (result,) = verify(tmp_path / "out" / "trees.spec", time=20).results
    assert result.verdict in {"proved", "unknown"}
    with pytest.raises(TrainingError, match="column 'c0': 'none' is not a category"):
        subject.encode([{**told[0], "c0": "none"}])


def test_other_models_keep_no_gaps(tmp_path):
    X, y = rows(30)
    cells = X.astype(object)
    cells[3, 1] = ""
    table = str(write_table(tmp_path / "rows.csv", cells, y))
    for command in ("forest", "linear"):
        given = [command, "train", table, "--label", "outcome", "-o", str(tmp_path / "out")]
        done = CliRunner().invoke(app, [*given, "--missing", "c1=keep"])
        assert "only boosted trees (leaveout trees train) read gaps" in str(done.exception)


def test_training_that_differs_each_time_is_refused(tmp_path):
    X, y = rows(60)
    seeds = itertools.count()

    def fit(X, y):
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(3, random_state=next(seeds), n_jobs=1).fit(X, y)

    with pytest.raises(TreesError, match="two trainings on the same rows give two models"):
        leave_one_out(fit, X, y, out=tmp_path / "out", members=2, workers=1)
    assert not (tmp_path / "out").exists()


def test_a_function_that_returns_trees_is_told_from_one_that_returns_a_network(tmp_path):
    X, y = rows(60)

    def fit(X, y, seed):
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(3, max_depth=3, random_state=seed, n_jobs=1).fit(X, y)

    report = leaveout.leave_one_out(fit, X, y, out=tmp_path / "out", members=3, workers=1)
    assert len(report.family) == 3
    (result,) = verify(tmp_path / "out" / "trees.spec").results
    assert result.verdict in {"proved", "unknown"}


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("starts", lambda a: a[:-1], "not one entry a member"),
        ("trees", lambda a: a + 1000, "a tree that does not exist"),
        ("feature", lambda a: a[:-1], "as many values as leaves"),
        ("feature", lambda a: np.where(a >= 0, 77, a).astype(a.dtype), "does not exist"),
        ("threshold", lambda a: a[:-1], "not one entry a question"),
        ("base", lambda a: a * np.nan, "not finite"),
        ("removed", lambda a: a * 0, "the same row"),
        ("values", lambda a: a[:, :0], "has the wrong shape"),
    ],
)
def test_damaged_members_are_refused(tmp_path, name, change, said):
    X, y = rows(40)
    train_trees(
        write_table(tmp_path / "rows.csv", X, y), tmp_path / "out", label="outcome",
        settings=Settings(trees=2, leaves=3), members=3, workers=1,
    )  # fmt: skip
    path = tmp_path / "out" / MEMBERS
    arrays = read_arrays(path)
    arrays[name] = change(arrays[name])
    write_archive(path, arrays, TreesError)
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "out" / "trees.spec")])
    with pytest.raises(TreesError) as refused:
        read_tree_family(
            path, read_trees(tmp_path / "out" / "trees.npz"),
            digest_of(tmp_path / "out" / "trees.npz"),
        )  # fmt: skip
    assert said in str(refused.value)
    assert done.exit_code != 0


def test_members_of_another_model_are_refused(tmp_path):
    X, y = rows(40)
    for name, trees in (("one", 2), ("two", 3)):
        train_trees(
            write_table(tmp_path / "rows.csv", X, y), tmp_path / name, label="outcome",
            settings=Settings(trees=trees, leaves=3), members=3, workers=1,
        )  # fmt: skip
    (tmp_path / "one" / MEMBERS).write_bytes((tmp_path / "two" / MEMBERS).read_bytes())
    with pytest.raises(Exception, match="is of another model"):
        load_subject(tmp_path / "one")


def test_two_processes_train_the_members_of_one(tmp_path):
    X, y = rows(60)
    table = write_table(tmp_path / "rows.csv", X, y)
    for name, workers in (("one", 1), ("two", 2)):
        train_trees(
            table, tmp_path / name, label="outcome", settings=Settings(trees=3, leaves=4),
            sample=6, workers=workers,
        )  # fmt: skip
    files = [sorted(each.name for each in (tmp_path / name).iterdir()) for name in ("one", "two")]
    assert files[0] == files[1] == ["members.npz", "trees.json", "trees.npz", "trees.spec"]
    for name in files[0]:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_function_may_read_missing_values(tmp_path):
    from sklearn.ensemble import HistGradientBoostingClassifier

    X, y = rows(40)
    X[::7, 1] = np.nan

    def fit(X, y):
        return HistGradientBoostingClassifier(
            max_iter=2, max_leaf_nodes=3, min_samples_leaf=3, early_stopping=False
        ).fit(X, y)

    report = leaveout.leave_one_out(fit, X, y, out=tmp_path / "out", members=2, workers=1)
    assert report.family.missing == (1,)


def test_a_process_that_ends_on_its_own_is_told(tmp_path):
    X, y = rows(40)

    def fit(X, y):
        import os

        from sklearn.ensemble import HistGradientBoostingClassifier

        if len(X) == 39:
            os._exit(1)
        return HistGradientBoostingClassifier(max_iter=1, early_stopping=False).fit(X, y)

    with pytest.raises(TreesError, match="ended on its own"):
        leave_one_out(fit, X, y, out=tmp_path / "out", members=3, workers=2)


def test_a_script_needs_no_guard_against_being_loaded_again(tmp_path):
    (tmp_path / "script.py").write_text(
        "import numpy as np\n"
        "from sklearn.ensemble import RandomForestClassifier\n"
        "import leaveout\n"
        "TREES = 3\n"
        "def fit(X, y):\n"
        "    model = RandomForestClassifier(TREES, max_depth=3, random_state=0, n_jobs=1)\n"
        "    return model.fit(X, y)\n"
        "X = np.arange(120.0).reshape(40, 3)\n"
        "report = leaveout.leave_one_out(fit, X, X[:, 0] % 2, out='out', sample=4, workers=2)\n"
        "print(len(report.family))\n"
    )
    run = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "4\n"


def test_what_fails_in_a_process_that_trains_is_told(tmp_path):
    X, y = rows(40)

    def fit(X, y):
        from sklearn.ensemble import HistGradientBoostingClassifier

        if len(X) == 39:
            raise ValueError("too few")
        return HistGradientBoostingClassifier(max_iter=1, early_stopping=False).fit(X, y)

    with pytest.raises(TreesError, match="fit failed on the rows without 0: ValueError: too few"):
        leave_one_out(fit, X, y, out=tmp_path / "out", members=1, workers=1)
    with pytest.raises(
        TreesError, match=r"fit failed on the rows without \d+: ValueError: too few"
    ):
        leave_one_out(fit, X, y, out=tmp_path / "out", members=3, workers=2)


@pytest.fixture(scope="module")
def proved_folder(tmp_path_factory):
    """Return a folder of evidence about a member that answers otherwise."""
    folder = tmp_path_factory.mktemp("evidence")
    X, y = rows(60)
    table = write_table(folder / "rows.csv", X, y)
    settings = Settings("hist", trees=3, leaves=4)
    train_trees(table, folder / "out", label="outcome", settings=settings, members=6, workers=1)
    spec = folder / "out" / "s.spec"
    spec.write_text(
        'let T = trees("trees.npz")\nlet F = members("members.npz")\nlet X = box(-2, 2)\n'
        "guarantee g: forall x in X, M in F: difference(T, M, x) <= 0.001\n"
        "find e: least b such that forall x in X, M in F: difference(T, M, x) <= b\n"
    )
    evidence = folder / "out" / "evidence"
    ran = CliRunner().invoke(app, ["verify", str(spec), "--evidence", str(evidence)])
    assert ran.exit_code == 1, ran.output
    return evidence


def forge(evidence, copy, change):
    """Change the results, and the digests and numbers of the attestation with them."""
    shutil.copytree(evidence, copy)
    result, said = copy / "result.json", copy / "attestation.json"
    text, digest = result.read_text(), digest_of(result)
    for old, new in change(json.loads(text)):
        text = text.replace(old, new)
        said.write_text(said.read_text().replace(old, new))
    result.write_text(text)
    said.write_text(said.read_text().replace(digest, digest_of(result)))
    return CliRunner().invoke(app, ["check", str(copy), "--files", str(evidence.parent)])


def test_honest_evidence_is_accepted(proved_folder):
    ran = forge(proved_folder, proved_folder.parent / "same", lambda found: [])
    assert ran.exit_code == 0
    assert "2 of 2 results proved again" in ran.output


def test_forged_scores_and_labels_of_an_example_are_refused(proved_folder):
    def forge_first(kind):
        def change(found):
            example = next(each["example"] for each in found["results"] if each["name"] == name)
            old = json.dumps(example, indent=2)
            scores, labels = example["scores"], example["labels"]
            if kind == "scores":
                scores["M(x)"] = [each + 1e-9 for each in scores["M(x)"]]
            elif kind == "labels":
                labels["M(x)"] = 1 - labels["M(x)"]
            else:
                del labels["M(x)"]
            return [(shifted(old), shifted(json.dumps(example, indent=2)))]

        return change

    def shifted(text):
        return text.replace("\n", "\n      ")

    for name in ("g", "e"):
        for kind in ("scores", "labels", "no label"):
            target = proved_folder.parent / f"{name} {kind}"
            ran = forge(proved_folder, target, forge_first(kind))
            assert (target / "result.json").read_bytes() != (
                proved_folder / "result.json"
            ).read_bytes()
            assert ran.exit_code == 1, ran.output
            assert f"has {kind.split()[-1].rstrip('s')}s" in str(ran.exception)


def test_only_members_that_are_searched_are_taken(tmp_path, monkeypatch):
    X, y = rows(60)
    table = write_table(tmp_path / "rows.csv", X, y)
    settings = Settings("hist", trees=3, leaves=4)
    train_trees(table, tmp_path / "out", label="outcome", settings=settings, members=6, workers=1)
    spec = tmp_path / "out" / "s.spec"
    spec.write_text(
        'let T = trees("trees.npz")\nlet F = members("members.npz")\nlet X = box(-2, 2)\n'
        "guarantee g: forall x in X, M in F: score(M, x) <= score(M, x) - 1\n"
    )
    taken, take = set(), TreeFamily.member

    def note(self, index):
        taken.add(index)
        return take(self, index)

    monkeypatch.setattr(TreeFamily, "member", note)
    (result,) = verify(spec).results
    assert result.verdict == "refuted"
    assert len(taken) == 1


def test_claims_alike_but_for_the_member_are_told_once(tmp_path):
    X, y = rows(60)
    table = write_table(tmp_path / "rows.csv", X, y)
    settings = Settings("hist", trees=3, leaves=4)
    train_trees(table, tmp_path / "out", label="outcome", settings=settings, members=5, workers=1)
    spec, target = tmp_path / "out" / "s.spec", tmp_path / "s.cert"
    spec.write_text(
        'let T = trees("trees.npz")\nlet F = members("members.npz")\nlet X = box(-2, 2)\n'
        "find e: least b such that forall x in X, M in F: difference(T, M, x) <= b\n"
    )
    verify(spec, certificate=target)
    found = check(target)
    assert [each.name for each in found] == [f"e, member {at}" for at in range(5)]
    text = "\n".join(claim_lines(found))
    assert text.count("for all x and members M") == text.count("trees N is") == 1
    assert "M is any of the 5 members" in text
    assert f"is at most {max(each.upper for each in found)!r}" in text
    some = "\n".join(claim_lines([found[0], found[1], found[3]]))
    assert "M is any with a number in 0-1, 3, counted from 0, of the 5 members" in some
    (only,) = (line for line in claim_lines(found[2:3]) if line.startswith("M["))
    assert only.startswith("M[2] is number 2, counted from 0, of the 5 members")


def test_another_member_refutes_nothing(proved_folder):
    def change(found):
        member = found["results"][0]["example"]["members"]["M"]
        return [(f'"M": {member}\n', '"M": 99\n')]

    ran = forge(proved_folder, proved_folder.parent / "member", change)
    assert ran.exit_code == 3, ran.output
    assert "g: refuted; not in the certificate" in ran.output


def test_a_bound_below_that_of_the_certificate_is_not_proved(proved_folder):
    def change(found):
        (result,) = (each for each in found["results"] if each["name"] == "e")
        return [(json.dumps(result[end]), json.dumps(result[end] * 0.995))
                for end in ("lower", "upper")]  # fmt: skip

    ran = forge(proved_folder, proved_folder.parent / "bound", change)
    assert ran.exit_code == 3, ran.output
    assert "1 of 2 results proved again" in ran.output


def test_a_statement_about_members_alone_is_proved_again(proved_folder):
    folder = proved_folder.parent
    (folder / "alone.spec").write_text(
        'let T = trees("trees.npz")\nlet F = members("members.npz")\n'
        "guarantee g: forall x in box(-2, 2), M in F: score(M, x) <= 9\n"
    )
    target = folder / "alone"
    ran = CliRunner().invoke(app, ["verify", str(folder / "alone.spec"), "--evidence", str(target)])
    assert ran.exit_code == 0, ran.output
    ran = CliRunner().invoke(app, ["check", str(target), "--files", str(folder)])
    assert "1 of 1 results proved again" in ran.output


def test_what_a_member_lacks_is_called_by_its_own_name(tmp_path):
    X, y = rows(60)
    # The places of groups in their sorted names, and of rows among those kept, are not the file's.
    X, y, people = X[::-1], y[::-1], [f"P-{at // 2:02}" for at in range(60)][::-1]
    table = write_table(tmp_path / "rows.csv", X, y)
    head, *lines = table.read_text().splitlines()
    grouped = [f"{head},person", *(f"{row},{who}" for row, who in zip(lines, people))]
    gaps = [head, *(f",{row.partition(',')[2]}" if at < 3 else row for at, row in enumerate(lines))]
    said = {}
    for name, content, how in (
        ("grouped", grouped, Reading(group="person")),
        ("dropped", gaps, Reading(missing=("drop",))),
    ):
        (tmp_path / f"{name}.csv").write_text("\n".join(content) + "\n")
        folder = tmp_path / name
        train_trees(
            tmp_path / f"{name}.csv", folder, label="outcome", reading=how, members=1, workers=1,
            settings=Settings("lightgbm", trees=5, leaves=4),
        )  # fmt: skip
        inputs, _, _ = (folder / "trees.spec").read_text().partition("find ")
        ask = "find most: least b such that forall x in X, M in F: difference(T, M, x) <= b\n"
        (folder / "apart.spec").write_text(inputs + ask)
        report = verify(folder / "apart.spec")
        (result,) = report.results
        said[name] = result.example.words[result.example.words.index("M lacks") :], report.notes
    members = "training rows have a member; nothing is claimed about the others"
    assert said["grouped"] == (
        "M lacks P-00 (row 0))",
        (
            "'row' means all rows with the same 'person', which leave together",
            f"only 1 of 30 {members}",
        ),
    )
    assert said["dropped"] == ("M lacks line 5 (row 0))", (f"only 1 of 57 {members}",))
