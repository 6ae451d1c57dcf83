"""Transformers as torch exports them, and data whose batch axis is moved."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from onnx import helper, numpy_helper

from leaveout.errors import ModelError
from leaveout.models import load_network
from leaveout.models.onnx.file import network_from

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


def moved(*between, shape=("n", 2, 3)):
    """Return a model that computes between two moves of the batch axis."""
    wholes = {"merged": [-1, 3, 1], "apart": [-1, 2, 1, 3]}
    nodes = [
        node("Constant", [], [name], value=numpy_helper.from_array(np.int64(value)))
        for name, value in wholes.items()
    ]
    nodes += [*between, node("Flatten", ["r"], ["f"]), node("MatMul", ["f", "V"], ["y"])]
    rng = np.random.default_rng(2)
    held = {"V": rng.normal(size=(6, 2)).astype(F32), "W": rng.normal(size=(3, 3)).astype(F32)}
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


@pytest.mark.parametrize(
    "nodes",
    [
        [ASIDE, node("Softmax", ["t"], ["s"], axis=1), BACK],
        [ASIDE, node("LayerNormalization", ["t", "one"], ["s"], axis=1), BACK],
    ],
)
def test_what_mixes_samples_is_refused(nodes):
    model = moved(*nodes)
    model.graph.initializer.append(numpy_helper.from_array(np.ones((1, 3), F32), "one"))
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
