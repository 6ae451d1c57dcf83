"""The recipes for operators in CONTRIBUTING.md work as they stand, in a copy of the program."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from docs.pages import ROOT, blocks, text_of
from onnx import helper

from leaveout.errors import ModelError
from leaveout.models.onnx_file import network_from

from support import children, networks

PAGE = "CONTRIBUTING.md"
TABLES = {
    "models/rewrites/__init__.py": "REWRITES: tuple[Rewrite, ...] = (\n",
    "models/onnx_operators.py": "OPERATORS: Mapping[str, Modelled] = {\n",
}
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


def _recipe(title: str) -> dict[str, str]:
    """Return the blocks of a section by the file that the paragraph before names."""
    text = text_of(PAGE)
    first = text[: text.index(f"### {title}\n")].count("\n")
    last = first + re.split(r"\n##+ ", text[text.index(f"### {title}\n") :])[0].count("\n")
    found = {}
    for block in blocks(PAGE):
        if first < block.line < last:
            before = "\n".join(text.splitlines()[first : block.line - 1])
            found[re.findall(r"`(models/\S+\.py)`", before)[-1]] = block.text
    return found


def _follow(recipe: dict[str, str], package: Path) -> None:
    """Copy what reads networks, and write what the recipe says."""
    shutil.copytree(
        ROOT / "src" / "leaveout",
        package,
        ignore=lambda folder, names: [n for n in names if (Path(folder) / n).is_symlink()],
    )
    shutil.copytree(ROOT / "models", package / "models")
    for name, code in recipe.items():
        path = package / name
        if name not in TABLES:
            assert not path.exists()
            path.write_text(code)
            continue
        imports, entry = code.split("\n\n", 1)
        whole, opening = path.read_text(), TABLES[name]
        assert whole.count(opening) == 1
        whole = whole.replace(opening, opening + entry)
        path.write_text(whole.replace("\nfrom leaveout", f"\n{imports}\nfrom leaveout", 1))


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
        _between(helper.make_node("HardSigmoid", ["a"], ["t"], alpha=0.3), {}),
        _between(helper.make_node("HardSigmoid", ["a"], ["t"], alpha=float("inf")), {}),
        "Gemm Scale Shift Relu Join MatMul",
        "(HardSigmoid): alpha = inf: expected a finite number",
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
def test_a_recipe_adds_an_operator(title, tmp_path):
    good, odd, operators, refusal = CASES[title]
    with pytest.raises(ModelError, match="not supported; supported operators"):
        network_from(good, "net.onnx")
    _follow(_recipe(title), tmp_path / "leaveout")
    onnx.save(good, tmp_path / "good.onnx")
    onnx.save(odd, tmp_path / "odd.onnx")
    np.save(tmp_path / "points.npy", np.random.default_rng(1).normal(size=(30, 3)))
    done = children.run(
        [sys.executable, "-c", SCRIPT, tmp_path],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        check=True,
    )
    first, second = done.stdout.splitlines()
    assert first == operators
    assert refusal in second


def test_a_recipe_names_the_files_to_touch():
    for title in CASES:
        new, table = _recipe(title)
        assert (ROOT / Path(new).parent).is_dir()
        assert table in TABLES
