"""Steps of stacked training: optimisers, learning rates and class weights.

Whatever a step computes beside matrix products, it computes by operations that round once each, so
that a number's bits depend on where it lies in a stack as little as those of the products do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.products import Products
from leaveout.models.train.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor


_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


def learning_rate(recipe: Recipe, epoch: int) -> float:
    """Return an epoch's rate, from 0, as torch's StepLR and CosineAnnealingLR do."""
    rate = recipe.learning_rate
    if recipe.schedule == "step":
        return float(rate * recipe.step_factor ** (epoch // recipe.step_every))
    if recipe.schedule == "cosine":
        return rate * (1 + math.cos(math.pi * epoch / recipe.epochs)) / 2
    return rate


def class_weights(recipe: Recipe, y: NDArray[np.int64], labels: int) -> NDArray[np.float64] | None:
    """Return each label's weight in the loss, or None if all are equal.

    Balanced: rows / (labels * rows of the label), over all rows, so every member has the same.
    """
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
        """Start a step; ``resting`` members get their `state` back after it."""

    def state(self) -> list[Tensor]:
        """Return everything that `step` changes, members along the first axis."""
        return self._weights

    def fork(self, members: slice) -> None:
        """Copy the first member's state to some members."""
        for each in self.state():
            each[members] = each[:1]

    def step(self, layer: int, gradient: Tensor, entry: Tensor) -> None:
        """Update a layer of the first members, one per gradient, in one fused product."""
        keep = 1 - self.rate * self._recipe.weight_decay
        weight = self._weights[layer][: len(gradient)]
        self._products.add(weight, gradient, entry.transpose(1, 2), keep=keep, times=-self.rate)


class _Decayed(Stepper):
    """Stepping by the gradient of loss and decay."""

    def _slope(self, layer: int, gradient: Tensor, entry: Tensor) -> Tensor:
        slope = self._products.product(gradient, entry.transpose(1, 2))
        if self._recipe.weight_decay:
            weight = self._weights[layer][: len(gradient)]
            slope.add_(weight.mul(self._recipe.weight_decay))
        return slope


class _Momentum(_Decayed):
    """SGD with momentum, as torch has it: v = momentum * v + slope."""

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
    """Adam, with decay added to the gradient; each member counts its own steps."""

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
