"""Learnt scores of a brancher as plain data."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from leaveout.bab.native.branching import Brancher


def pack_scores(brancher: Brancher) -> dict[str, Any]:
    """Return gains, averages and generator state as JSON; no proof rests on them."""
    return {name: _plain(value) for name, value in vars(brancher).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    return copy.deepcopy(value)


def load_scores(brancher: Brancher, known: dict[str, Any]) -> None:
    """Restore the scores of a brancher, ignoring what does not fit."""
    for name, value in vars(brancher).items():
        if name not in known:
            continue
        if isinstance(value, np.ndarray):
            array = np.array(known[name], value.dtype)
            if array.shape == value.shape:
                value[...] = array
        elif isinstance(value, np.random.Generator):
            value.bit_generator.state = known[name]
        elif isinstance(value, bool):
            setattr(brancher, name, bool(known[name]))
        elif isinstance(value, dict):
            value.update(copy.deepcopy(known[name]))
