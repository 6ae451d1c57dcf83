"""What a file holds is said in lines, and a network is drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from leaveout.models import load_network
from leaveout.models.onnx.network_graph import data_graph
from leaveout.verifier.cli import run
from leaveout.verifier.page.network_picture import draw_network

from support import networks

EXAMPLES = Path(__file__).parents[2] / "examples"
SVG = "{http://www.w3.org/2000/svg}"
F32 = np.float32


def shown(path, capsys, *rest):
    assert run(["show", str(path), *map(str, rest)]) == 0
    return capsys.readouterr().out


def boxes(drawn):
    """Return the names, texts and sides (left, top, right, bottom) of all boxes."""
    found = {}
    for each in ET.fromstring(drawn).iter(f"{SVG}g"):
        (rect, *_), texts = each.findall(f"{SVG}rect"), each.findall(f"{SVG}text")
        x, y, w, h = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
        found[each.find(f"{SVG}title").text] = [t.text for t in texts], (x, y, x + w, y + h)
    return found


def chain_of(count):
    """Return a network of many layers, with a residual connection around every third."""
    rng = np.random.default_rng(0)
    nodes, constants, last = [], {}, "x"
    for at in range(count):
        constants[f"W{at}"] = rng.normal(size=(3, 3)).astype(F32)
        nodes.append(helper.make_node("MatMul", [last, f"W{at}"], [f"m{at}"], name=f"m{at}"))
        nodes.append(helper.make_node("Relu", [f"m{at}"], [f"r{at}"], name=f"r{at}"))
        if at % 3 == 2:
            nodes.append(helper.make_node("Add", [f"r{at}", last], [f"j{at}"], name=f"j{at}"))
        last = nodes[-1].output[0]
    nodes[-1].output[0] = "y"
    return networks.model(nodes, constants, ["n", 3], ["n", 3])


def test_a_network_is_shown_with_its_operators_and_its_cost(tmp_path, capsys, snapshot):
    onnx.save(networks.branched(), tmp_path / "net.onnx")
    said = shown(tmp_path / "net.onnx", capsys, "-o", tmp_path / "net.svg")
    assert said == snapshot
    stack = load_network(tmp_path / "net.onnx").stack
    assert f"{sum(layer.width for layer in stack.layers[:-1])} neurons" in said
    found = boxes((tmp_path / "net.svg").read_text("utf-8"))
    assert found["first"][0] == ["Gemm", "4, 28 weights"]
    assert found["last"][0] == ["Softmax", "not computed"]


@pytest.mark.parametrize("count", [1, 5, 12, 20])
def test_boxes_of_a_picture_never_overlap_and_lie_inside(count, tmp_path):
    onnx.save(chain_of(count), tmp_path / "net.onnx")
    network = load_network(tmp_path / "net.onnx")
    data = data_graph(network.nx_graph())
    drawn = draw_network(data, "net.onnx")
    found = boxes(drawn)
    assert len(found) == len(data)
    root = ET.fromstring(drawn)
    wide, tall = float(root.get("width")), float(root.get("height"))
    sides = [side for _, side in found.values()]
    for at, (a, b, c, d) in enumerate(sides):
        assert 0 <= a < c <= wide
        assert 0 <= b < d <= tall
        for e, f, g, h in sides[:at]:
            assert c <= e or g <= a or d <= f or h <= b
    lines = root.findall(f"{SVG}path")
    assert len(lines) == data.number_of_edges()


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("breast_cancer/family/full.onnx", ["3 inputs", "16 neurons"]),
        ("breast_cancer/family/family.npz", ["569 members", "122 weights"]),
        ("six/edits.npz", ["20 members", "181 test points"]),
        ("deletion/forest.npz", ["569 rows", "10 trees", "30 features"]),
    ],
)
def test_a_file_of_any_kind_is_shown(name, facts, capsys, snapshot):
    said = shown(EXAMPLES / name, capsys)
    assert all(fact in said for fact in facts)
    assert said == snapshot


def test_trees_and_linear_models_are_shown(tmp_path, capsys, snapshot):
    from sklearn.ensemble import GradientBoostingClassifier

    from leaveout.models.trees.files import write_trees
    from leaveout.models.trees.reading import of_model

    rng = np.random.default_rng(0)
    X = rng.random((60, 3)).round(3)
    y = (X[:, 0] > 0.5).astype(int)
    write_trees(of_model(GradientBoostingClassifier(n_estimators=4).fit(X, y)), tmp_path / "t.npz")
    said = shown(tmp_path / "t.npz", capsys)
    assert "4 trees" in said
    np.savez(tmp_path / "data.npz", X=X, y=y)
    assert run(["linear", "train", str(tmp_path / "data.npz"), "-o", str(tmp_path / "line")]) == 0
    capsys.readouterr()
    linear = shown(tmp_path / "line/linear.npz", capsys)
    assert "3 inputs" in linear
    assert said.splitlines()[:2] + linear.splitlines()[1:] == snapshot


def test_what_is_no_model_is_refused_in_one_line(tmp_path, capsys, snapshot):
    np.savez(tmp_path / "data.npz", X=np.ones(3))
    (tmp_path / "text.onnx").write_text("no model")
    onnx.save(networks.branched(), tmp_path / "net.onnx")
    told = []
    for words in (
        ["missing.onnx"],
        ["."],
        ["data.npz"],
        ["text.onnx"],
        ["net.onnx", "-o", "net.png"],
        [EXAMPLES / "six/edits.npz", "-o", tmp_path / "net.svg"],
        ["net.onnx", "-o", tmp_path / "no/net.svg"],
    ):
        first = Path(words[0]) if Path(words[0]).is_absolute() else tmp_path / words[0]
        assert run(["show", str(first), *map(str, words[1:])]) == 2
        caught = capsys.readouterr()
        assert caught.out == ""
        assert caught.err.count("\n") == 1
        told.append(caught.err)
    assert told == snapshot
