"""Claims about networks with smooth activations, from files to checked certificates."""

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import leaveout
from leaveout.bab import LucidOptions, search
from leaveout.errors import SolverError
from leaveout.models import load_network
from leaveout.verifier.certify.check import check
from leaveout.verifier.cli.app import run

from attacks.questions import instance_of
from support import networks

node = helper.make_node
KINDS = ["Tanh", "Sigmoid", "Gelu", "Elu", "Mish", "Softmax"]


def smooth(rng, kind, moved=None):
    """Return a network of two hidden layers, or one with weights near another's."""
    widths, held, nodes, last = (2, 6, 6, 2), {}, [], "x"
    for k in range(3):
        w, b = rng.normal(size=(widths[k], widths[k + 1])), rng.normal(size=widths[k + 1])
        if moved is not None:
            w, b = (moved[f"{n}{k}"] * (1 + 0.05 * v) for n, v in (("w", w), ("b", b)))
        held[f"w{k}"], held[f"b{k}"] = w.astype(np.float32), b.astype(np.float32)
        out = "y" if k == 2 else f"z{k}"
        nodes.append(node("Gemm", [last, f"w{k}", f"b{k}"], [out]))
        last = f"h{k}"
        if k < 2:
            given = [out]
            if kind == "LayerNormalization":
                held[f"g{k}"] = np.linspace(0.5, 1.5, widths[k + 1], dtype=np.float32)
                given.append(f"g{k}")
            nodes.append(node(kind, given, [last]))
    model = networks.model(nodes, held, ["n", 2], ["n", 2])
    model.opset_import[0].version = 20
    return model, held


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_at_points_and_certificates_are_accepted(kind, tmp_path, capsys):
    rng = np.random.default_rng(KINDS.index(kind))
    first, held = smooth(rng, kind)
    second, _ = smooth(rng, kind, held)
    onnx.save(first, tmp_path / "n.onnx")
    onnx.save(second, tmp_path / "q.onnx")
    spec = tmp_path / "claims.spec"
    spec.write_text(
        'let N = network("n.onnx")\nlet Q = network("q.onnx")\n'
        "find top: least b such that forall x in box(-1, 1): score(N, x, 0) <= b\n"
        "find apart: least b such that forall x in box(-1, 1): difference(N, Q, x) <= b\n"
    )
    certificate = tmp_path / "c.cert"
    report = leaveout.verify(spec, time=30, workers=1, certificate=certificate)
    top, apart = report.results
    points = rng.uniform(-1, 1, (20_000, 2)).astype(np.float32)
    own, other = (
        load_network(tmp_path / name).runner().scores(points) for name in ("n.onnx", "q.onnx")
    )
    for result, shown in ((top, own[:, 0].max()), (apart, np.abs(own - other).max())):
        assert result.verdict == "proved"
        assert shown <= result.upper
        assert result.lower <= result.upper
        assert result.upper - result.lower <= 0.02 * abs(result.upper)
    assert run(["check", str(certificate)]) == 0
    assert "accepted" in capsys.readouterr().out


def test_a_normalised_network_is_bounded_to_within_rounding(tmp_path):
    model, _ = smooth(np.random.default_rng(5), "LayerNormalization")
    onnx.save(model, tmp_path / "n.onnx")
    (tmp_path / "c.spec").write_text(
        'let N = network("n.onnx")\n'
        "find top: least b such that forall x in box(-1, 1): score(N, x, 0) <= b\n"
    )
    certificate = tmp_path / "c.cert"
    (result,) = leaveout.verify(
        tmp_path / "c.spec", time=30, workers=1, certificate=certificate
    ).results
    check(certificate)
    points = np.random.default_rng(0).uniform(-1, 1, (50_000, 2)).astype(np.float32)
    shown = load_network(tmp_path / "n.onnx").runner().scores(points)[:, 0].max()
    assert shown <= result.upper <= result.lower + 0.01


