"""Whether an ONNX model computes the same as a user's model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.onnx_values import read_parameters
from leaveout.models.replay import session

_TOLERANCE = 1e-3
"""Of the largest score: above float32 rounding of any network small enough, below a misreading."""


def refuse_infinite(model: onnx.ModelProto, name: str) -> None:
    """Raise TrainingError on float64 or infinite parameters."""
    for item in model.graph.initializer:
        if item.data_type == onnx.TensorProto.DOUBLE:
            raise TrainingError(
                f"{name}: {item.name!r} is float64: train in float32, as in module.float()"
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
        f"{name}: its ONNX export gives other scores than the model itself; export it in fit, and "
        "return the ONNX model"
    )
