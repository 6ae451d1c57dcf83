"""The memory that stacked training steps in: weights, and the values of a batch, padded.

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
    """Work space for batches of one size, padded.

    Layer ``l`` multiplies ``inputs[l]``, (members, fan_in + 1, positions * batch), with ones in
    row ``fan_in``; layer 0's is shared by all members. ``outputs[l]`` is its value before the
    ReLU, ``gradients[l]`` the loss's gradient by it, both (members, outputs, positions * batch);
    ``slopes[l]`` the gradient by ``inputs[l]``.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]
    gradients: list[Tensor]
    slopes: list[Tensor]

    def first(self, members: int) -> Buffers:
        """View those of the first members."""
        parts = (self.inputs, self.outputs, self.gradients, self.slopes)
        return Buffers(*([each[:members] for each in part] for part in parts))


def padded(size: int) -> int:
    """Return the size that a matrix is given in place of this one."""
    return -(-size // _MULTIPLE) * _MULTIPLE


def padded_weights(
    layer: Layer, weight: NDArray[np.float32], members: int, device: torch.device
) -> Tensor:
    """Return a layer's weights, (outputs, fan_in + 1), once a member, padded."""
    import torch

    whole = np.zeros((padded(layer.outputs), padded(layer.fan_in + 1)), dtype=np.float32)
    whole[: weight.shape[0], : weight.shape[1]] = weight
    return torch.from_numpy(whole).to(device).repeat(members, 1, 1)


def allocate(
    layers: tuple[Layer, ...], *, members: int, batch: int, device: torch.device
) -> Buffers:
    """Return work space for batches of a size that is padded already."""
    import torch

    def zeros(members: int, rows: int, layer: Layer) -> Tensor:
        shape = (members, padded(rows), layer.positions * batch)
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
