"""Stacked training: many networks step together, each with one row of the data masked out.

Values are kept with the batch along the last axis, so that a layer is one batched product
``(outputs, fan_in + 1) x (fan_in + 1, batch)`` a member, the bias being the last column of
the weights against a row of ones. Gradient, weight decay and step are one fused product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.architecture import Conv, Layer
from leaveout.models.train.draws import dropout_mask, epoch_generator, initial_weights, shuffle
from leaveout.models.train.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NOTHING", "Stack"]

NOTHING = -1
"""In place of a removed row: the network lacks none."""


@dataclass(frozen=True, eq=False)
class _Buffers:
    """Work space for batches of one size.

    ``inputs[l]`` is what layer ``l`` multiplies, (members, fan_in + 1, positions * batch) with
    ones in the last row (layer 0's is shared by all members and made anew each batch);
    ``outputs[l]`` its value before the ReLU; ``slopes[l]`` the gradient of its input.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]
    slopes: list[Tensor]


@dataclass(frozen=True, eq=False)
class _Batch:
    """One step's data.

    ``x`` is (features, batch), ``truth`` the one-hot labels (labels, batch), ``masks`` the
    dropout factors a hidden layer; member ``members[i]`` lacks column ``columns[i]``.
    """

    x: Tensor
    truth: Tensor
    masks: list[Tensor]
    members: NDArray[np.int64]
    columns: NDArray[np.int64]


