"""Families of VNN-LIB instances in a folder are read and solved."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx

from support import networks

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "vnnlib_families.py"
BOX = "(declare-const X_{i} Real)(assert (>= X_{i} 0))(assert (<= X_{i} 0.01))"


def test_each_family_has_a_row(tmp_path):
    family = tmp_path / "convolutions"
    family.mkdir()
    model = networks.convolution_2d(np.random.default_rng(0))
    onnx.save(model, family / "net.onnx")
    inputs = int(
        np.prod([each.dim_value or 1 for each in model.graph.input[0].type.tensor_type.shape.dim])
    )
    box = "".join(BOX.replace("{i}", str(i)) for i in range(inputs))
    for name, above in (("never", 1e6), ("always", -1e6)):
        query = f"{box}(declare-const Y_0 Real)(declare-const Y_1 Real)"
        query += f"(declare-const Y_2 Real)(assert (>= Y_0 {above:f}))"
        (family / f"{name}.vnnlib").write_text(query)
    (family / "instances.csv").write_text(
        "net.onnx,never.vnnlib,60\nnet.onnx,always.vnnlib,60\nnet.onnx,gone.vnnlib,60\n"
    )
    command = [sys.executable, str(SCRIPT), "--data", str(tmp_path), "--seconds", "30", "--each"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stderr[-2000:]
    assert "convolutions: 2 of 2 (1 unsat, 1 sat)" in found.stdout
