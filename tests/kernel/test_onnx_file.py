"""The kernel's own reader of networks: against the product's, onnxruntime and damaged files."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from leaveout.kernel.float32 import Program
from leaveout.kernel.onnx_file import DenseReader, read_family, read_network
from leaveout.kernel.refusal import Unreadable
from leaveout.models import load_network
from leaveout.models.lowering import program_of

from support.depth import enough, rounds


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs, [output], **attributes)


def random_model(rng):
    """Return a random network of the operators that are read."""
    width = start = int(rng.integers(1, 5))
    nodes, constants, now = [], {}, "x"

    def name():
        return f"t{len(nodes)}"

    def constant(*shape):
        key = f"c{len(constants)}"
        constants[key] = rng.normal(size=shape).astype(np.float32)
        return key

    for _ in range(rng.integers(2, 8)):
        kind = rng.choice(["Gemm", "MatMul", "Add", "Sub", "Relu", "Flatten", "Identity", "join"])
        after = name()
        if kind == "Gemm":
            wide, flip = int(rng.integers(1, 5)), int(rng.integers(2))
            weight = constant(*((wide, width) if flip else (width, wide)))
            bias = [constant(wide)] if rng.integers(2) else []
            options = {"transB": flip} if rng.integers(2) or flip else {}
            if rng.integers(2):
                options["alpha"] = 1.0
            nodes.append(node(kind, [now, weight, *bias], after, **options))
            width = wide
        elif kind == "MatMul":
            wide = int(rng.integers(1, 5))
            nodes.append(node(kind, [now, constant(width, wide)], after))
            width = wide
        elif kind in ("Add", "Sub"):
            row = constant(*((width,) if rng.integers(2) else (1, width)))
            pair = [row, now] if kind == "Add" and rng.integers(2) else [now, row]
            nodes.append(node(kind, pair, after))
        elif kind == "join":
            nodes.append(node("Relu", [now], f"{after}r"))
            nodes.append(node(rng.choice(["Add", "Sub"]), [now, f"{after}r"], after))
        else:
            nodes.append(node(kind, [now], after))
        now = after
    nodes.append(node("MatMul", [now, constant(width, 2)], "y"))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", start])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    imports = [helper.make_opsetid("", int(rng.integers(13, 18)))]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def evaluate(program: Program, points):
    """Return what a program computes in float64."""
    values = [points.astype(np.float64)]
    for step in program.steps:
        one = values[step.sources[0]]
        if step.matrix is not None:
            values.append(one @ step.matrix[0] + step.constant[0])
        elif step.sign:
            values.append(one + step.sign * values[step.sources[1]])
        else:
            values.append(np.maximum(one, 0.0))
    return values[-1]


def run(content, points):
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: points})
    return found


@pytest.mark.parametrize("seed", range(rounds(60)))
def test_both_readers_and_the_runtime_agree(tmp_path, seed):
    rng = np.random.default_rng(seed)
    model, path = random_model(rng), tmp_path / "net.onnx"
    onnx.save(model, path)
    read = read_network(path)
    read.program.check()
    other = load_network(path)
    stacked = {key: value[None] for key, value in other.parameters.items()}
    points = rng.normal(size=(50, read.inputs)).astype(np.float32)
    own = evaluate(read.program, points)
    assert (read.inputs, read.labels) == (other.inputs, other.labels)
    np.testing.assert_allclose(own, evaluate(program_of(other.graph, stacked), points), atol=1e-12)
    np.testing.assert_allclose(own, run(model.SerializeToString(), points), rtol=1e-3, atol=1e-3)
    ours, theirs = read.program.layers(), program_of(other.graph, stacked).layers()
    for one, two in zip(ours, theirs, strict=True):
        assert one.sources == two.sources
        np.testing.assert_array_equal(one.bias, two.bias)
        for a, b in zip(one.weights, two.weights, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_damaged_file_is_refused_or_means_what_the_runtime_computes(tmp_path):
    """Two thousand files with some bytes changed, cut out or doubled."""
    rng, path, read = np.random.default_rng(5), tmp_path / "net.onnx", 0
    onnxruntime.set_default_logger_severity(4)
    for _ in range(rounds(2000)):
        content = bytearray(random_model(rng).SerializeToString())
        for _ in range(rng.integers(1, 3)):
            at = int(rng.integers(len(content)))
            match rng.integers(4):
                case 0:
                    content[at] = rng.integers(256)
                case 1:
                    content[at] ^= 1 << rng.integers(8)
                case 2:
                    del content[at : at + rng.integers(1, 4)]
                case 3:
                    content[at:at] = content[at : at + rng.integers(1, 9)]
        path.write_bytes(content)
        try:
            network = read_network(path)
        except Unreadable:
            continue
        points = rng.normal(size=(20, network.inputs)).astype(np.float32)
        try:
            found = run(bytes(content), points)
        except Exception:
            continue
        own, read = evaluate(network.program, points), read + 1
        if np.abs(own).max() < 1e30:
            np.testing.assert_allclose(own, found, rtol=1e-3, atol=1e-3 * (1 + np.abs(own).max()))
    assert read > enough(100)


def save(path, nodes, constants, *, inputs=2, shape=None, domain="", opset=17):
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape or ["n", inputs])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, opset)]), path)
    return path


W = np.eye(2, dtype=np.float32)


@pytest.mark.parametrize(
    ("nodes", "constants", "changes"),
    [
        ([node("MatMul", ["x", "w"], "h"), node("Softmax", ["h"], "y")], {"w": W}, {}),
        ([node("Gemm", ["x", "w"], "y", alpha=0.5)], {"w": W}, {}),
        ([node("Gemm", ["x", "w"], "y", transA=1)], {"w": W}, {}),
        ([node("MatMul", ["w", "x"], "y")], {"w": W}, {}),
        ([node("MatMul", ["x", "w"], "y")], {"w": W, "unused": W}, {}),
        ([node("MatMul", ["x", "w"], "y")], {"w": W.astype(np.float64)}, {}),
        ([node("MatMul", ["x", "w"], "y")], {"w": W * np.float32(np.nan)}, {}),
        ([node("MatMul", ["x", "w"], "y")], {"w": W}, {"shape": ["n", "m"]}),
        ([node("MatMul", ["x", "w"], "y")], {"w": W}, {"shape": [1, 1, 2]}),
        ([node("MatMul", ["x", "w"], "y")], {"w": W}, {"opset": 6}),
        ([node("MatMul", ["x", "w"], "y")], {"w": W}, {"domain": "com.example"}),
        ([node("Add", ["x", "b"], "y")], {"b": np.ones(1, np.float32)}, {}),
        ([node("Add", ["x", "b"], "y")], {"b": np.ones((2, 2), np.float32)}, {}),
        ([node("Sub", ["b", "x"], "y")], {"b": np.ones(2, np.float32)}, {}),
        ([node("Relu", ["x"], "y"), node("Relu", ["x"], "z")], {}, {}),
        ([node("Flatten", ["x"], "h", axis=0), node("MatMul", ["h", "w"], "y")], {"w": W}, {}),
        ([node("Relu", ["h"], "y"), node("MatMul", ["x", "w"], "h")], {"w": W}, {}),
        ([node("MatMul", ["x", "w"], "h"), node("MatMul", ["h", "w"], "y")], {"w": W}, {}),
    ],
)
def test_what_is_not_read_is_refused(tmp_path, nodes, constants, changes):
    with pytest.raises(Unreadable, match="no network of dense layers"):
        read_network(save(tmp_path / "net.onnx", nodes, constants, **changes))


@pytest.fixture
def network(tmp_path):
    nodes = [node("Gemm", ["x", "w", "b"], "y", transB=1)]
    constants = {"w": W, "b": np.ones(2, np.float32)}
    return read_network(save(tmp_path / "net.onnx", nodes, constants))


def family(**changes):
    rng = np.random.default_rng(3)
    arrays = {
        "w": rng.normal(size=(3, 2, 2)).astype(np.float32),
        "b": rng.normal(size=(3, 2)).astype(np.float32),
        "removed": np.array([4, 2, 7]),
    }
    return {key: value for key, value in {**arrays, **changes}.items() if value is not None}


def test_a_family_is_the_network_with_other_constants(tmp_path, network):
    arrays = family()
    np.savez(tmp_path / "family.npz", **arrays)
    read = read_family(tmp_path / "family.npz", network)
    assert (len(read), read.removed.tolist()) == (3, [4, 2, 7])
    points = np.random.default_rng(1).normal(size=(5, 2))
    for member in range(3):
        found = evaluate(read.take(np.array([member])), points)
        np.testing.assert_array_equal(
            found, points @ arrays["w"][member].T.astype(np.float64) + arrays["b"][member]
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"removed": None},
        {"removed": np.array([1, 2])},
        {"removed": np.array([-1, 2, 3])},
        {"removed": np.array([1.0, 2.0, 3.0])},
        {"b": None},
        {"b": np.ones((3, 2))},
        {"b": np.ones((3, 3), np.float32)},
        {"b": np.full((3, 2), np.inf, np.float32)},
        {"more": np.ones((3, 2), np.float32)},
        {"manifest": np.frombuffer(b"[]", np.uint8)},
        {"manifest": np.frombuffer(b'{"sample": {"size": true}}', np.uint8)},
        {"manifest": np.frombuffer(b'{"sample": null, "sample": null}', np.uint8)},
    ],
)
def test_another_family_is_refused(tmp_path, network, changes):
    np.savez(tmp_path / "family.npz", **family(**changes))
    with pytest.raises(Unreadable):
        read_family(tmp_path / "family.npz", network)


def test_one_network_is_a_family_of_another_of_its_architecture(tmp_path, network):
    reader, constants = DenseReader(), {"w": 2 * W, "b": np.ones(2, np.float32)}
    path = tmp_path / "other.onnx"
    save(path, [node("Gemm", ["x", "w", "b"], "y", transB=1)], constants)
    alone = reader.alone(path, network)
    assert len(alone) == 1
    found = evaluate(alone.take(np.zeros(1, np.int64)), np.ones((1, 2)))
    assert found.tolist() == [[3.0, 3.0]]
    save(path, [node("Gemm", ["x", "w", "b"], "y")], constants)
    with pytest.raises(Unreadable, match="architecture"):
        reader.alone(path, network)


def fields(name, *, bias=True):
    """Return a model of which a field can be given another wire type, which others skip."""
    constants = {"w": W, "bias": np.full(2, 9, np.float32)}
    given = ["x", "w", "bias"] if bias else ["x", "w"]
    nodes = [helper.make_node("Gemm", given, ["y"], name=name, alpha=1.0)]
    held = [numpy_helper.from_array(value, key) for key, value in constants.items()]
    ends = [helper.make_tensor_value_info(k, TensorProto.FLOAT, ["n", 2]) for k in "xy"]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], held)
    imports = [helper.make_opsetid("", 13)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


@pytest.mark.parametrize(
    ("old", "new", "grow"),
    [
        # A name of four bytes as a number of four bytes; the node's name is a byte longer.
        (b"\x0a\x04bias", b"\x0dbias", (b"\x1a\x03nnn", b"\x1a\x04nnnn")),
        # A factor as four bytes of text.
        (
            b"\x0a\x05alpha\x15\x00\x00\x80\x3f",
            b"\x0a\x05alpha\x12\x04\x00\x00\x80\x3f",
            (b"\x1a\x03nnn", b"\x1a\x02nn"),
        ),
        # A factor that says that it is a whole number.
        (b"\xa0\x01\x01", b"\xa0\x01\x02", (b"", b"")),
    ],
)
def test_a_field_of_another_wire_type_is_not_read(tmp_path, old, new, grow):
    content = fields("nnn")
    assert old in content
    changed = content.replace(old, new, 1)
    changed = changed.replace(*grow, 1) if grow[0] else changed
    assert len(changed) == len(content)
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert read_network(path).labels == 2
    path.write_bytes(changed)
    with pytest.raises(Unreadable, match=r"is not read|of its type"):
        read_network(path)


def test_an_output_that_is_named_twice_is_refused(tmp_path):
    path = save(tmp_path / "net.onnx", [node("MatMul", ["x", "w"], "y")], {"w": W})
    model = onnx.load(path)
    model.graph.output.append(model.graph.output[0])
    path.write_bytes(model.SerializeToString())
    with pytest.raises(Unreadable):
        read_network(path)
