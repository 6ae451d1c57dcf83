"""The result of a user's training as an ONNX model with one score per label."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from leaveout.errors import ModelError, TrainingError
from leaveout.models.onnx.reader import TREES
from leaveout.models.onnx.values import read_parameters, refuse_other_files
from leaveout.models.replay import session
from leaveout.models.train.own.preprocessing import Probes

_TOLERANCE = 1e-3
"""Share of the largest score: above float32 rounding in small networks, below a misreading."""


def refuse_infinite(model: onnx.ModelProto, name: str) -> None:
    """Raise TrainingError on infinite parameters or float64 ones."""
    for item in model.graph.initializer:
        if item.data_type == onnx.TensorProto.DOUBLE:
            raise TrainingError(
                f"{name}: {item.name!r} is float64: train in float32, e.g. with module.float()"
            )
    for parameter, value in read_parameters(model).items():
        if not np.isfinite(value).all():
            raise not_finite(parameter, name)


def not_finite(parameter: str, name: str) -> TrainingError:
    """Return the error for diverged training."""
    return TrainingError(
        f"{name}: {parameter!r} has weights that are not finite: training diverged; lower its "
        "learning rate, or scale the features"
    )


def refuse_disagreement(
    model: onnx.ModelProto,
    points: NDArray[np.float32],  # shape (rows, features)
    expected: Callable[[], Any],
    name: str,
    of: Callable[[NDArray[np.floating]], NDArray[np.floating]] = lambda scores: scores,
    cure: str = "export it in fit, and return the ONNX model",
) -> None:
    """Raise TrainingError if scores on some rows differ beyond rounding."""
    refuse_infinite(model, name)
    opened = session(model, name)
    (entry,) = opened.get_inputs()
    found = of(np.asarray(opened.run(None, {entry.name: points})[0]))
    wide = np.asarray(expected(), dtype=np.float64)
    if found.shape == wide.shape:
        scale = 1 + np.max(np.abs(wide), initial=0)
        if np.allclose(found, wide, rtol=0, atol=_TOLERANCE * scale, equal_nan=True):
            return
    raise TrainingError(
        f"{name}: its ONNX export computes different scores from the model itself: {cure}"
    )


_RETURN = (
    "return the trained torch module, an ONNX model (ModelProto, bytes or path), or a fitted "
    "scikit-learn estimator"
)
OF_TREES = ("Forest", "Tree", "Boost", "XGB", "LGBM")
"""Words in the names of classifiers that are trees."""
_SAMPLES = 10_000
"""Rows on which an export is checked: few may reach a branch that depends on the data."""

_CUTS = frozenset({"Clip", "HardSigmoid"})
"""Operators that turn a number into a probability, one half at 0."""


def model_of(
    result: Any, X: NDArray[np.float32], labels: int, name: str, raw: Probes | None = None
) -> bytes:
    """Return a trained network as a serialised ONNX model."""
    points = np.ascontiguousarray(X[:_SAMPLES])
    model = _model(result, points, labels, name, raw)
    refuse_infinite(model, name)
    found = _scores(model, points[:2], name)
    one = labels == 2 and found.shape == (len(points[:2]), 1)
    last = model.graph.output[0].name
    if one and any(last in node.output and node.op_type in _CUTS for node in model.graph.node):
        raise TrainingError(
            f"{name} ends in a single clipped number: remove the clipping and return the number "
            "before it, which is above 0 for the second label, or return two scores"
        )
    if not one and found.shape != (len(points[:2]), labels):
        raise TrainingError(
            f"{name} returns scores of shape {found.shape} for {len(points[:2])} rows; expected "
            f"({len(points[:2])}, {labels}), one score for each of the {labels} labels"
        )
    return bytes(model.SerializeToString(deterministic=True))


def _model(
    result: Any, points: NDArray[np.float32], labels: int, name: str, raw: Probes | None
) -> onnx.ModelProto:
    if hasattr(result, "get_params") and hasattr(result, "fit"):
        from leaveout.models.train.own.from_sklearn import estimator_model

        return estimator_model(result, points, labels, name, raw)
    if raw is not None:
        raise TrainingError(
            f"{name}: with raw=True fit must return a fitted scikit-learn estimator, but returned "
            f"a {type(result).__name__}"
        )
    if "torch" in sys.modules:
        import torch

        if isinstance(result, torch.nn.Module):
            from leaveout.models.train.own.from_torch import module_model

            return module_model(result, points, name)
    if isinstance(result, onnx.ModelProto):
        model = onnx.ModelProto()
        model.CopyFrom(result)
        return _whole(model, name)
    if isinstance(result, (bytes, bytearray, str, os.PathLike)):
        return _read(result, name)
    what = "None" if result is None else f"a {type(result).__name__}"
    expected = TREES if any(word in what for word in OF_TREES) else _RETURN
    raise TrainingError(f"fit returned {what} as {name}: {expected}")


def _read(result: Any, name: str) -> onnx.ModelProto:
    try:
        if isinstance(result, (bytes, bytearray)):
            return _whole(onnx.load_from_string(bytes(result)), name)
        return _whole(onnx.load(Path(result)), name)
    except FileNotFoundError:
        raise TrainingError(f"{name}: fit returned the path {result}: no such file") from None
    except (OSError, DecodeError, ValueError) as error:
        line = (str(error).strip().splitlines() or ["damaged"])[0]
        raise TrainingError(f"{name}: not an ONNX model ({line}): {_RETURN}") from None


def _whole(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    try:
        refuse_other_files(model, name)
        onnx.checker.check_model(model)
    except ModelError as error:
        raise TrainingError(str(error)) from None
    except onnx.checker.ValidationError as error:
        line = (str(error).strip().splitlines() or ["damaged"])[0]
        raise TrainingError(f"{name}: not a valid ONNX model: {line}") from None
    return model


def _scores(model: onnx.ModelProto, points: NDArray[np.float32], name: str) -> NDArray[np.floating]:
    """Evaluate a model unchanged, one row at a time if it supports no more."""
    from leaveout.models.replay import session

    try:
        opened = session(model, name)
        (entry,) = opened.get_inputs()
        sizes = [size for size in entry.shape[1:] if isinstance(size, int)]
        shaped = points.reshape(len(points), *sizes) if len(sizes) > 1 else points
        step = 1 if entry.shape[:1] == [1] else len(points)
        parts = [
            np.asarray(opened.run(None, {entry.name: shaped[start : start + step]})[0])
            for start in range(0, len(points), step)
        ]
    except Exception as error:
        raise TrainingError(
            f"{name} fails on rows of {points.shape[1]} features: "
            f"{' '.join(str(error).split())[:300]}"
        ) from None
    return np.concatenate(parts) if parts[0].ndim else np.asarray(parts)
