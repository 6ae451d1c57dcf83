"""A worker process: trains the blocks it is told to, one at a time.

It reads from stdin one line of `Task`, the bytes of the data, then a line an `Order`; it
answers on stdout with lines of `Event`. When stdin ends, its parent has gone, so it does.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.models.train.architecture import layers_of
from leaveout.models.train.blocks import write_block
from leaveout.models.train.recipe import Recipe

__all__ = ["Done", "Event", "Failed", "Order", "Step", "Task", "main", "send_task"]


class Task(msgspec.Struct, frozen=True):
    """What all blocks of a run share."""

    recipe: Recipe
    folder: str
    device: str
    rows: int
    features: int
    labels: int


class Order(msgspec.Struct, frozen=True):
    """Train networks ``start`` to ``stop - 1``."""

    start: int
    stop: int


class Step(msgspec.Struct, frozen=True, tag="step"):
    """So many epochs of the block are behind."""

    epochs: int


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The block is on disk."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The block cannot be trained or written."""

    message: str


Event = Step | Done | Failed


def send_task(stream: IO[bytes], task: Task, X: NDArray[np.float32], y: NDArray[np.int64]) -> None:
    """Write a task and its data as a worker reads them."""
    stream.write(msgspec.json.encode(task) + b"\n")
    stream.write(np.asarray(X, dtype=np.float32).tobytes())
    stream.write(np.asarray(y, dtype=np.int64).tobytes())
    stream.flush()


def _receive_task(stream: IO[bytes]) -> tuple[Task, NDArray[np.float32], NDArray[np.int64]]:
    task = msgspec.json.decode(stream.readline(), type=Task)
    X = np.frombuffer(stream.read(4 * task.rows * task.features), dtype=np.float32)
    y = np.frombuffer(stream.read(8 * task.rows), dtype=np.int64)
    return task, X.reshape(task.rows, task.features), y


def _listen(stream: IO[bytes], orders: queue.SimpleQueue[Order]) -> None:
    for line in stream:
        orders.put(msgspec.json.decode(line, type=Order))
    # From a thread, nothing else ends a block that is being trained.
    os._exit(0)


def _say(event: Event) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    sys.stdout.buffer.flush()


def _train(task: Task, X: NDArray[np.float32], y: NDArray[np.int64], order: Order) -> Event:
    from leaveout.models.train.stacked import Stack

    layers = layers_of(task.recipe, task.features, task.labels)
    removed = np.arange(order.start, order.stop) - 1
    stack = Stack(layers, task.recipe, X, y, removed, task.device)
    stack.train(lambda epochs: _say(Step(epochs)))
    parameters = stack.parameters()
    finite = np.isfinite(parameters).all(axis=1)
    if not finite.all():
        network = order.start + int(np.argmin(finite))
        name = f"the member without row {network - 1}" if network else "the network"
        return Failed(f"training diverged: {name} has weights that are not finite; lower --lr")
    try:
        write_block(Path(task.folder), order.start, order.stop, parameters)
    except OSError as error:
        return Failed(f"{task.folder}: cannot be written: {error.strerror}")
    return Done()


def main() -> None:
    """Serve orders until stdin ends."""
    task, X, y = _receive_task(sys.stdin.buffer)
    orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, orders), daemon=True).start()

    import torch

    # One thread a process: the order of summation then depends on shapes alone.
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("highest")
    if task.device != "cpu":
        torch.use_deterministic_algorithms(True)
    while True:
        _say(_train(task, X, y, orders.get()))


if __name__ == "__main__":
    main()
