"""ACAS Xu's table: verdicts, replay and what is wrong, on small networks in its place."""

from __future__ import annotations

import dataclasses
import json
import stat
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

import leaveout

import acas_changes
import acas_pairs
import acas_peers
import acas_replay
import acas_table
from acas_instances import InstancesError, chosen, read_instances
from support import children
from support.networks import dense

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "acas.py"
SIDES = (np.full(5, -0.5), np.full(5, 0.5))
HEADER = "property,network,verdict,alpha_beta_crown_s,nnenum_s\n"


def run(network, x):
    session = onnxruntime.InferenceSession(network.SerializeToString())
    return session.run(None, {session.get_inputs()[0].name: np.float32([x])})[0][0]


def write_property(path, condition):
    bounds = "".join(f"(assert (>= X_{i} -0.5))\n(assert (<= X_{i} 0.5))\n" for i in range(5))
    names = [f"X_{i}" for i in range(5)] + ["Y_0", "Y_1"]
    declared = "".join(f"(declare-const {name} Real)\n" for name in names)
    path.write_text(f"; of a test\n{declared}{bounds}(assert {condition})\n")


@pytest.fixture
def data(tmp_path):
    """Two networks, a property with counter-examples, and one without."""
    rng = np.random.default_rng(3)
    lines, values = [], []
    for name in ("1_1", "1_2"):
        network = dense(rng, (5, 6, 2))
        onnx.save(network, tmp_path / f"ACASXU_run2a_{name}_batch_2000.onnx")
        lines += [f"1,{name},sat,1.0,2.0", f"2,{name},unsat,1.0,"]
        values += [run(network, x)[0] for x in rng.uniform(-0.5, 0.5, (200, 5))]
    # Propagation bounds what is below every sample by far.
    write_property(tmp_path / "prop_1.vnnlib", f"(>= Y_0 {float(min(values)):.4f})")
    write_property(tmp_path / "prop_2.vnnlib", "(or (>= Y_0 1000.0) (and (<= Y_1 -1000.0)))")
    (tmp_path / "published.csv").write_text(HEADER + "\n".join(lines) + "\n")
    return tmp_path


def run_acas(*words):
    return children.run([sys.executable, SCRIPT, *words])


def test_verdicts_agree_and_counter_examples_are_replayed(data):
    table = data / "table.json"
    done = run_acas("--data", data, "--time", "30", "--json", table)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "solved 4 of 4, sat 2, unsat 2; wrong 0" in done.stdout
    assert "replayed 2 of 2" in done.stdout
    found = json.loads(table.read_text())["instances"]
    assert [each["verdict"] for each in found] == ["sat", "unsat"] * 2
    assert [each["published_nnenum_s"] for each in found] == [2.0, None] * 2


def test_a_wrong_verdict_is_shouted(data):
    (data / "published.csv").write_text(HEADER + "2,1_1,sat,1.0,2.0\n1,1_1,sat,1.0,2.0\n")
    done = run_acas("--data", data, "--only", "2/1_1", "--time", "30")
    assert done.returncode == 1
    assert "WRONG: 2/1_1: unsat, published is sat" in done.stdout
    assert "wrong 1" in done.stdout


def test_what_is_missing_is_one_line(data):
    for words, said in (
        (["--data", data, "--only", "3"], "--only: the published table has no '3'"),
        (["--data", data / "none"], "published.csv: No such file or directory"),
        (["--data", data, "--nnenum", data / "python"], "python: No such file or directory"),
    ):
        done = run_acas(*words)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert said in done.stderr


