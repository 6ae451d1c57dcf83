"""Activations of normal forms: smooth neurons among ReLUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.smooth import Kinds, by_kind

Numbers = NDArray[np.floating[Any]]


def activate(values: Numbers, kinds: Kinds | None) -> Numbers:
    """Return what neurons make of pre-activations, along the last axis: smooth ones nearly."""
    found: Numbers = np.maximum(values, 0.0)
    bend(values, kinds, found)
    return found


def bend(
    values: Numbers, kinds: Kinds | None, outputs: Numbers, slopes: Numbers | None = None
) -> None:
    """Write the outputs, and perhaps slopes, of smooth neurons where a ReLU's are."""
    for curve, at in by_kind(kinds) if kinds is not None else ():
        value, slope = curve.at(values[..., at].astype(np.float64))
        outputs[..., at] = value - curve.function.floor
        if slopes is not None:
            slopes[..., at] = slope


def beside(parts: Sequence[tuple[Kinds | None, int]]) -> Kinds | None:
    """Return the kinds of neurons side by side, given those of each part and its width."""
    if all(kinds is None for kinds, _ in parts):
        return None
    return np.concatenate([np.zeros(n, np.int8) if k is None else k for k, n in parts])


def same(one: Kinds | None, other: Kinds | None) -> bool:
    """Return whether neurons are of the same kinds."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)
