"""A worker process: trains the blocks it is told to, one at a time.

It reads a `Task`, then the networks of a block as a range; it answers each with any number of
`Step`, then `Done` or `Failed`.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.frames import follow, own_channel, read_frame, write_frame
from leaveout.models.train.architecture import layers_of
from leaveout.models.train.blocks import write_block
from leaveout.models.train.recipe import Recipe

__all__ = ["Done", "Event", "Failed", "Step", "Task", "main"]


@dataclass(frozen=True, eq=False)
class Task:
    """What all blocks of a run share.

    Attributes
    ----------
    recipe : Recipe
    folder : str
        Where blocks go.
    device : str
    X : ndarray of float32, shape (rows, features)
    y : ndarray of int64, shape (rows,)
    labels : int
        How many there are.
    """

    recipe: Recipe
    folder: str
    device: str
    X: NDArray[np.float32]
    y: NDArray[np.int64]
    labels: int


@dataclass(frozen=True)
class Step:
    """So many epochs of the block are behind."""

    epochs: int


@dataclass(frozen=True)
class Done:
    """The block is on disk."""


@dataclass(frozen=True)
class Failed:
    """The block cannot be trained or written."""

    message: str


Event = Step | Done | Failed


def _train(task: Task, block: range, say: Callable[[Event], None]) -> Event:
    from leaveout.models.train.stacked import Stack

    layers = layers_of(task.recipe, task.X.shape[1], task.labels)
    removed = np.arange(block.start, block.stop) - 1
    stack = Stack(layers, task.recipe, task.X, task.y, removed, task.device)
    stack.train(lambda epochs: say(Step(epochs)))
    parameters = stack.parameters()
    finite = np.isfinite(parameters).all(axis=1)
    if not finite.all():
        network = block.start + int(np.argmin(finite))
        name = f"the member without row {network - 1}" if network else "the network"
        return Failed(f"training diverged: {name} has weights that are not finite; lower --lr")
    try:
        write_block(Path(task.folder), block.start, block.stop, parameters)
    except OSError as error:
        return Failed(f"{task.folder}: cannot be written: {error.strerror}")
    return Done()


def main() -> None:
    """Train the blocks that the parent names, until it is gone."""
    requests, answers = own_channel()
    task = read_frame(requests, Task)
    orders: queue.SimpleQueue[range] = queue.SimpleQueue()
    follow(requests, range, orders.put)

    import torch

    # One thread a process: the order of summation then depends on shapes alone.
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")
    if task.device != "cpu":
        torch.use_deterministic_algorithms(True)

    def say(event: Event) -> None:
        write_frame(answers, event)

    while True:
        say(_train(task, orders.get(), say))


if __name__ == "__main__":
    # Under its importable name, so that messages have the classes the parent knows.
    from leaveout.models.train import worker

    worker.main()
