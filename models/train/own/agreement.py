"""Whether an ONNX model computes what a user's model computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.replay import session

__all__ = ["refuse_disagreement"]

_TOLERANCE = 1e-3
"""Of the largest score: above float32 rounding of any network small enough, below a misreading."""


def refuse_disagreement(
    model: onnx.ModelProto,
    points: NDArray[np.float32],
    expected: NDArray[np.floating],
    name: str,
    of: Callable[[NDArray[np.floating]], NDArray[np.floating]] = lambda scores: scores,
) -> None:
    """Compare scores on some rows; raises TrainingError if they differ by more than rounding.

    Parameters
    ----------
    model : onnx.ModelProto
    points : ndarray of float32, shape (rows, features)
    expected : ndarray, shape (rows, ...)
        What the user's model gives.
    name : str
        What the message calls it.
    of : callable
        What of the scores that is.
    """
    opened = session(model, name)
    (entry,) = opened.get_inputs()
    found = of(np.asarray(opened.run(None, {entry.name: points})[0]))
    if found.shape == expected.shape:
        wide = np.asarray(expected, dtype=np.float64)
        scale = 1 + np.max(np.abs(wide), initial=0)
        if np.allclose(found, wide, rtol=0, atol=_TOLERANCE * scale, equal_nan=True):
            return
    raise TrainingError(
        f"{name}: its ONNX export gives other scores than the model itself; export it in fit, and "
        "return the ONNX model"
    )
