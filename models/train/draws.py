"""All randomness of training, drawn by numpy, independent of the torch version."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.architecture import Layer

_INITIAL, _SHUFFLE, _DROPOUT, _SAMPLE = range(4)


def _generator(seed: int, *key: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, *key))))


def initial_weights(layers: tuple[Layer, ...], seed: int) -> list[NDArray[np.float32]]:
    """Draw the weights that every network starts from."""
    generator = _generator(seed, _INITIAL)
    drawn = []
    for layer in layers:
        limit = 1 / math.sqrt(layer.fan_in)
        weight = generator.uniform(-limit, limit, (layer.outputs, layer.fan_in))
        bias = generator.uniform(-limit, limit, (layer.outputs, 1))
        drawn.append(np.hstack([weight, bias]).astype(np.float32))
    return drawn


def shuffle(seed: int, epoch: int, rows: int) -> NDArray[np.int64]:
    """Return the order in which an epoch visits the rows, shape (rows,)."""
    return _generator(seed, _SHUFFLE, epoch).permutation(rows)


def draw_rows(seed: int, rows: int, size: int, draw: int = 1) -> NDArray[np.int64]:
    """Draw rows uniformly among all sets of a size, ascending."""
    key = (_SAMPLE,) if draw == 1 else (_SAMPLE, draw)
    drawn = _generator(seed, *key).permutation(rows)[:size]
    return np.sort(drawn.astype(np.int64))


def epoch_generator(seed: int, epoch: int) -> np.random.Generator:
    """Return the random generator of an epoch's dropout masks."""
    return _generator(seed, _DROPOUT, epoch)


def dropout_mask(
    generator: np.random.Generator, shape: tuple[int, ...], probability: float
) -> NDArray[np.float32]:
    """Draw float32 factors: 0 with ``probability``, else 1 / (1 - probability)."""
    kept = generator.random(shape, dtype=np.float32) >= np.float32(probability)
    return kept * np.float32(1 / (1 - probability))
