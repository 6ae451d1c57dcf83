"""A torch module as an ONNX model, compared with the module on rows of the data."""

from __future__ import annotations

import copy
import inspect
import io
import logging
import warnings
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.errors import TrainingError, cause
from leaveout.models.train.own.convert import not_finite, refuse_disagreement

_OPSET = 17
_ALONE = 4  # rows evaluated individually
_TOLERANCE = 1e-3  # share of their largest score
_CHANGES = ("Dropout", "BatchNorm", "InstanceNorm", "RReLU")
"""Parts of names of torch's classes that behave differently in training."""


def module_model(module: Any, points: NDArray[np.float32], name: str) -> onnx.ModelProto:
    """Export a trained module in evaluation mode."""
    import torch

    for part, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.device.type != "cpu":
            raise TrainingError(
                f"{name}: {part!r} is on the device {tensor.device}: return module.cpu()"
            )
        if tensor.is_floating_point() and tensor.dtype != torch.float32:
            raise TrainingError(f"{name}: {part!r} is {tensor.dtype}: return module.float()")
    for part, each in module.named_modules():
        kind = type(each).__name__
        if each.training and any(word in kind for word in _CHANGES):
            raise TrainingError(
                f"{name}: {kind} {part!r} is in training mode: call module.eval() before "
                "returning the module"
            )
    module.eval()
    inputs = torch.from_numpy(points)
    try:
        with torch.no_grad():
            expected = module(inputs)
            again = module(inputs)
            alone = [module(inputs[row : row + 1]) for row in range(min(_ALONE, len(inputs)))]
    except Exception as error:
        raise TrainingError(
            f"{name}: the module fails on rows of {points.shape[1]} features: {cause(error)}"
        ) from None
    if not isinstance(expected, torch.Tensor):
        raise TrainingError(
            f"{name}: the module returns a {type(expected).__name__}; expected one tensor of scores"
        )
    weights = {key: value for key, value in module.state_dict().items() if torch.is_tensor(value)}
    for key, value in weights.items():
        if not bool(torch.isfinite(value).all()):
            raise not_finite(key, name)
    if not torch.equal(expected, again):
        raise TrainingError(
            f"{name}: the module returns different scores each time: it also draws random "
            "numbers in evaluation mode; make that depend on self.training"
        )
    few = expected[: len(alone)]
    scale = 1 + float(few.abs().max())
    if not torch.allclose(torch.cat(alone), few, rtol=0, atol=_TOLERANCE * scale, equal_nan=True):
        raise TrainingError(
            f"{name}: a row's scores depend on the other rows in its batch: let forward treat "
            "each row separately, as BatchNorm does with running statistics"
        )
    model = _export(module, inputs[:2], name)
    refuse_disagreement(model, points, expected.numpy, name)
    return model


def _plain(module: Any) -> Any:
    """Return a copy with unflattens replaced by reshapes, as exporters cannot write unflattens."""
    import torch

    class Reshape(torch.nn.Module):
        def __init__(self, sizes: tuple[int, ...]) -> None:
            super().__init__()
            self._sizes = sizes

        def forward(self, x: Any) -> Any:
            return x.reshape(-1, *self._sizes) if x.ndim == 2 else x.unflatten(1, self._sizes)

    kind = torch.nn.Unflatten
    if not any(type(each) is kind for each in module.modules()):
        return module
    module = copy.deepcopy(module)
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if type(child) is kind and child.dim == 1 and -1 not in child.unflattened_size:
                setattr(parent, name, Reshape(tuple(child.unflattened_size)))
    return module


def _export(module: Any, inputs: Any, name: str) -> onnx.ModelProto:
    import torch

    module = _plain(module)
    settings: dict[str, Any] = {"opset_version": _OPSET, "input_names": ["x"]}
    settings["output_names"] = ["scores"]
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        # This exporter is fast, and keeps the names of parameters.
        settings["dynamo"] = False
    axes = {"x": {0: "batch"}, "scores": {0: "batch"}}
    content: Any = io.BytesIO()
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                module, (inputs,), content, dynamic_axes=axes, do_constant_folding=False, **settings
            )
    except Exception as error:
        raise TrainingError(
            f"{name}: the module cannot be exported to ONNX ({cause(error)}); export it in fit, "
            "and return the ONNX model"
        ) from None
    finally:
        logging.disable(level)
    return onnx.load_from_string(content.getvalue())
