"""Blocks of networks of a recipe, trained as one stack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.architecture import layers_of
from leaveout.models.train.device import device_facts
from leaveout.models.train.recipe import Recipe
from leaveout.models.train.task import (
    Block,
    Check,
    Checked,
    Event,
    Failed,
    Order,
    Step,
    Task,
    digest_of,
    name_of,
)

__all__ = ["StackedTask"]

_BATCHES = 10
"""Steps of an epoch of a check, the last with a batch of one row less."""


@dataclass(frozen=True, eq=False)
class StackedTask(Task):
    """What all blocks of a run share.

    Attributes
    ----------
    recipe : Recipe
    folder : str
        Where blocks go; empty if workers cannot write there.
    device : str
    X : ndarray of float32, shape (rows, features)
    y : ndarray of int64, shape (rows,)
    labels : int
        How many there are.
    removed : ndarray of int64, shape (members,)
        The row each member lacks.
    reference : str
        See `Task.reference`.
    """

    recipe: Recipe
    folder: str
    device: str
    X: NDArray[np.float32]
    y: NDArray[np.int64]
    labels: int
    removed: NDArray[np.int64]
    reference: str = ""

    @property
    def gpus(self) -> int:  # type: ignore[override]
        """See `Task.gpus`."""
        return int(self.device != "cpu")

    def prepare(self) -> None:
        """Fix the order of summation: with one thread it depends on shapes alone."""
        import torch

        torch.set_num_threads(1)
        torch.set_float32_matmul_precision("highest")
        if self.device != "cpu":
            torch.use_deterministic_algorithms(True)

    def do(self, order: Order, say: Callable[[Step], None]) -> Event:
        """See `Task.do`."""
        from leaveout.models.train.stacked import NOTHING, Stack

        if isinstance(order, Check):
            return Checked(self._digest())
        assert isinstance(order, Block)
        networks, epochs = order.networks, self.recipe.epochs
        layers = layers_of(self.recipe, self.X.shape[1], self.labels)
        # Network 0 lacks no row.
        removed = np.append(NOTHING, self.removed)[networks.start : networks.stop]
        stack = Stack(layers, self.recipe, self.X, self.y, removed, self.device)
        stack.train(lambda epoch: say(Step(epoch / epochs)))
        parameters = stack.parameters()
        finite = np.isfinite(parameters).all(axis=1)
        if not finite.all():
            name = name_of(networks.start + int(np.argmin(finite)), self.removed)
            return Failed(f"training diverged: {name} has weights that are not finite; lower --lr")
        return self.kept(networks, parameters)

    def _digest(self) -> str:
        """Digest what some steps on the first rows give, with the shapes of a whole training.

        Rounding may differ for rare numbers alone, so what the manifest says of the device counts
        as well.
        """
        from leaveout.models.train.stacked import NOTHING, Stack

        recipe = msgspec.structs.replace(self.recipe, epochs=2, class_weights=())
        rows = slice(min(len(self.X), _BATCHES * recipe.batch - 1))
        layers = layers_of(recipe, self.X.shape[1], self.labels)
        removed = np.array([NOTHING, 0], dtype=np.int64)
        stack = Stack(layers, recipe, self.X[rows], self.y[rows], removed, self.device)
        stack.train()
        facts = " ".join(map(str, device_facts(self.device).values()))
        return f"{digest_of(stack.parameters())} {facts}"