class Stack:
    """Networks trained together, equal but for the row each lacks.

    A member's bits do not depend on which others are in the stack: every operation works
    on one member at a time, in an order that only the shapes fix (LUCID's definition of
    iDP-DB compares networks trained alike; its program masks the row out of its batch).

    Parameters
    ----------
    layers : tuple of Layer
    recipe : Recipe
    X : ndarray of float32, shape (rows, features)
    y : ndarray of int64, shape (rows,)
        Labels, 0 to the outputs of the last layer.
    removed : ndarray of int64, shape (members,)
        The row each member lacks, `NOTHING` for none.
    device : str
        A torch device.
    """

    def __init__(
        self,
        layers: tuple[Layer, ...],
        recipe: Recipe,
        X: NDArray[np.float32],
        y: NDArray[np.int64],
        removed: NDArray[np.int64],
        device: str = "cpu",
    ) -> None:
        import torch

        self._layers = layers
        self._recipe = recipe
        self._device = torch.device(device)
        self._removed = removed
        self._x = torch.from_numpy(np.ascontiguousarray(X.T)).to(self._device)
        truth = np.zeros((layers[-1].outputs, len(y)), dtype=np.float32)
        truth[y, np.arange(len(y))] = 1
        self._truth = torch.from_numpy(truth).to(self._device)
        self._weights = [
            torch.from_numpy(weight).to(self._device).repeat(len(removed), 1, 1)
            for weight in initial_weights(layers, recipe.seed)
        ]
        self._buffers: dict[int, _Buffers] = {}

    def train(self, on_epoch: Callable[[int], None] | None = None) -> None:
        """Run all epochs; ``on_epoch`` is told how many are behind."""
        for epoch in range(self._recipe.epochs):
            self._epoch(epoch)
            if on_epoch is not None:
                on_epoch(epoch + 1)

    def parameters(self) -> NDArray[np.float32]:
        """Return the networks' parameters.

        Returns
        -------
        ndarray of float32, shape (members, parameters)
            A row a network, flattened in the order of `parameter_shapes`.
        """
        parts = []
        for weight in self._weights:
            array = weight.cpu().numpy()
            parts += [array[:, :, :-1].reshape(len(array), -1), array[:, :, -1]]
        return np.hstack(parts)

    def _epoch(self, epoch: int) -> None:
        import torch

        recipe, rows = self._recipe, self._x.shape[1]
        order = shuffle(recipe.seed, epoch, rows)
        where = np.empty_like(order)
        where[order] = np.arange(rows)
        place = np.where(self._removed == NOTHING, -1, where[self._removed])
        chosen = torch.from_numpy(order).to(self._device)
        x = self._x.index_select(1, chosen)
        truth = self._truth.index_select(1, chosen)
        generator = epoch_generator(recipe.seed, epoch)
        for start in range(0, rows, recipe.batch):
            stop = min(start + recipe.batch, rows)
            members = np.flatnonzero((place >= start) & (place < stop))
            self._step(
                _Batch(
                    x[:, start:stop],
                    truth[:, start:stop],
                    self._masks(generator, stop - start),
                    members,
                    place[members] - start,
                )
            )

    def _masks(self, generator: np.random.Generator, batch: int) -> list[Tensor]:
        import torch

        if not self._recipe.dropped:
            return []
        return [
            torch.from_numpy(
                dropout_mask(
                    generator, (layer.outputs, layer.positions * batch), self._recipe.dropped
                )
            ).to(self._device)
            for layer in self._layers[:-1]
        ]

    def _step(self, batch: _Batch) -> None:
        size = batch.x.shape[1]
        if size not in self._buffers:
            self._buffers[size] = self._allocate(size)
        buffers = self._buffers[size]
        # A batch that held nothing but the removed row is no batch: that member rests.
        resting = [w[batch.members].clone() for w in self._weights] if size == 1 else []
        self._forward(batch, buffers)
        self._backward(self._gradient(batch, buffers.outputs[-1]), batch, buffers)
        for weight, kept in zip(self._weights, resting, strict=False):
            weight[batch.members] = kept

    def _forward(self, batch: _Batch, buffers: _Buffers) -> None:
        import torch

        last = len(self._layers) - 1
        buffers.inputs[0] = self._shared_input(batch.x)
        for index, layer in enumerate(self._layers):
            value = buffers.outputs[index]
            torch.bmm(self._weights[index], buffers.inputs[index], out=value)
            if index == last:
                return
            target = buffers.inputs[index + 1][:, :-1]
            following = self._layers[index + 1]
            if isinstance(following, Conv):
                hidden = value.clamp_min(0)
                if batch.masks:
                    hidden.mul_(batch.masks[index])
                _unfold(hidden, following, target)
            else:
                flat = value.view(len(value), following.inputs, -1)
                torch.clamp_min(flat, 0, out=target)
                if batch.masks:
                    target.mul_(batch.masks[index].view(layer.outputs * layer.positions, -1))

    def _gradient(self, batch: _Batch, scores: Tensor) -> Tensor:
        """Gradient of the mean cross-entropy over each member's own rows, by the scores."""
        import torch

        size = scores.shape[2]
        gradient = torch.softmax(scores, 1).sub_(batch.truth)
        share = torch.full((len(scores), 1, size), 1 / size, device=self._device)
        if len(batch.members):
            share[batch.members] = 1 / max(size - 1, 1)
            share[batch.members, :, batch.columns] = 0
        return gradient.mul_(share)

    def _backward(self, gradient: Tensor, batch: _Batch, buffers: _Buffers) -> None:
        import torch

        rate = self._recipe.learning_rate
        keep = 1 - rate * self._recipe.weight_decay
        for index in range(len(self._layers) - 1, -1, -1):
            layer, weight = self._layers[index], self._weights[index]
            below = gradient
            if index:
                before = buffers.outputs[index - 1]
                below = buffers.slopes[index]
                torch.bmm(weight[:, :, :-1].transpose(1, 2), gradient, out=below)
                if isinstance(layer, Conv):
                    below = _fold(below, layer)
                below = below.view(before.shape)
                if batch.masks:
                    below.mul_(batch.masks[index - 1])
                torch.ops.aten.threshold_backward.grad_input(below, before, 0, grad_input=below)
            weight.baddbmm_(gradient, buffers.inputs[index].transpose(1, 2), beta=keep, alpha=-rate)
            gradient = below

    def _shared_input(self, x: Tensor) -> Tensor:
        """Return layer 0's input, one for all members (a stride of 0 along the first axis)."""
        import torch

        first, size = self._layers[0], x.shape[1]
        columns = first.positions * size
        table = torch.ones((1, first.fan_in + 1, columns), device=self._device)
        if isinstance(first, Conv):
            _unfold(x.unsqueeze(0), first, table[:, :-1])
        else:
            table[0, :-1] = x
        return table.expand(len(self._removed), -1, -1)

    def _allocate(self, size: int) -> _Buffers:
        import torch

        count = len(self._removed)
        inputs, outputs, slopes = [], [], []
        for layer in self._layers:
            columns = layer.positions * size
            shared = layer is self._layers[0]
            inputs.append(
                torch.ones((1 if shared else count, layer.fan_in + 1, columns), device=self._device)
            )
            outputs.append(torch.empty((count, layer.outputs, columns), device=self._device))
            slopes.append(
                torch.empty((0 if shared else count, layer.fan_in, columns), device=self._device)
            )
        return _Buffers(inputs, outputs, slopes)


def _unfold(signal: Tensor, layer: Conv, target: Tensor) -> None:
    """Write every window of ``signal`` (.., channels * length, batch) as columns of ``target``."""
    count = len(signal)
    source = signal.reshape(count, layer.channels, layer.length, -1)
    windows = target.view(count, layer.channels, layer.width, layer.positions, -1)
    for offset in range(layer.width):
        windows[:, :, offset] = source[:, :, offset : offset + layer.positions]


def _fold(windows: Tensor, layer: Conv) -> Tensor:
    """Add up what `_unfold` spread: the gradient of the signal from that of its windows."""
    count = len(windows)
    parts = windows.view(count, layer.channels, layer.width, layer.positions, -1)
    signal = parts.new_zeros((count, layer.channels, layer.length, parts.shape[-1]))
    for offset in range(layer.width):
        signal[:, :, offset : offset + layer.positions] += parts[:, :, offset]
    return signal
