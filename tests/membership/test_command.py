"""The commands ``unlearn`` and ``audit``, and the claim about an audit: files in, words out."""

import json

import numpy as np
import onnx
import pytest

from leaveout.errors import AuditError
from leaveout.specs.deciders import Arguments
from leaveout.verifier.audits.membership import Events, Views, read_audit, write_audit
from leaveout.verifier.cli.app import run
from leaveout.verifier.values.subjects import audit as decider

from support import networks
from support.snapshots import passages

QUICK = ("--epochs", "4", "--batch", "20", "--rounds", "4", "--leader-steps", "1")


@pytest.fixture
def files(tmp_path):
    """A network of 5 features and 2 labels, and an NPZ that fits it."""
    rng = np.random.default_rng(0)
    onnx.save(networks.dense(rng, (5, 8, 2)), tmp_path / "n.onnx")
    X = rng.random((80, 5), dtype=np.float32)
    y = (X[:, 0] > 0.5).astype(int)
    np.savez(tmp_path / "d.npz", X_train=X[:50], y_train=y[:50], X_test=X[50:], y_test=y[50:])
    return tmp_path


def said(capsys, *words):
    code = run([str(word) for word in words])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def posteriors(rng, rows):
    return rng.dirichlet([1, 1], rows)


def views(rng, trials=12, rows=8):
    trial = np.repeat(np.arange(trials), 2 * rows)
    forgotten = np.tile(np.arange(2 * rows) < rows, trials)
    label = rng.integers(0, 2, len(trial))
    return Views(trial, forgotten, label, *(posteriors(rng, len(trial)) for _ in range(3)))


def test_unlearn_writes_a_network_and_a_record(files, capsys, snapshot):
    pytest.importorskip("torch")
    words = ("unlearn", files / "n.onnx", files / "d.npz", "--forget", "0.1", *QUICK)
    for name in ("a", "b"):
        code, out, err = said(capsys, *words, "--retrain", "2", "-o", files / name)
        assert code == 0, err
        assert "5 rows" in out
    for name in ("unlearned.onnx", "retrained_0.onnx", "retrained_1.onnx"):
        first, second = ((files / d / name).read_bytes() for d in ("a", "b"))
        assert first == second
        onnx.checker.check_model(onnx.load(files / "a" / name))
    record = json.loads((files / "a" / "unlearning.json").read_text())
    assert len(record["forgotten"]) == 5
    assert len(record["curves"]["follower"]) == record["game"]["rounds"] == 4
    assert record["retrained"] == [0, 1]
    assert sorted(path.name for path in (files / "a").iterdir()) == [
        "retrained_0.onnx",
        "retrained_1.onnx",
        "unlearned.onnx",
        "unlearning.json",
    ]
    code, _, err = said(capsys, *words, "-o", files / "a")
    assert code == 2
    assert err == snapshot


def test_unlearn_says_which_label_is_lost(files, capsys, snapshot):
    pytest.importorskip("torch")
    with np.load(files / "d.npz") as archive:
        ones = np.flatnonzero(archive["y_train"] == 1)
    (files / "rows.csv").write_text("row\n" + "\n".join(map(str, ones)))
    code, _, err = said(
        capsys,
        *("unlearn", files / "n.onnx", files / "d.npz", "--forget", files / "rows.csv"),
        *(*QUICK, "-o", files / "out"),
    )
    assert code == 0, err
    assert err == snapshot


