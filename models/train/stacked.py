"""Stacked training: many networks step together, each with one row masked out.

Until the first batch that contains their left-out rows, networks are identical: only one of them
steps, and the others continue from it once they differ.

Values have the batch along the last axis, so that a layer is one batched product ``(outputs, fan_in
+ 1) x (fan_in + 1, batch)`` per member; the bias is the last column of the weights and meets a row
of ones. With plain SGD, gradient, weight decay and step are one fused product.

Every size is padded, see `pad_size`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.architecture import Conv, Layer
from leaveout.models.train.draws import dropout_mask, epoch_generator, initial_weights, shuffle
from leaveout.models.train.recipe import Recipe

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_MULTIPLE = 4


@dataclass(frozen=True, eq=False)
class Buffers:
    """Padded work space: layer l takes ``inputs[l]`` to ``outputs[l]``, before the ReLU."""

    # ``gradients`` and ``slopes`` are the loss's derivatives by outputs and inputs.

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


@dataclass(frozen=True)
class Products:
    """Products of a fixed number of members, on which a GPU's sums, so a member's bits, depend."""

    group: int | None = None  # None for all

    def fill_size(self, members: int) -> int:
        """Return the stack size that some members need."""
        return members if self.group is None else -(-members // self.group) * self.group

    def multiply(self, left: Tensor, right: Tensor, out: Tensor) -> None:
        """Write ``left @ right`` to ``out``, (members, ...); ``left`` may have more members."""
        import torch

        if self.group is None:
            torch.bmm(left[: len(out)], right, out=out)
            return
        for part in self._parts(len(out), self.group):
            torch.bmm(left[part], right[part], out=out[part])

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return ``left @ right``, shape (members, ...)."""
        out = left.new_empty((len(left), left.shape[1], right.shape[2]))
        self.multiply(left, right, out)
        return out

    def add(self, out: Tensor, left: Tensor, right: Tensor, *, keep: float, times: float) -> None:
        """Replace ``out`` by ``keep * out + times * left @ right``, (members, ...)."""
        for part in self._parts(len(out), self.group or len(out)):
            out[part].baddbmm_(left[part], right[part], beta=keep, alpha=times)

    @staticmethod
    def _parts(members: int, step: int) -> Iterator[slice]:
        return (slice(start, start + step) for start in range(0, members, step))


_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


