"""Padded memory for stacked training steps: weights and the values of a batch.

Every size is padded with zeros to a multiple of 4. A member's matrices then take a multiple of
64 bytes, so that all members' lie alike in memory: the order in which a product is summed
may depend on how a matrix is aligned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.architecture import Layer

if TYPE_CHECKING:
    import torch
    from torch import Tensor


_MULTIPLE = 4


@dataclass(frozen=True, eq=False)
class Buffers:
    """Padded work space for batches of one size.

    Layer ``l``: ``inputs[l]``, shared for layer 0, gives ``outputs[l]`` before the ReLU;
    ``gradients`` and ``slopes`` are the loss's by either.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]
    gradients: list[Tensor]
    slopes: list[Tensor]

    def first(self, members: int) -> Buffers:
        """Return views of the first members."""
        parts = (self.inputs, self.outputs, self.gradients, self.slopes)
        return Buffers(*([each[:members] for each in part] for part in parts))


def pad_size(size: int) -> int:
    """Return the padded size of a matrix dimension."""
    return -(-size // _MULTIPLE) * _MULTIPLE


def padded_weights(
    layer: Layer, weight: NDArray[np.float32], members: int, device: torch.device
) -> Tensor:
    """Return a layer's padded weights, (outputs, fan_in + 1), one copy per member."""
    import torch

    whole = np.zeros((pad_size(layer.outputs), pad_size(layer.fan_in + 1)), dtype=np.float32)
    whole[: weight.shape[0], : weight.shape[1]] = weight
    return torch.from_numpy(whole).to(device).repeat(members, 1, 1)


def allocate(
    layers: tuple[Layer, ...], *, members: int, batch: int, device: torch.device
) -> Buffers:
    """Return work space for batches of an already padded size."""
    import torch

    def zeros(members: int, rows: int, layer: Layer) -> Tensor:
        shape = (members, pad_size(rows), layer.positions * batch)
        return torch.zeros(shape, device=device)

    buffers = Buffers([], [], [], [])
    for index, layer in enumerate(layers):
        entry = zeros(members if index else 1, layer.fan_in + 1, layer)
        entry[:, layer.fan_in] = 1
        buffers.inputs.append(entry.expand(members, -1, -1))
        buffers.outputs.append(zeros(members, layer.outputs, layer))
        buffers.gradients.append(zeros(members, layer.outputs, layer))
        slope = zeros(members if index else 0, layer.fan_in, layer)
        if index and slope.shape == buffers.gradients[index - 1].shape:
            slope = buffers.gradients[index - 1]
        buffers.slopes.append(slope)
    return buffers