def test_a_pair_is_bounded_and_decided(data):
    done = run_acas(
        "--data", data, "--pairs", "--count", "1", "--kinds", "float16,pruned", "--time", "20",
        "--within", "1000",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 pairs" in done.stdout and "within 1000: proved 2, refuted 0" in done.stdout


def test_names_choose_instances(data):
    every = read_instances(data)
    assert [each.name for each in chosen(every, "1,2/1_2", None)] == ["1/1_1", "1/1_2", "2/1_2"]
    assert [each.name for each in chosen(every, "1", "1_2")] == ["1/1_2"]
    with pytest.raises(InstancesError, match=r"--networks.*'9_9'"):
        chosen(every, None, "9_9")


def test_a_counter_example_that_is_none_is_shouted(data):
    instance = read_instances(data)[0]
    line = acas_table.Line(instance, "sat", "", 0.5, 0.25, 0.5, 7, acas_replay.Replay((0.0,), 0.0))
    assert not line.wrong and "WRONG" not in acas_table.shown(line)
    off = dataclasses.replace(line, replay=acas_replay.Replay((0.0,), 0.125))
    assert "WRONG: 1/1_1: the counter-example misses the property by 0.125" in acas_table.shown(off)
    said = acas_table.summary([line, off])
    assert "wrong 1; counter-examples replayed 1 of 2" in said
    assert "over 2 that both solve geometric means 0.250 s and 2.000 s, ratio 0.125" in said


def test_a_network_that_is_not_read_is_a_line(data):
    (data / "ACASXU_run2a_1_1_batch_2000.onnx").write_bytes(b"nothing")
    done = run_acas("--data", data, "--only", "2", "--time", "30")
    assert done.returncode == 0, done.stderr
    assert "solved 1 of 2" in done.stdout and "1_1_batch_2000.onnx" in done.stdout


def test_lines_of_the_table_that_cannot_be_read_are_named(data):
    for text, said in (
        ("property,network\n1,1_1\n", ":2: wants property"),
        (HEADER + "1,1_1,sat,1.0,soon\n", ":2: 'soon' is no number"),
        (HEADER + "7,1_1,sat,1.0,2.0\n", "prop_7.vnnlib is not there"),
        (HEADER + "1,4_4,sat,1.0,2.0\n", "4_4_batch_2000.onnx is not there"),
    ):
        (data / "published.csv").write_text(text)
        with pytest.raises(InstancesError, match=said):
            read_instances(data)


NUMBERS = st.integers(-20, 20).map(lambda n: Fraction(n, 4))


@given(st.lists(NUMBERS, min_size=3, max_size=3), NUMBERS)
def test_a_formula_misses_by_what_it_would_have_to_give(values, constant):
    named = {f"X_{i}": value for i, value in enumerate(values)}
    text = f"""
    (assert (or (<= X_0 {float(constant)}) (and (>= X_1 X_2) (> X_0 (* 2 X_1)))))
    (assert (< (+ X_0 (- X_1)) 100)) ; true of all
    """
    first, second = acas_replay.assertions(text)
    a, b, c = values
    expected = min(max(0, a - constant), max(0, c - b, 2 * b - a))
    assert acas_replay.miss(first, named) == expected
    assert acas_replay.miss(second, named) == 0


@pytest.mark.parametrize("text", ["(assert (= X_0 1))", "(assert (<= (/ X_0 2) 1))", "(assert"])
def test_other_formulas_are_refused(text):
    with pytest.raises(ValueError):
        [acas_replay.miss(term, {"X_0": Fraction(1)}) for term in acas_replay.assertions(text)]


def test_an_input_outside_of_the_property_is_no_counter_example(data):
    network = data / "ACASXU_run2a_1_1_batch_2000.onnx"
    write_property(data / "any.vnnlib", "(<= Y_0 1000.0)")
    inside = acas_replay.replay(network, data / "any.vnnlib", [0.5] * 5)
    assert inside.holds and inside.outputs == pytest.approx(run(onnx.load(network), [0.5] * 5))
    outside = acas_replay.replay(network, data / "any.vnnlib", [0.5] * 4 + [0.75])
    assert not outside.holds and outside.missing == 0.25


@pytest.mark.parametrize("kind", acas_changes.KINDS)
def test_copies_differ_as_their_kind_says(kind):
    if kind == "retrained":
        pytest.importorskip("torch")
    network = dense(np.random.default_rng(0), (5, 20, 20, 2))
    copies = [acas_changes.changed(network, kind, seed, SIDES) for seed in (0, 0, 1)]
    before, first, again, other = (
        [numpy_helper.to_array(each) for each in model.graph.initializer]
        for model in (network, *copies)
    )
    assert all(map(np.array_equal, first, again))
    assert any(not np.array_equal(a, b) for a, b in zip(before, first))
    assert (not all(map(np.array_equal, first, other))) == (kind in acas_changes.SEEDED)
    if kind == "pruned":
        for a, b in zip(before, first):
            cut = b == 0
            assert cut.sum() == (a.size // 20 if a.ndim == 2 else 0)
            assert not cut.any() or abs(a[cut]).max() <= abs(a[~cut]).min()
            assert np.array_equal(a[~cut], b[~cut])
    if kind == "float16":
        assert all(np.array_equal(a.astype(np.float16), b) for a, b in zip(before, first))


def test_what_training_runs_is_the_network():
    torch = pytest.importorskip("torch")
    network = dense(np.random.default_rng(0), (5, 8, 2))
    values = {e.name: torch.tensor(numpy_helper.to_array(e)) for e in network.graph.initializer}
    x = np.random.default_rng(1).uniform(-1, 1, (20, 5)).astype(np.float32)
    own = acas_changes._scores(network, values, torch.tensor(x)).numpy()
    np.testing.assert_allclose(own, [run(network, row) for row in x], rtol=1e-4, atol=1e-5)


def test_verdicts_that_contradict_what_was_found_are_wrong(data, monkeypatch):
    network = data / "ACASXU_run2a_1_1_batch_2000.onnx"
    copy = acas_changes.changed(onnx.load(network), "perturbed", 0, SIDES)
    sides = ((-0.5,) * 5, (0.5,) * 5)
    line, stopped = acas_pairs.ask(network, copy, sides, 20.0, 1e-9)
    assert line.decision == "refuted" and not line.wrong and not stopped
    assert 0 < line.lower <= line.upper
    verify = leaveout.verify

    def lying(spec, **options):
        report = verify(spec, **options)
        result = report.results[0]
        if result.kind == "guarantee":
            values = {name: getattr(result, name) for name in result.__struct_fields__}
            result = type(result)(**{**values, "verdict": "proved"})
        return type("Report", (), {"results": (result,)})()

    monkeypatch.setattr(leaveout, "verify", lying)
    line, _ = acas_pairs.ask(network, copy, sides, 20.0, 1e-9)
    assert "proved, but a difference of" in line.wrong


PEER = """\
import sys
if "import nnenum" in sys.argv[2] and len(sys.argv) == 3:
    sys.exit()
print("seconds 0.25")
print("seconds 0.5")
open(sys.argv[6], "w").write({word!r})
"""


@pytest.mark.parametrize(
    ("word", "verdict"), [("holds", "unsat"), ("violated", "sat"), ("timeout", "unknown")]
)
def test_a_peer_reports_its_own_seconds(data, word, verdict):
    stand_in, python = data / "peer.py", data / "python"
    stand_in.write_text(PEER.format(word=word))
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{stand_in}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    acas_peers.try_nnenum(python)
    instance = read_instances(data)[0]
    peer = acas_peers.run_nnenum(python, instance.onnx, instance.vnnlib, 10.0)
    assert (peer.verdict, peer.seconds, peer.detail) == (verdict, 0.75, "")
    assert peer.wall > 0