def test_unlearn_forgets_a_class_and_shows_retraining_beside_it(files, capsys, snapshot):
    pytest.importorskip("torch")
    code, out, err = said(
        capsys,
        *("unlearn", files / "n.onnx", files / "d.npz", "--forget-class", "1"),
        *(*QUICK, "--retrain", "2", "-o", files / "out"),
    )
    assert code == 0, err
    assert err == snapshot
    record = json.loads((files / "out" / "unlearning.json").read_text())
    with np.load(files / "d.npz") as archive:
        assert record["forgotten"] == np.flatnonzero(archive["y_train"] == 1).tolist()
        judges = archive["y_test"]
    assert record["labels_lost"] == ["1"]
    assert len(record["retrained_accuracies"]) == 2
    for one in record["retrained_accuracies"]:
        assert (one["lost_labels"], one["other_labels"], one["retained"]) == (0, 1, 1)
        assert one["test"] == pytest.approx(np.mean(judges == 0), abs=0.35)
    lines = {line[:16].strip(): line[16:] for line in out.splitlines()}
    assert lines["on label 1"].endswith("retrained 0.00% of the test rows")
    assert lines["on the others"].endswith("retrained 100.00%")


def test_another_recipe_than_the_models_is_said(snapshot):
    from types import SimpleNamespace

    from leaveout.verifier.cli.unlearn import _other_recipe

    def record(before, *anew):
        named = [SimpleNamespace(other_labels=each, test=0.0) for each in (before, *anew)]
        return SimpleNamespace(
            labels_lost=("1",), original=named[0], retrained_accuracies=tuple(named[1:])
        )

    assert _other_recipe(record(0.89, 0.24)) == snapshot
    for quiet in (record(0.89, 0.85), record(0.89), record(None, 0.2), record(0.2, 0.9)):
        assert _other_recipe(quiet) == ""


def test_what_is_not_trained_anew_is_said(tmp_path, capsys, snapshot):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    network = networks.matmul_add_softmax(rng)
    (width,) = {d.dim_value for d in network.graph.input[0].type.tensor_type.shape.dim[1:]}
    onnx.save(network, tmp_path / "n.onnx")
    X, y = rng.random((60, width), dtype=np.float32), np.arange(60) % 2
    np.savez(tmp_path / "d.npz", X_train=X[:40], y_train=y[:40], X_test=X[40:], y_test=y[40:])
    where = (tmp_path / "n.onnx", tmp_path / "d.npz")
    for words in (("unlearn", *where, "--forget", "1"), ("audit", *where, "--trials", "2")):
        code, _, err = said(capsys, *words, *QUICK, "-o", tmp_path / words[0])
        assert code == 0, err
        assert err == snapshot


def test_accuracies_of_labels_are_recorded_only_where_one_is_lost(files, capsys, snapshot):
    pytest.importorskip("torch")
    code, out, err = said(
        capsys,
        *("unlearn", files / "n.onnx", files / "d.npz", "--forget", "0.1", *QUICK),
        *("-o", files / "out"),
    )
    assert code == 0, err
    record = json.loads((files / "out" / "unlearning.json").read_text())
    assert record["original"]["lost_labels"] is record["original"]["other_labels"] is None
    assert out == snapshot


@pytest.mark.parametrize(
    "words",
    [
        ("n.onnx", "d.npz"),
        ("n.onnx", "d.npz", "--forget", "1", "--forget-class", "1"),
        ("n.onnx", "d.npz", "--forget-class", "7"),
        ("n.onnx", "d.npz", "--forget", "77"),
        ("n.onnx", "absent.npz", "--forget", "1"),
        ("absent.onnx", "d.npz", "--forget", "1"),
        ("n.onnx", "wide.npz", "--forget", "1"),
        ("n.onnx", "untested.npz", "--forget", "1"),
        ("n.onnx", "nan.npz", "--forget", "1"),
        ("n.onnx", "many.npz", "--forget", "1"),
        ("n.onnx", "d.npz", "--forget", "1", "--rounds", "0"),
        ("n.onnx", "d.npz", "--forget", "1", "--third", "1"),
        ("n.onnx", "d.npz", "--forget", "1", "--retrain", "-1"),
        ("n.onnx", "d.npz", "--forget", "1", "--seed", "-1"),
    ],
)
def test_unlearn_refuses_in_one_line_and_writes_nothing(
    files, capsys, monkeypatch, words, snapshot
):
    pytest.importorskip("torch")
    monkeypatch.chdir(files)
    rng = np.random.default_rng(1)
    X, y = rng.random((30, 6), dtype=np.float32), np.arange(30) % 2
    test = {"X_test": X[:9], "y_test": y[:9]}
    np.savez("wide.npz", X_train=X, y_train=y, **test)
    np.savez("untested.npz", X=X[:, :5], y=y)
    test["X_test"] = X[:9, :5]
    np.savez("nan.npz", X_train=np.where(X[:, :5] > 0.9, np.nan, X[:, :5]), y_train=y, **test)
    np.savez("many.npz", X_train=X[:, :5], y_train=np.arange(30) % 3, **test)
    code, out, err = said(capsys, "unlearn", *words, "-o", "out")
    assert (code, out) == (2, "")
    assert err == snapshot
    assert err.count("\n") == 1
    assert not (files / "out").exists()


