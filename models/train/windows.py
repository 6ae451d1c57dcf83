"""Windows of signals for convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leaveout.models.train.architecture import Conv

if TYPE_CHECKING:
    from torch import Tensor


def unfold(signal: Tensor, layer: Conv, target: Tensor) -> None:
    """Write the windows of a (members, channels, length, batch) signal as columns of ``target``."""
    shape = (len(signal), layer.channels, layer.width, layer.positions, -1)
    windows = target[:, : layer.fan_in].view(shape)
    for offset in range(layer.width):
        windows[:, :, offset] = signal[:, :, offset : offset + layer.positions]


def fold(windows: Tensor, layer: Conv, target: Tensor) -> None:
    """Add up window gradients into the signal's gradient, the adjoint of `unfold`."""
    shape = (len(windows), layer.channels, layer.width, layer.positions, -1)
    parts = windows[:, : layer.fan_in].view(shape)
    target.zero_()
    for offset in range(layer.width):
        target[:, :, offset : offset + layer.positions] += parts[:, :, offset]
