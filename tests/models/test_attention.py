"""Transformers as torch exports them, and data whose batch axis is moved."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from onnx import helper, numpy_helper

from leaveout.errors import ModelError
from leaveout.models import architecture_hash, load_network
from leaveout.models.onnx.file import network_from, network_from_bytes

from support import networks

F32 = np.float32
node = helper.make_node


def transformer(torch, kind):
    """Return three tokens of four numbers, a layer, and scores."""
    layer = {
        "attention": torch.nn.MultiheadAttention(4, 2, batch_first=True),
        "encoder": torch.nn.TransformerEncoderLayer(4, 2, 6, batch_first=True),
        "heads": torch.nn.Linear(4, 12),
        "token": torch.nn.Linear(4, 12),
    }[kind]

    class Transformer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer
            self.token = torch.nn.Parameter(torch.rand(1, 1, 4))
            self.first, self.last = torch.nn.Linear(2, 12), torch.nn.Linear(4, 2)

        def forward(self, x):
            h = self.first(x).reshape(-1, 3, 4)
            if kind == "token":
                h = torch.cat([self.token.expand(x.shape[0], -1, -1), h], 1)
            if kind in ("heads", "token"):
                parts = self.layer(h).reshape(-1, h.shape[1], 3, 2, 2).permute(2, 0, 3, 1, 4)
                near = torch.nn.functional.scaled_dot_product_attention(*parts)
                h = h + near.transpose(1, 2).reshape(-1, h.shape[1], 4)
            else:
                h = self.layer(h, h, h)[0] if kind == "attention" else self.layer(h)
            return self.last(h[:, 0] + h[:, 1])

    return Transformer().eval()


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", ["attention", "encoder", "heads", "token"])
def test_transformers_are_read_as_torch_computes_them(kind, batch, tmp_path):
    torch = pytest.importorskip("torch", reason="what is exported is a model of torch")
    torch.manual_seed(1)
    model, path = transformer(torch, kind), tmp_path / "net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, (torch.rand(batch, 2),), str(path), dynamo=False, input_names=["x"],
            dynamic_axes=None if batch == 1 else {"x": {0: "n"}},
        )  # fmt: skip
    network = load_network(path)
    points = np.random.default_rng(0).normal(size=(9, 2)).astype(F32)
    expected = model(torch.tensor(points)).detach().numpy()
    assert np.abs(network.stack.scores(points.astype(float))[0] - expected).max() < 1e-5
    assert np.abs(network.runner().scores(points) - expected).max() < 1e-5


def moved(*between, shape=("n", 2, 3), width=6, **held):
    """Return a model that computes between two moves of the batch axis."""
    wholes = {"merged": [-1, 3, 1], "apart": [-1, 2, 1, 3]}
    nodes = [
        node("Constant", [], [name], value=numpy_helper.from_array(np.int64(value)))
        for name, value in wholes.items()
    ]
    nodes += [*between, node("Flatten", ["r"], ["f"]), node("MatMul", ["f", "V"], ["y"])]
    rng = np.random.default_rng(2)
    held |= {"V": rng.normal(size=(width, 2)).astype(F32), "W": rng.normal(size=(3, 3)).astype(F32)}
    held["b"] = rng.normal(size=3).astype(F32)
    model = networks.model(nodes, held, list(shape), [shape[0], 2])
    model.opset_import[0].version = 17
    return model


ASIDE = node("Transpose", ["x"], ["t"], perm=[1, 0, 2])
BACK = node("Transpose", ["s"], ["r"], perm=[1, 0, 2])
READ = {
    "a dense layer": [ASIDE, node("MatMul", ["t", "W"], ["s"]), BACK],
    "its bias": [
        ASIDE, node("MatMul", ["t", "W"], ["m"]), node("Add", ["m", "b"], ["s"]), BACK,
    ],
    "a softmax": [ASIDE, node("Softmax", ["t"], ["s"], axis=2), BACK],
    "from behind": [ASIDE, node("Softmax", ["t"], ["s"], axis=-1), BACK],
    "over tokens": [ASIDE, node("Softmax", ["t"], ["s"], axis=0), BACK],
    "heads in one batch": [
        node("Reshape", ["x", "merged"], ["m"]),
        node("Transpose", ["m"], ["t"], perm=[0, 2, 1]),
        node("Reshape", ["t", "apart"], ["r"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("batch", ["n", 1])
@pytest.mark.parametrize("case", READ)
def test_a_batch_axis_may_be_moved(case, batch):
    network = network_from(moved(*READ[case], shape=(batch, 2, 3)), "net.onnx")
    points = np.random.default_rng(3).normal(size=(5, 6)).astype(F32)
    found = network.stack.scores(points.astype(float))[0]
    assert np.abs(found - network.runner().scores(points)).max() < 1e-5
    assert bool(network.graph.notes) == (batch == "n")


@pytest.mark.parametrize("shape", [("n", 1, 6), (1, 1, 6)])
def test_an_axis_of_size_one_may_come_before_that_of_the_batch(shape):
    network = network_from(moved(ASIDE, node("Relu", ["t"], ["s"]), BACK, shape=shape), "net.onnx")
    points = np.random.default_rng(3).normal(size=(5, 6)).astype(F32)
    found = network.stack.scores(points.astype(float))[0]
    assert np.abs(found - network.runner().scores(points)).max() < 1e-5


@pytest.mark.parametrize("left", [True, False])
def test_data_without_a_batch_axis_may_be_multiplied_by_a_vector(left):
    nodes = [node("Reshape", ["x", "two"], ["t"])]
    nodes.append(node("MatMul", ["v", "t"] if left else ["t", "v"], ["y"]))
    held = {"two": np.int64([2, 3]), "v": np.arange(1, 3 if left else 4).astype(F32)}
    model = networks.model(nodes, held, [6], [3 if left else 2])
    network = network_from_bytes(model.SerializeToString(), "net.onnx")
    points = np.random.default_rng(3).normal(size=(5, 6)).astype(F32)
    found = network.stack.scores(points.astype(float))[0]
    assert np.abs(found - network.runner().scores(points)).max() < 1e-5


@pytest.mark.parametrize("between", [[], [node("Identity", ["t"], ["i"])]])
def test_transposed_data_times_a_vector_is_refused_whatever_its_numbers(between):
    """The two are fused wrongly by onnxruntime 1.31; a member of zeros does not show it."""
    nodes = [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), *between]
    nodes.append(node("MatMul", [nodes[-1].output[0], "v"], ["y"]))
    model = networks.model(nodes, {"v": np.zeros(4, F32)}, ["n", 4, 2], ["n", 2])
    with pytest.raises(ModelError, match="multiplied by a vector"):
        network_from_bytes(model.SerializeToString(), "net.onnx")


OVER = node("Reshape", ["s", "over"], ["r"])


@pytest.mark.parametrize(
    ("nodes", "width"),
    [
        ([ASIDE, node("Softmax", ["t"], ["s"], axis=1), BACK], 6),
        ([ASIDE, node("LayerNormalization", ["t", "one"], ["s"], axis=1), BACK], 6),
        # Below 0 alone, and in batches of two alone.
        ([ASIDE, node("Min", ["t", "zero"], ["s"]), OVER], 6),
        ([ASIDE, node("Add", ["t", "pair"], ["s"]), node("Flatten", ["s"], ["r"], axis=0)], 12),
    ],
)
def test_what_mixes_samples_is_refused(nodes, width):
    held = {"one": np.ones((1, 3), F32), "zero": F32(0), "pair": np.ones((2, 2, 3), F32)}
    model = moved(*nodes, width=width, over=np.int64([-1, 2, 3]), **held)
    with pytest.raises(ModelError, match=r"depend on the others of a batch|mixes the samples"):
        network_from(model, "net.onnx")


def test_an_old_softmax_without_a_batch_axis_is_over_its_second_axis_or_refused():
    """Before opset 13 it is over all axes from the second on, if nothing else is said."""
    aside = [node("Reshape", ["x", "flat"], ["t"]), node("Softmax", ["t"], ["s"])]
    for flat, said in (([6], "out of range"), ([2, 3], "")):
        model = moved(*aside, node("Reshape", ["s", "back"], ["r"]), shape=(1, 2, 3))
        for name, value in (("flat", flat), ("back", [1, 6])):
            model.graph.initializer.append(numpy_helper.from_array(np.int64(value), name))
        model.opset_import[0].version = 12
        if said:
            with pytest.raises(ModelError, match=said):
                network_from(model, "net.onnx")
            continue
        network = network_from(model, "net.onnx")
        points = np.random.default_rng(3).normal(size=(5, 6)).astype(F32)
        found = network.stack.scores(points.astype(float))[0]
        assert np.abs(found - network.runner().scores(points)).max() < 1e-5


@pytest.mark.parametrize(
    ("nodes", "shape", "told"),
    [
        ([ASIDE, node("Concat", ["t", "t"], ["s"], axis=0), BACK], ("n", 2, 3), "batch_first=True"),
        ([ASIDE, node("Reshape", ["t", "fixed"], ["r"])], (5, 2, 3), "for a batch of 1"),
        (
            [node("Expand", ["token", "five"], ["t"]), node("Concat", ["t", "x"], ["r"], axis=1)],
            (5, 2, 3),
            "for a batch of 1",
        ),
    ],
)
def test_a_refusal_tells_how_to_export(nodes, shape, told):
    held = {
        "fixed": np.int64([2, 15]),
        "five": np.int64([5, 1, 1]),
        "token": np.ones((1, 1, 3), F32),
    }
    with pytest.raises(ModelError, match=told):
        network_from(moved(*nodes, shape=shape, **held), "net.onnx")


def test_numbers_flattened_across_a_batch_are_refused():
    nodes = [node("Reshape", ["x", "over"], ["r"]), node("Flatten", ["r"], ["y"], axis=0)]
    model = networks.model(nodes, {"over": np.int64([-1])}, ["n", 1], [1, "n"])
    with pytest.raises(ModelError, match="mixes the samples"):
        network_from(model, "net.onnx")


def test_members_without_a_batch_axis_take_as_many_numbers_as_the_network():
    nodes = [node("Gather", ["x", "first"], ["g"], axis=0), node("MatMul", ["g", "W"], ["y"])]
    held = {"first": np.int64([0, 1]), "W": np.eye(2, dtype=F32)}
    models = [networks.model(nodes, held, shape, [*shape[:-1], 2]) for shape in ([2], [3], [1, 2])]
    assert len({architecture_hash(model) for model in models}) == 3