def learning_rate(recipe: Recipe, epoch: int) -> float:
    """Return the rate of an epoch, counted from 0, as torch's StepLR and CosineAnnealingLR do."""
    rate = recipe.learning_rate
    if recipe.schedule == "step":
        return float(rate * recipe.step_factor ** (epoch // recipe.step_every))
    if recipe.schedule == "cosine":
        return rate * (1 + math.cos(math.pi * epoch / recipe.epochs)) / 2
    return rate


def class_weights(recipe: Recipe, y: NDArray[np.int64], labels: int) -> NDArray[np.float64] | None:
    """Return each label's weight in the loss, balanced over all rows; None if all are equal."""
    given = recipe.class_weights
    if not given:
        return None
    if given == "balanced":
        counts = np.maximum(np.bincount(y, minlength=labels), 1)
        return np.asarray(len(y) / (labels * counts))
    return np.asarray(given, dtype=np.float64)


class Stepper:
    """Plain SGD on the weights of a stack."""

    def __init__(self, weights: list[Tensor], recipe: Recipe, products: Products) -> None:
        self._weights = weights
        self._recipe = recipe
        self._products = products
        self.rate = recipe.learning_rate

    def begin(self, resting: NDArray[np.int64]) -> None:
        """Start a step; ``resting`` members get their former `state` back after it."""

    def state(self) -> list[Tensor]:
        """Return all arrays that `step` changes, members along the first axis."""
        return self._weights

    def fork(self, members: slice) -> None:
        """Copy the first member's state to other members."""
        for each in self.state():
            each[members] = each[:1]

    def step(self, layer: int, gradient: Tensor, entry: Tensor) -> None:
        """Update a layer of the first members, one per gradient, in one fused product."""
        keep = 1 - self.rate * self._recipe.weight_decay
        weight = self._weights[layer][: len(gradient)]
        self._products.add(weight, gradient, entry.transpose(1, 2), keep=keep, times=-self.rate)


class _Decayed(Stepper):
    """Steps along the gradient of loss and decay."""

    def _slope(self, layer: int, gradient: Tensor, entry: Tensor) -> Tensor:
        slope = self._products.product(gradient, entry.transpose(1, 2))
        if self._recipe.weight_decay:
            weight = self._weights[layer][: len(gradient)]
            slope.add_(weight.mul(self._recipe.weight_decay))
        return slope


class _Momentum(_Decayed):
    """SGD with momentum as in torch: v = momentum * v + slope."""

    def __init__(self, weights: list[Tensor], recipe: Recipe, products: Products) -> None:
        super().__init__(weights, recipe, products)
        self._speed = [weight.new_zeros(weight.shape) for weight in weights]

    def state(self) -> list[Tensor]:
        return [*self._weights, *self._speed]

    def step(self, layer: int, gradient: Tensor, entry: Tensor) -> None:
        weight, speed = (each[layer][: len(gradient)] for each in (self._weights, self._speed))
        speed.mul_(self._recipe.momentum).add_(self._slope(layer, gradient, entry))
        weight.sub_(speed.mul(self.rate))


class _Adam(_Decayed):
    """Adam, with decay added to the gradient; each member counts its steps separately."""

    def __init__(self, weights: list[Tensor], recipe: Recipe, products: Products) -> None:
        super().__init__(weights, recipe, products)
        self._mean = [weight.new_zeros(weight.shape) for weight in weights]
        self._square = [weight.new_zeros(weight.shape) for weight in weights]
        self._taken = np.zeros(len(weights[0]), dtype=np.int64)

    def begin(self, resting: NDArray[np.int64]) -> None:
        self._taken += 1
        self._taken[resting] -= 1
        self._by_mean, self._by_square = (
            self._spread([1 - beta ** max(int(count), 1) for count in self._taken])
            for beta in _BETAS
        )
        self._by_square.sqrt_()

    def state(self) -> list[Tensor]:
        return [*self._weights, *self._mean, *self._square]

    def fork(self, members: slice) -> None:
        super().fork(members)
        self._taken[members] = self._taken[0]

    def step(self, layer: int, gradient: Tensor, entry: Tensor) -> None:
        slope, count = self._slope(layer, gradient, entry), len(gradient)
        weight, mean, square = (
            each[layer][:count] for each in (self._weights, self._mean, self._square)
        )
        square.mul_(_BETAS[1]).add_(slope.mul(slope).mul_(1 - _BETAS[1]))
        mean.mul_(_BETAS[0]).add_(slope.mul_(1 - _BETAS[0]))
        below = square.sqrt().div_(self._by_square[:count]).add_(_EPSILON)
        weight.sub_(mean.div(self._by_mean[:count]).div_(below).mul_(self.rate))

    def _spread(self, values: list[float]) -> Tensor:
        import torch

        spread = torch.tensor(values, dtype=torch.float32)
        return spread.to(self._weights[0].device)[:, None, None]


def make_stepper(weights: list[Tensor], recipe: Recipe, products: Products) -> Stepper:
    """Return the stepper of a recipe."""
    if recipe.optimizer == "adam":
        return _Adam(weights, recipe, products)
    return (_Momentum if recipe.momentum else Stepper)(weights, recipe, products)


def unfold(signal: Tensor, layer: Conv, target: Tensor) -> None:
    """Write the windows of a (members, channels, length, batch) signal as columns of ``target``."""
    shape = (len(signal), layer.channels, layer.width, layer.positions, -1)
    windows = target[:, : layer.fan_in].view(shape)
    for offset in range(layer.width):
        windows[:, :, offset] = signal[:, :, offset : offset + layer.positions]


def fold(windows: Tensor, layer: Conv, target: Tensor) -> None:
    """Sum window gradients into the signal's gradient, the adjoint of `unfold`."""
    shape = (len(windows), layer.channels, layer.width, layer.positions, -1)
    parts = windows[:, : layer.fan_in].view(shape)
    target.zero_()
    for offset in range(layer.width):
        target[:, :, offset : offset + layer.positions] += parts[:, :, offset]


NOTHING = -1
"""Marks a network that lacks no row."""

_ROOMS = 4
_GATHERED = 2**15  # rows gathered at a time in the order of an epoch


_EVEN = 64
"""Numbers are bent in multiples of so many: vectors and what is left of one may round apart."""


def _evenly(function: Callable[..., Tensor], *given: Tensor) -> Tensor:
    """Apply a function number by number, with bits that do not depend on where numbers are."""
    import torch

    shape, count = given[0].shape, given[0].numel()
    parts = [each.new_zeros(-(-count // _EVEN) * _EVEN) for each in given]
    for part, each in zip(parts, given, strict=True):
        part[:count].view(shape).copy_(each)
    with torch.no_grad():
        return function(*parts)[:count].view(shape)


def _activate(name: str, z: Tensor) -> Tensor:
    """Return a smooth activation of values."""
    import torch

    function = torch.nn.functional
    known: dict[str, Callable[..., Tensor]] = {
        "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": function.gelu,
        "silu": function.silu, "softplus": function.softplus, "elu": function.elu,
    }  # fmt: skip
    return _evenly(known[name], z)


def _pull_back(name: str, gradient: Tensor, z: Tensor) -> Tensor:
    """Return a gradient in values before a smooth activation."""
    import torch

    aten = torch.ops.aten
    known: dict[str, Callable[..., Tensor]] = {
        "tanh": lambda g, z: aten.tanh_backward(g, torch.tanh(z)),
        "sigmoid": lambda g, z: aten.sigmoid_backward(g, torch.sigmoid(z)),
        "gelu": aten.gelu_backward,
        "silu": aten.silu_backward,
        "softplus": lambda g, z: aten.softplus_backward(g, z, 1, 20),
        "elu": lambda g, z: aten.elu_backward(g, 1, 1, 1, False, z),
    }
    return _evenly(known[name], gradient, z)


@dataclass(frozen=True, eq=False)
class _Batch:
    """One step's data; member ``members[i]`` lacks column ``columns[i]``."""

    x: Tensor
    truth: Tensor
    masks: list[Tensor]
    shares: NDArray[np.float64]
    members: NDArray[np.int64]
    columns: NDArray[np.int64]

    @property
    def size(self) -> int:
        return self.x.shape[1]


class Stack:
    """Networks trained together, which differ only in the row each lacks.

    A member's bits do not depend on the rest of the stack: every operation works on one member at a
    time, in an order fixed by the shapes alone (LUCID's definition of iDP-DB compares networks
    trained alike; its program masks the row out of its batch).
    """

    def __init__(
        self,
        layers: tuple[Layer, ...],
        recipe: Recipe,
        X: NDArray[np.float32],
        y: NDArray[np.int64],
        removed: NDArray[np.int64],
        device: str = "cpu",
        product: int | None = None,
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        import torch

        self._layers = layers
        self._recipe = recipe
        self._device = torch.device(device)
        self._products = Products(product)
        units = np.arange(len(y)) if groups is None else groups
        first = _first_places(removed, recipe, units)
        # First the network that stays with all others longest, then in the order in which they
        # part.
        order = np.argsort(first, kind="stable")
        order = np.concatenate([order[-1:], order[:-1]])
        self._places = np.argsort(order)
        self._parting = np.concatenate([[0], first[order[1:]]])
        filler = np.full(self._products.fill_size(len(removed)) - len(removed), NOTHING)
        self._removed = np.concatenate([removed[order], filler])
        # Each network paired with each row it lacks.
        self._lacking = _lacking_rows(self._removed, units)
        self._apart = self._products.fill_size(1)
        self._x = self._resident(X)
        self._y = self._resident(y)
        self._weights = [
            padded_weights(layer, weight, len(self._removed), self._device)
            for layer, weight in zip(layers, initial_weights(layers, recipe.seed), strict=True)
        ]
        self._stepper = make_stepper(self._weights, recipe, self._products)
        weights = class_weights(recipe, y, layers[-1].outputs)
        self._shares = np.ones(len(y)) if weights is None else weights[y]
        self._buffers: dict[int, Buffers] = {}

    def train(self, on_step: Callable[[float], None] | None = None) -> None:
        """Run all epochs; ``on_step`` receives the finished share after each step."""
        done, whole = 0, self._work()
        for epoch in range(self._recipe.epochs):
            for work in self._epoch(epoch):
                done += work
                if on_step is not None:
                    on_step(done / whole)

    def parameters(self) -> NDArray[np.float32]:
        """Return the networks' parameters."""
        parts = []
        for layer, weight in zip(self._layers, self._weights, strict=True):
            array = weight[:, : layer.outputs, : layer.fan_in + 1].cpu().numpy()[self._places]
            parts += [array[:, :, :-1].reshape(len(array), -1), array[:, :, -1]]
        return np.hstack(parts)

    def network_bytes(self) -> int:
        """Return how many bytes each network takes while it trains."""
        rows, batch = len(self._x), self._recipe.batch
        held = {id(each): each.nbytes for each in self._stepper.state()}
        # While a layer is updated, several copies of its slopes exist, and one more of a value.
        room = _ROOMS * max(weight.nbytes for weight in self._weights)
        for size in {pad_size(min(batch, rows)), pad_size(rows % batch or batch)}:
            buffers = self._allocate(size)
            values = [*buffers.inputs[1:], *buffers.outputs, *buffers.gradients, *buffers.slopes]
            held |= {id(each): each.nbytes for each in values}
            room += max(each.nbytes for each in buffers.outputs)
        return -(-(sum(held.values()) + room) // len(self._removed))

    def shared_bytes(self) -> int:
        """Return how many bytes all networks share: the data."""
        gathered = min(len(self._x), _GATHERED) * (self._x[0].nbytes + 4 * self._layers[-1].outputs)
        return self._x.nbytes + self._y.nbytes + gathered

    def _resident(self, array: NDArray[np.float32] | NDArray[np.int64]) -> Tensor:
        """Put data on the device; on a CPU it is shared and read-only."""
        import torch

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The given NumPy array is not writable")
            return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def _part(self, members: int) -> None:
        """Split off the first ``members``, which start as copies of the first one."""
        members = self._products.fill_size(members)
        if members > self._apart:
            self._stepper.fork(slice(self._apart, members))
            self._apart = members

    def _work(self) -> int:
        """Return how many rows all networks step through in total."""
        rows, batch = len(self._x), self._recipe.batch
        # A network steps from the batch with its row on, with all networks of the same product.
        first = self._parting[:: self._apart]
        starts = np.where(first < rows, first // batch * batch, rows)
        shared = self._apart * int((rows - starts).sum())
        return shared + (self._recipe.epochs - 1) * len(self._removed) * rows

    def _epoch(self, epoch: int) -> Iterator[int]:
        """Run an epoch; yield the rows stepped through after each step."""
        recipe, rows = self._recipe, len(self._x)
        order = shuffle(recipe.seed, epoch, rows)
        where = np.empty_like(order)
        where[order] = np.arange(rows)
        networks, lacked = self._lacking
        place = where[lacked]
        generator = epoch_generator(recipe.seed, epoch)
        self._stepper.rate = learning_rate(recipe, epoch)
        for start, x, truth in self._batches(order):
            stop = start + x.shape[1]
            here = np.flatnonzero((place >= start) & (place < stop))
            members = networks[here]
            if len(members):
                self._part(int(members[-1]) + 1)
            self._step(
                _Batch(
                    x,
                    truth,
                    self._masks(generator, stop - start),
                    self._shares[order[start:stop]],
                    members,
                    place[here] - start,
                )
            )
            yield self._apart * (stop - start)
        # Now also those without a removed row.
        self._part(len(self._removed))

    def _batches(self, order: NDArray[np.int64]) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield each batch's start, features (features, size) and one-hot labels."""
        import torch

        batch, rows = self._recipe.batch, len(order)
        labels = torch.arange(self._layers[-1].outputs, device=self._device)[:, None]
        # Batches are gathered several at a time: few steps of large data, many of small ones.
        step = batch * max(1, _GATHERED // batch)
        for first in range(0, rows, step):
            chosen = self._resident(order[first : first + step])
            x = self._x.index_select(0, chosen).t().contiguous()
            truth = (self._y.index_select(0, chosen) == labels).to(torch.float32)
            for start in range(0, len(chosen), batch):
                part = slice(start, start + batch)
                yield first + start, x[:, part], truth[:, part]

    def _masks(self, generator: np.random.Generator, batch: int) -> list[Tensor]:
        import torch

        if not self._recipe.dropout_rate:
            return []
        drawn = [
            dropout_mask(
                generator, (layer.outputs, layer.positions, batch), self._recipe.dropout_rate
            )
            for layer in self._layers[:-1]
        ]
        return [torch.from_numpy(mask).to(self._device) for mask in drawn]

    def _step(self, batch: _Batch) -> None:
        size = pad_size(batch.size)
        if size not in self._buffers:
            self._buffers[size] = self._allocate(size)
        buffers = self._buffers[size]
        if self._apart < len(self._removed):
            buffers = buffers.first(self._apart)
        # A batch of only removed rows is skipped: that member rests.
        members, counts = np.unique(batch.members, return_counts=True)
        rests = members[counts == batch.size]
        state = self._stepper.state() if len(rests) else []
        resting = [each[rests] for each in state]
        self._stepper.begin(rests)
        self._forward(batch, buffers)
        self._loss_gradient(batch, buffers)
        self._backward(batch, buffers)
        for each, kept in zip(state, resting, strict=True):
            each[rests] = kept

    def _forward(self, batch: _Batch, buffers: Buffers) -> None:
        import torch

        self._fill_shared_input(batch.x, buffers.inputs[0])
        for index, layer in enumerate(self._layers):
            value = buffers.outputs[index]
            self._products.multiply(self._weights[index], buffers.inputs[index], value)
            if index == len(self._layers) - 1:
                return
            following, target = self._layers[index + 1], buffers.inputs[index + 1]
            real = value[:, : layer.outputs]
            name = self._recipe.activation
            bent = None if name == "relu" else _activate(name, real)
            if isinstance(following, Conv):
                hidden = self._by_position(real.clamp_min(0) if bent is None else bent, layer)
                if batch.masks:
                    hidden[..., : batch.size].mul_(batch.masks[index])
                unfold(hidden, following, target)
            else:
                hidden = target[:, : following.fan_in]
                if bent is None:
                    torch.clamp_min(real.view(hidden.shape), 0, out=hidden)
                else:
                    hidden.copy_(bent.view(hidden.shape))
                if batch.masks:
                    self._by_position(hidden, layer)[..., : batch.size].mul_(batch.masks[index])

    def _loss_gradient(self, batch: _Batch, buffers: Buffers) -> None:
        """Compute each member's gradient of the mean cross-entropy in the scores."""
        import torch

        scores = buffers.outputs[-1][:, : self._layers[-1].outputs]
        share = torch.zeros((len(scores), 1, scores.shape[2]), device=self._device)
        total = batch.shares.sum()
        share[..., : batch.size] = self._float32(batch.shares / total)
        if len(batch.members):
            members, place, counts = np.unique(
                batch.members, return_inverse=True, return_counts=True
            )
            # A batch of only missing rows has no weight, so any divisor will do.
            rest = np.where(
                counts == batch.size, 1.0, total - np.bincount(place, batch.shares[batch.columns])
            )
            parts = batch.shares[None, None] / rest[:, None, None]
            share[members, :, : batch.size] = self._float32(parts)
            share[batch.members, :, batch.columns] = 0
        gradient = torch.softmax(scores, 1)
        gradient[..., : batch.size].sub_(batch.truth)
        torch.mul(gradient, share, out=buffers.gradients[-1][:, : self._layers[-1].outputs])

    def _float32(self, values: NDArray[np.float64]) -> Tensor:
        import torch

        return torch.from_numpy(values.astype(np.float32)).to(self._device)

    def _backward(self, batch: _Batch, buffers: Buffers) -> None:
        import torch

        for index in range(len(self._layers) - 1, -1, -1):
            layer, weight = self._layers[index], self._weights[index]
            gradient = buffers.gradients[index]
            if index:
                below = self._layers[index - 1]
                slope = buffers.slopes[index]
                across = weight[:, :, : slope.shape[1]].transpose(1, 2)
                self._products.multiply(across, gradient, slope)
                target = buffers.gradients[index - 1]
                if target is not slope:
                    real = self._by_position(target[:, : below.outputs], below)
                    if isinstance(layer, Conv):
                        fold(slope, layer, real)
                    else:
                        real.copy_(self._by_position(slope[:, : layer.fan_in], below))
                if batch.masks:
                    real = self._by_position(target[:, : below.outputs], below)
                    real[..., : batch.size].mul_(batch.masks[index - 1])
                before = buffers.outputs[index - 1]
                if self._recipe.activation == "relu":
                    # Padding is 0 before the ReLU, so that its gradient is 0, too.
                    torch.ops.aten.threshold_backward.grad_input(
                        target, before, 0, grad_input=target
                    )
                else:
                    real = target[:, : below.outputs]
                    z = before[:, : below.outputs]
                    real.copy_(_pull_back(self._recipe.activation, real, z))
                    target[:, below.outputs :] = 0
            self._stepper.step(index, gradient, buffers.inputs[index])

    def _by_position(self, value: Tensor, layer: Layer) -> Tensor:
        """View a layer's outputs as (members, outputs, positions, batch)."""
        return value.view(len(value), layer.outputs, layer.positions, -1)

    def _fill_shared_input(self, x: Tensor, target: Tensor) -> None:
        first, size = self._layers[0], x.shape[1]
        # One copy for all members, by a stride of 0 along the first axis.
        table = target[:1]
        if isinstance(first, Conv):
            signal = x.new_zeros((1, 1, first.length, table.shape[2] // first.positions))
            signal[0, 0, :, :size] = x
            unfold(signal, first, table)
        else:
            table[0, : first.fan_in, :size] = x

    def _allocate(self, batch: int) -> Buffers:
        members = len(self._removed)
        return allocate(self._layers, members=members, batch=batch, device=self._device)


def _first_places(
    removed: NDArray[np.int64], recipe: Recipe, units: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the first place of each unit's rows in the first epoch; past the end for `NOTHING`."""
    rows = len(units)
    first = np.full(int(units.max()) + 1, rows, dtype=np.int64)
    np.minimum.at(first, units[shuffle(recipe.seed, 0, rows)], np.arange(rows))
    return np.where(removed == NOTHING, rows, first[removed])


def _lacking_rows(
    removed: NDArray[np.int64], units: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs of a network and a row that it lacks, by network."""
    order = np.argsort(units, kind="stable")
    starts = np.searchsorted(units[order], np.arange(int(units.max()) + 2))
    counts = np.where(removed == NOTHING, 0, np.diff(starts)[removed])
    networks = np.repeat(np.arange(len(removed)), counts)
    inside = np.arange(len(networks)) - np.repeat(np.cumsum(counts) - counts, counts)
    return networks, order[starts[removed[networks]] + inside]