def test_a_run_stopped_while_it_writes_leaves_nothing(files, capsys, monkeypatch):
    pytest.importorskip("torch")

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("leaveout.files.commit", stop)
    words = ("unlearn", files / "n.onnx", files / "d.npz", "--forget", "1", *QUICK)
    code, _, err = said(capsys, *words, "-o", files / "out")
    assert (code, "nothing was written" in err) == (130, True)
    assert not (files / "out").exists()


def test_a_stopped_run_writes_nothing(files, capsys, monkeypatch, snapshot):
    pytest.importorskip("torch")
    import leaveout.models.unlearning.unlearning as unlearning
    import leaveout.verifier.audits.membership.recording as recording

    def stop(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(unlearning, "play", stop)
    monkeypatch.setattr(recording, "play", stop)
    where = (files / "n.onnx", files / "d.npz")
    for words in (
        ("unlearn", *where, "--forget", "1", "-o", files / "out"),
        ("audit", *where, "--trials", "2", "-o", files / "out"),
    ):
        code, _, err = said(capsys, *words, "--epochs", "1")
        assert code == 130
        assert err == snapshot
        assert not (files / "out").exists()


def test_audit_runs_trials_and_shows_what_they_tell(files, capsys, snapshot):
    pytest.importorskip("torch")
    out = files / "audit.npz"
    words = ("audit", files / "n.onnx", files / "d.npz", "--trials", "6", *QUICK, "-o", out)
    code, shown, err = said(capsys, *words)
    assert code == 0, err
    assert passages(shown, "1.000") == snapshot
    assert 'membership_advantage(audit("audit.npz"))' in shown
    found = read_audit(out)
    assert isinstance(found, Views)
    assert len(found.trials) == 6
    assert found.original is not None
    code, _, err = said(capsys, *words)
    assert (code, "already exists" in err) == (2, True)
    assert said(capsys, *words[:-1], files / "again.npz")[0] == 0
    assert (files / "again.npz").read_bytes() == out.read_bytes()


def test_audit_of_a_class_asks_about_rows_of_it(files, capsys, snapshot):
    pytest.importorskip("torch")
    out = files / "audit.npz"
    words = ("audit", files / "n.onnx", files / "d.npz", "--trials", "4", *QUICK)
    code, shown, err = said(capsys, *words, "--forget-class", "1", "-o", out)
    assert code == 0, err
    assert passages(shown, "0.95") == snapshot
    found = read_audit(out)
    assert isinstance(found, Views)
    assert set(found.label) == {1}
    assert found.has_unseen_rows
    answers = found.retrained.argmax(axis=1)
    assert (answers == 0).all()


def test_audit_takes_the_posteriors_of_any_method(files, capsys, snapshot):
    held = views(np.random.default_rng(0))
    rows = {"trial": held.trial, "forgotten": held.forgotten, "label": held.label}
    np.savez(files / "u.npz", **rows, posteriors=held.unlearned)
    np.savez(files / "r.npz", **rows, posteriors=held.retrained)
    code, shown, err = said(
        capsys,
        *("audit", "--unlearned", files / "u.npz", "--retrained", files / "r.npz"),
        *("-o", files / "audit.npz"),
    )
    assert code == 0, err
    assert passages(shown, "0.000") == snapshot
    assert read_audit(files / "audit.npz").original is None


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("n.onnx",),
        ("--unlearned", "u.npz"),
        ("--retrained", "u.npz"),
        ("n.onnx", "d.npz", "--unlearned", "u.npz"),
        ("n.onnx", "d.npz", "--forget", "0"),
        ("n.onnx", "d.npz", "--forget", "0.1", "--forget-class", "1"),
        ("n.onnx", "d.npz", "--forget-class", "7"),
        ("--unlearned", "u.npz", "--forget-class", "1"),
        ("n.onnx", "d.npz", "--trials", "0"),
        ("n.onnx", "d.npz", "--rows", "0"),
        ("n.onnx", "d.npz", "--confidence", "1"),
        ("n.onnx", "d.npz", "--epochs", "0"),
    ],
)
def test_audit_refuses_in_one_line_and_writes_nothing(files, capsys, monkeypatch, words, snapshot):
    pytest.importorskip("torch")
    monkeypatch.chdir(files)
    code, out, err = said(capsys, "audit", *words, "-o", "out.npz")
    assert (code, out) == (2, "")
    assert err == snapshot
    assert err.count("\n") == 1
    assert not (files / "out.npz").exists()


