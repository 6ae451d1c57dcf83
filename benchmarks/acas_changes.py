"""Changed copies of a network: rounded, pruned, perturbed, trained a little further."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["KINDS", "SEEDED", "NoTorchError", "changed"]

Floats = NDArray[np.float32]
Values = Mapping[str, Floats]
Box = tuple[NDArray[np.float64], NDArray[np.float64]]

PRUNED = 0.05
"""Share of the weights of each layer that become 0: the smallest."""

NOISE = 1e-3
"""Standard deviation of what is added to a parameter, relative to it."""

STEPS, RATE, BATCH, SPREAD = 50, 0.03, 256, 0.05
"""Of further training: steps of SGD, their rate, points each, and deviation of their targets."""


class NoTorchError(Exception):
    """Training needs torch."""


def changed(model: onnx.ModelProto, kind: str, seed: int, box: Box) -> onnx.ModelProto:
    """Copy a network and change its parameters.

    Parameters
    ----------
    model : onnx.ModelProto
    kind : str
        Of `KINDS`.
    seed : int
        Of noise and training; the others have no use for it.
    box : pair of ndarray of float64, shape (features,)
        Where points to train on are from, uniformly.

    Raises
    ------
    NoTorchError
        If training is asked for without torch.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    values = {each.name: numpy_helper.to_array(each) for each in copy.graph.initializer}
    floats = {name: value for name, value in values.items() if value.dtype == np.float32}
    new = KINDS[kind](copy, floats, np.random.default_rng(seed), box)
    for each in copy.graph.initializer:
        if each.name in new:
            value = np.asarray(new[each.name], np.float32, order="C")
            each.CopyFrom(numpy_helper.from_array(value, each.name))
    return copy


def _rounded(_: onnx.ModelProto, values: Values, __: np.random.Generator, ___: Box) -> Values:
    return {name: value.astype(np.float16).astype(np.float32) for name, value in values.items()}


def _pruned(_: onnx.ModelProto, values: Values, __: np.random.Generator, ___: Box) -> Values:
    def cut(value: Floats) -> Floats:
        count = int(PRUNED * value.size)
        smallest = np.argsort(np.abs(value), axis=None, kind="stable")[:count]
        flat = value.flatten()
        flat[smallest] = 0.0
        return flat.reshape(value.shape)

    return {name: cut(value) for name, value in values.items() if value.ndim == 2}


def _perturbed(_: onnx.ModelProto, values: Values, rng: np.random.Generator, __: Box) -> Values:
    return {
        name: (value * (1 + NOISE * rng.standard_normal(value.shape))).astype(np.float32)
        for name, value in values.items()
    }


def _retrained(
    model: onnx.ModelProto, values: Values, rng: np.random.Generator, box: Box
) -> Values:
    """Take steps towards the network's own scores with noise."""
    try:
        import torch
    except ImportError:
        raise NoTorchError("training needs torch: pip install 'leaveout[train]'") from None
    lower, upper = box
    fixed = {name: torch.tensor(value) for name, value in values.items()}
    own = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
    optimiser = torch.optim.SGD(own.values(), lr=RATE)
    for _ in range(STEPS):
        x = torch.tensor(rng.uniform(lower, upper, (BATCH, len(lower))).astype(np.float32))
        with torch.no_grad():
            target = _scores(model, fixed, x)
            noise = rng.standard_normal(tuple(target.shape)).astype(np.float32)
            target = target + SPREAD * torch.tensor(noise)
        optimiser.zero_grad()
        ((_scores(model, own, x) - target) ** 2).mean().backward()
        optimiser.step()
    return {name: value.detach().numpy() for name, value in own.items()}


def _scores(model: onnx.ModelProto, values: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Run a chain of the operators that ACAS Xu has, and Gemm, in torch."""
    # Old files list what is fixed among the inputs, too.
    given = next(each.name for each in model.graph.input if each.name not in values)
    found = {**values, given: x}
    for node in model.graph.node:
        found[node.output[0]] = _apply(node, [found[name] for name in node.input])
    return found[model.graph.output[0].name]


def _apply(node: onnx.NodeProto, given: list[Tensor]) -> Tensor:
    settings = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    match node.op_type:
        case "Sub":
            return given[0] - given[1].reshape(-1)
        case "Flatten":
            return given[0]
        case "MatMul":
            return given[0] @ given[1]
        case "Gemm":
            weights = given[1].T if settings.get("transB") else given[1]
            return given[0] @ weights + given[2]
        case "Add":
            return given[0] + given[1]
        case "Relu":
            return given[0].clamp(min=0)
    raise ValueError(f"{node.op_type} is not trained")


KINDS: Mapping[str, Callable[[onnx.ModelProto, Values, np.random.Generator, Box], Values]] = {
    "float16": _rounded,
    "pruned": _pruned,
    "perturbed": _perturbed,
    "retrained": _retrained,
}
"""Every kind of change."""

SEEDED = frozenset({"perturbed", "retrained"})
"""Those that another seed makes another copy of."""
