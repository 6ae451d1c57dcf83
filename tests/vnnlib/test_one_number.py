"""A query about a network of one number is about that number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from leaveout.errors import LeaveoutError
from leaveout.specs.vnnlib import load_query
from leaveout.specs.vnnlib.write import format_query, format_witness
from leaveout.verifier.points.query import decide

from support import networks

F32 = np.float32
W = np.asarray([[1.0], [-2.0]], F32)


def written(folder: Path, *, sigmoid: bool = False) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["z" if sigmoid else "y"]),
        *([helper.make_node("Sigmoid", ["z"], ["y"])] if sigmoid else []),
    ]
    onnx.save(networks.model(nodes, {"W": W}, ["n", 2], ["n", 1]), folder / "net.onnx")
    return folder / "net.onnx"


def query(folder: Path, least: float) -> Path:
    """Ask whether ``x - 2 y`` is at least this much over the unit square."""
    lines = ["(declare-const X_0 Real)", "(declare-const X_1 Real)", "(declare-const Y_0 Real)"]
    for i in range(2):
        lines += [f"(assert (>= X_{i} 0.0))", f"(assert (<= X_{i} 1.0))"]
    lines.append(f"(assert (>= Y_0 {least}))")
    (folder / "query.vnnlib").write_text("\n".join(lines) + "\n")
    return folder / "query.vnnlib"


@pytest.mark.parametrize(("least", "verdict"), [(0.9, "refuted"), (1.1, "proved")])
def test_the_number_is_the_output(least, verdict, tmp_path):
    reading = load_query(query(tmp_path, least), [written(tmp_path)])
    found = decide(reading.query, seconds=20)
    assert found.verdict == verdict
    if found.points is not None:
        text = format_witness(reading.problem, reading.query, found.points, found.scores)
        assert text.count("Y_") == 1
        value = float(text.split("Y_0")[1].strip(" )\n"))
        assert value >= least
        assert value == pytest.approx(float(found.points[0] @ W[:, 0]))
    again = format_query(reading.query)
    assert "[1,1]" in again.replace(" ", "")


def test_a_query_about_a_probability_is_refused(tmp_path, snapshot):
    with pytest.raises(LeaveoutError) as told:
        load_query(query(tmp_path, 0.5), [written(tmp_path, sigmoid=True)])
    assert str(told.value) == snapshot


def test_a_network_is_refused_before_a_long_query_is_read(tmp_path, monkeypatch):
    asked = query(tmp_path, 0.5)
    (tmp_path / "broken.onnx").write_bytes(b"no network")
    monkeypatch.setattr("leaveout.specs.vnnlib.read.load_problem", None)
    with pytest.raises(LeaveoutError, match=r"broken\.onnx"):
        load_query(asked, [tmp_path / "broken.onnx"])