@pytest.mark.parametrize("command", ["unlearn", "audit"])
def test_help_teaches(capsys, command):
    code, out, _ = said(capsys, command, "--help")
    assert code == 0
    assert "retrain" in out


def given(audit, confidence, **more):
    return Arguments({"audit": audit, **more}, confidence=confidence)


def test_a_claim_about_an_audit_reads_its_file(tmp_path, snapshot):
    write_audit(views(np.random.default_rng(0)), tmp_path / "a.npz")
    held = decider.audit(Arguments({"path": "a.npz"}, folder=tmp_path))
    found = decider.membership_advantage(given(held, 0.95))
    assert 0 <= found.lower <= found.upper <= 1
    assert found.reason.startswith("numerical")
    assert "confidence 0.95" in found.note
    assert found.note == snapshot
    assert decider.membership_advantage(given(held, 0.95, unit="records")).note == snapshot


def test_a_claim_without_a_confidence_is_told_the_cure(tmp_path, snapshot):
    with pytest.raises(AuditError) as told:
        decider.membership_advantage(given(views(np.random.default_rng(0)), None))
    assert str(told.value) == snapshot


def test_a_refuted_claim_says_which_attack_and_how_often(snapshot):
    counts = (np.array([n]) for n in (0, 40, 31, 40))
    events = Events(("the attack says member",), *counts)
    found = decider.membership_advantage(given(events, 0.95))
    assert found.lower > 0.4
    shown = found.evidence()
    assert shown.words == snapshot
    assert shown.facts["alpha_above"] > 0.5
    assert found.note == snapshot


def test_a_specification_proves_refutes_and_leaves_open(tmp_path, capsys, snapshot):
    counts = (np.array([n]) for n in (0, 40, 31, 40))
    write_audit(Events(("the attack says member",), *counts), tmp_path / "a.npz")
    spec = tmp_path / "a.spec"
    claims = {"refuted": 0.3, "unknown": 0.7, "proved": 0.99}
    spec.write_text(
        'let A = audit("a.npz")\n'
        + "".join(
            f"guarantee {name}: membership_advantage(A) <= {most} with confidence 0.95\n"
            for name, most in claims.items()
        )
    )
    code, out, err = said(capsys, "verify", spec)
    assert code == 1, err
    for name in claims:
        assert any(line.split()[::2][:2] == [name, name] for line in out.splitlines())
    assert passages(out, "0.489365246") == snapshot
    assert out == snapshot
