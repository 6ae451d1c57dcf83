"""The recipes for operators in CONTRIBUTING.md work as they stand, in a copy of the program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from leaveout.errors import ModelError
from leaveout.models.onnx.file import network_from

from support import networks
from support.recipes import copied, insert, python, steps

FILES = {
    "A rewrite": (
        "models/onnx/rewrites/shrinking.py",
        "models/onnx/rewrites/__init__.py",
        "REWRITES: tuple[Rewrite, ...] = (\n",
    ),
    "An affine operator": (
        "models/onnx/operators/running.py",
        "models/onnx/table.py",
        "OPERATORS: Mapping[str, SupportedOperator] = {\n",
    ),
}
"""The new file, and the table with its opening."""

SCRIPT = """
import sys
from pathlib import Path

import numpy as np

import leaveout
from leaveout.errors import ModelError
from leaveout.models import load_network

here = Path(sys.argv[1])
assert Path(leaveout.__file__).is_relative_to(here)
network = load_network(here / "good.onnx")
points = np.load(here / "points.npy")
found = network.stack.scores(points.reshape(len(points), -1).astype(np.float64))[0]
np.testing.assert_allclose(found, network.runner().scores(points), rtol=1e-5, atol=1e-6)
print(*dict.fromkeys(type(node.operator).__name__ for node in network.graph.nodes))
try:
    load_network(here / "odd.onnx")
except ModelError as refusal:
    print(refusal)
"""


def _follow(title: str, folder: Path) -> None:
    """Copy the program, and write what the recipe says."""
    copied(folder)
    new, table, opening = FILES[title]
    code, entry = steps(f"### {title}")
    assert not (folder / new).exists()
    (folder / new).write_text(code)
    imports, row = entry.split("\n\n", 1)
    insert(folder / table, opening, row)
    whole = (folder / table).read_text()
    (folder / table).write_text(whole.replace("\nfrom leaveout", f"\n{imports}\nfrom leaveout", 1))


def _between(node: onnx.NodeProto, constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Return a network with the node between two layers."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Gemm", ["x", "W", "b"], ["a"]),
        node,
        helper.make_node("MatMul", ["t", "V"], ["y"]),
    ]
    layers = {
        "W": rng.normal(size=(3, 4)).astype(np.float32),
        "b": rng.normal(size=4).astype(np.float32),
        "V": rng.normal(size=(4, 2)).astype(np.float32),
    }
    return networks.model(nodes, {**layers, **constants}, ["n", 3], ["n", 2])


CASES = {
    "A rewrite": (
        _between(helper.make_node("Shrink", ["a"], ["t"], bias=0.3, lambd=0.3), {}),
        _between(helper.make_node("Shrink", ["a"], ["t"], lambd=float("inf")), {}),
        "Gemm Shift Relu Scale Join MatMul",
        "(Shrink): lambd = inf: expected a finite number",
    ),
    "An affine operator": (
        _between(helper.make_node("CumSum", ["a", "axis"], ["t"]), {"axis": np.asarray(-1)}),
        _between(
            helper.make_node("CumSum", ["a", "axis"], ["t"], reverse=1), {"axis": np.asarray(1)}
        ),
        "Gemm RunningSum MatMul",
        "(CumSum): reverse = 1: only 0 is supported",
    ),
}


@pytest.mark.parametrize("title", CASES)
def test_a_recipe_adds_an_operator(title, tmp_path, snapshot):
    good, odd, operators, refusal = CASES[title]
    with pytest.raises(ModelError) as told:
        network_from(good, "net.onnx")
    assert str(told.value) == snapshot
    _follow(title, tmp_path)
    onnx.save(good, tmp_path / "good.onnx")
    onnx.save(odd, tmp_path / "odd.onnx")
    np.save(tmp_path / "points.npy", np.random.default_rng(1).normal(size=(30, 3)))
    done = python(tmp_path, "-c", SCRIPT, tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == operators
    assert refusal in second