@pytest.mark.parametrize("certified", [False, True])
def test_where_bounds_overflow_nothing_is_proved(certified, tmp_path):
    """What cancels exactly, to the power of 81, beside a spike that no random point finds."""
    at, steep = float(np.float32(29.742469)), 2e5
    constants = {
        "s": [[0, 1], [1, 0]], "a": [[steep] * 3, [0] * 3], "w": [[1, 0], [-2, 0], [1, 0]],
        "b": [1 - steep * at, -steep * at, -1 - steep * at],
    }  # fmt: skip
    nodes = [
        node("MatMul", ["x", "s"], ["z"]), node("Mul", ["x", "z"], ["p"]),
        node("Mul", ["z", "x"], ["q"]), node("Sub", ["p", "q"], ["v0"]),
        node("Constant", [], ["k"], value=helper.make_tensor("", 1, [], [3.0])),
        *(node("Pow", [f"v{i}", "k"], [f"v{i + 1}"]) for i in range(4)),
        node("Gemm", ["x", "a", "b"], ["e"]), node("Relu", ["e"], ["f"]),
        node("MatMul", ["f", "w"], ["g"]), node("Add", ["v4", "g"], ["y"]),
    ]  # fmt: skip
    held = {name: np.array(value, np.float32) for name, value in constants.items()}
    onnx.save(networks.model(nodes, held, ["n", 2], ["n", 2]), tmp_path / "n.onnx")
    spec = tmp_path / "c.spec"
    spec.write_text(
        'let N = network("n.onnx")\nguarantee g: forall x in box(29, 31): score(N, x, 0) <= 0.5\n'
    )
    (result,) = leaveout.verify(
        spec, time=5, workers=1, certificate=tmp_path / "c.cert" if certified else None
    ).results
    point = np.array([[at, 1]], np.float32)
    assert load_network(tmp_path / "n.onnx").runner().scores(point)[0, 0] == 1.0
    assert result.verdict == "unknown"
    assert "too large" in result.reason


@pytest.mark.parametrize("seconds", [1.2, 2.0])
def test_a_search_that_is_stopped_leaves_a_certificate_that_is_accepted(
    seconds, tmp_path, monkeypatch
):
    """Of residual layers, whose first bounds the search must not take from elsewhere."""
    monkeypatch.setattr("leaveout.verifier.points.proofs.shorten", lambda *_: True)
    model = tmp_path / "n.onnx"
    shutil.copy(Path(__file__).parent / "written" / "deep_gelu.onnx", model)
    (tmp_path / "c.spec").write_text(
        'let N = network("n.onnx")\n'
        "find e: least b such that forall x in box(-1, 1):\n"
        "    score(N, x, 0) - score(N, x, 1) <= b\n"
    )
    certificate = tmp_path / "c.cert"
    (result,) = leaveout.verify(
        tmp_path / "c.spec", time=seconds, workers=1, certificate=certificate
    ).results
    check(certificate)
    points = np.random.default_rng(0).uniform(-1, 1, (20_000, 3)).astype(np.float32)
    scores = load_network(model).runner().scores(points)
    assert (scores[:, 0] - scores[:, 1]).max() <= result.upper


@pytest.mark.parametrize("room", [1e-3, -1e-3])
def test_guarantees_are_proved_or_refuted_near_the_truth(room, tmp_path):
    model, _ = smooth(np.random.default_rng(5), "Tanh")
    onnx.save(model, tmp_path / "n.onnx")
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 401)] * 2), -1).reshape(-1, 2)
    most = load_network(tmp_path / "n.onnx").runner().scores(grid)[:, 0].max()
    spec = tmp_path / "claims.spec"
    spec.write_text(
        'let N = network("n.onnx")\n'
        f"guarantee g: forall x in box(-1, 1): score(N, x, 0) <= {most + room:.9f}\n"
    )
    (result,) = leaveout.verify(spec, time=30, workers=1).results
    assert result.verdict == ("proved" if room > 0 else "refuted")


def members(kind):
    model, held = smooth(np.random.default_rng(1), kind)
    other = {k: v * np.float32(1.01) for k, v in held.items()}
    packed = lambda v: {"shape": list(v.shape), "data": [float(x) for x in v.reshape(-1)]}
    nodes = [[each.op_type, list(each.input), list(each.output), {}] for each in model.graph.node]
    net = {
        "opset": 20, "batch": "n", "shape": [2], "labels": 2, "nodes": nodes, "integers": {},
        "floats": {k: packed(v) for k, v in held.items()},
    }  # fmt: skip
    box = {"lower": [-1.0, -1.0], "upper": [1.0, 1.0], "tables": []}
    return {"net": net, "members": [{k: packed(v) for k, v in other.items()}], "box": box}


def test_what_bounds_relus_alone_refuses_in_a_line(tmp_path, monkeypatch):
    instance = instance_of(members("Tanh"))
    with pytest.raises(SolverError, match="use --engine native"):
        search(instance, 0, LucidOptions())
    model, _ = smooth(np.random.default_rng(5), "Tanh")
    onnx.save(model, tmp_path / "n.onnx")
    (tmp_path / "claims.spec").write_text(
        'let N = network("n.onnx")\nguarantee g: forall x in box(-1, 1): score(N, x, 0) <= 2\n'
    )

    # Any kernel is now one of a plug-in.
    monkeypatch.setattr("leaveout.bab.native.workers.worker.CpuKernel", str)
    with pytest.raises(SolverError, match="use cpu"):
        leaveout.verify(tmp_path / "claims.spec", time=5, workers=1)
