"""All randomness of training, drawn by numpy and hence independent of torch's version."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike, NDArray

from leaveout.models.train.architecture import Layer

_INITIAL, _SHUFFLE, _DROPOUT, _SAMPLE = range(4)


def _generator(seed: int, *key: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, *key))))


def initial_weights(layers: tuple[Layer, ...], seed: int) -> list[NDArray[np.float32]]:
    """Draw the initial weights of every network."""
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


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of the whole data in ``X`` and ``y`` of a training, in order.

    Attributes
    ----------
    total : int
        Number of rows of the whole data.
    removed : int or None
        The missing row or group.
    groups : ndarray of int64, shape (total,), or None
        The group of each row; None if each row is missing alone.
    """

    total: int
    removed: int | None = None
    groups: NDArray[np.int64] | None = None

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Each row of ``X`` as its number in the whole data, shape (rows,)."""
        return np.flatnonzero(self._present)

    @cached_property
    def _present(self) -> NDArray[np.bool_]:
        """Whether each row of the whole data is in ``X``."""
        units = np.arange(self.total) if self.groups is None else self.groups
        present: NDArray[np.bool_] = units != (-1 if self.removed is None else self.removed)
        return present

    def __len__(self) -> int:
        return int(self._present.sum())

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> NDArray[np.int64]:
        return np.asarray(self.numbers, dtype=dtype)

    def order(self, seed: int, epoch: int) -> NDArray[np.int64]:
        """Return positions in ``X`` in the order an epoch visits them, shape (rows,).

        It is one shuffle of all rows, the same for all networks, with missing ones skipped.
        """
        return np.concatenate(list(self._cut(seed, epoch, self.total)))

    def batches(self, size: int, seed: int) -> OrderedBatches:
        """Return batches that differ from those of all rows only by missing rows."""
        return OrderedBatches(self, size, seed)

    def _cut(self, seed: int, epoch: int, size: int) -> Iterator[NDArray[np.int64]]:
        drawn = shuffle(seed, epoch, self.total)
        places = np.cumsum(self._present) - 1
        for start in range(0, self.total, size):
            batch = drawn[start : start + size]
            batch = places[batch[self._present[batch]]]
            if len(batch):
                yield batch


class OrderedBatches:
    """Batches of positions in ``X``; each pass over them is one epoch.

    Each epoch shuffles all rows, by seed and epoch alone, and divides them into batches; then the
    missing rows are removed. So batches without one equal those of the network on all rows. (A
    batch of missing rows alone is skipped.) Pass it to a `torch.utils.data.DataLoader` as
    ``batch_sampler``.

    Parameters
    ----------
    rows : Rows
    size : int
        Rows per batch.
    seed : int
        At least 0.
    """

    def __init__(self, rows: Rows, size: int, seed: int) -> None:
        if size < 1:
            raise ValueError(f"batches of {size} rows; expected at least 1")
        self._rows, self._size, self._seed = rows, size, seed
        self._epoch = 0

    def __iter__(self) -> Iterator[list[int]]:
        epoch, self._epoch = self._epoch, self._epoch + 1
        for batch in self._rows._cut(self._seed, epoch, self._size):
            yield batch.tolist()

    def __len__(self) -> int:
        # The count for all rows: in some epochs missing rows may be a batch by themselves.
        return -(-self._rows.total // self._size)
