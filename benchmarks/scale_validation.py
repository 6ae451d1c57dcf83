"""The simulation of many workers, against what is known: exact cases, and real pools of workers.

Blocks that sleep for a given time need no core, so a real pool of sixteen of them can be held
against the simulation on any machine; blocks that train show what the simulation leaves out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.children import import_environment
from leaveout.models.train import Recipe
from leaveout.models.train.pool import Block, Event, Order, Step, Task, Trained, processes
from leaveout.models.train.training import StackedTask

from scale_events import Noise, Pool, Run, expected_makespan, simulate
from scale_tables import amount, print_table
from scale_training import train_data

__all__ = ["Sleeping", "list_schedule", "validate"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sleeping(Task):
    """Blocks that take so many seconds each, by the number of their first network."""

    seconds: Floats
    folder: str = ""

    def prepare(self) -> None:
        """Nothing is to be done."""

    def do(self, order: Order, say: Callable[[Step], None]) -> Event:
        """Sleep."""
        assert isinstance(order, Block)
        time.sleep(float(self.seconds[order.networks.start]))
        return Trained(np.zeros((1, 1), np.float32))


def list_schedule(seconds: Floats, workers: int) -> float:
    """Return the makespan of Graham's list scheduling: each block to the worker that is free first.

    Computed without events: a table of when each worker is free.
    """
    free = np.zeros(workers)
    for each in seconds:
        free[free.argmin()] += each
    return float(free.max())


def _run(task: Task, blocks: list[range], workers: int) -> tuple[float, Floats]:
    """Run blocks in a real pool: seconds from the first one's begin, and when each ended."""
    orders = [Block(each) for each in blocks]
    ended = np.zeros(len(blocks))
    with processes(task, workers, import_environment()) as pool:
        # Each worker first does an empty block, so that start-up is behind all of them.
        begun = time.perf_counter()
        for order, said in pool.work(orders):
            if not isinstance(said, Step):
                ended[orders.index(order)] = time.perf_counter() - begun
    return float(ended.max()), ended


def sleeping(rng: np.random.Generator) -> None:
    """Print how long real pools of sleeping workers take, and what the simulation says."""
    rows = []
    for workers, blocks in ((1, 20), (4, 80), (8, 160)):
        seconds = Noise(straggler=0.1).draw(rng, blocks).clip(max=20)
        task = Sleeping(np.concatenate([np.zeros(workers), seconds]))
        took, ended = _run(task, [range(i, i + 1) for i in range(workers + blocks)], workers)
        # The first block of each is empty: what it takes is the start-up of that worker.
        every = np.concatenate([ended[:workers], seconds])
        own = simulate(Run(len(every), 1, 0.0), Pool(workers), rng, seconds=every)
        rows.append(
            [f"{workers}", f"{blocks}", f"{ended[:workers].min():.1f} s to "
             f"{ended[:workers].max():.1f} s", f"{took:.1f} s", f"{own.makespan:.1f} s",
             f"{own.makespan / took - 1:+.1%}", amount(float(seconds.sum()) / workers)]
        )  # fmt: skip
    print("Blocks that sleep, a tenth of them stragglers, in a real pool of processes\n")
    print_table(
        ("workers", "blocks", "start-up", "took", "simulated", "is off by", "work a worker"), rows
    )


def training(rounds: int = 2) -> None:
    """Print how long real runs take with one worker and with two, and what is said of two.

    Rounds of one and of two workers follow each other, since other programs disturb both.
    """
    recipe = Recipe(layers=(50, 50), batch=256, epochs=2)
    X, y = train_data(4_096, 21, 2)
    blocks = [range(start, start + 16) for start in range(0, 256, 16)]
    task = StackedTask(recipe, "", "cpu", X, y, 2, np.arange(1_000))
    rows = []
    for number in range(rounds):
        _, ended = _run(task, blocks, 1)
        start, seconds = float(ended[0]), np.diff(ended)
        took, two = _run(task, blocks, 2)
        begun = float(np.sort(two)[:2].max())
        # What one worker measured, without its first block, which has its start-up in it.
        own = simulate(Run(len(seconds), 1, 0.0), Pool(2), np.random.default_rng(number),
                       seconds=seconds[1:])  # fmt: skip
        rows.append(
            [f"{number + 1}", amount(start), amount(float(seconds.sum())),
             amount(took - begun), amount(own.makespan),
             f"{own.makespan / (took - begun) - 1:+.1%}"]
        )  # fmt: skip
    print(
        "Blocks that train (16 networks, 2x50, 4,096 rows, 2 epochs), after each worker's first\n"
    )
    print_table(
        ("round", "first block", "one worker", "two workers", "simulated", "is off by"), rows
    )


def exact(rng: np.random.Generator) -> None:
    """Print cases whose answer is known."""
    rows = []
    seconds = rng.exponential(1.0, 500)
    for workers in (1, 7, 64):
        own = simulate(Run(500, 1, 0.0), Pool(workers), rng, seconds=seconds).makespan
        rows.append(
            ["list scheduling of 500 blocks", f"{workers}", f"{own:.4f}",
             f"{list_schedule(seconds, workers):.4f}"]
        )  # fmt: skip
    run, pool = Run(1, 1, 1.0), Pool(1, 0.0, 0.8, 0.3)
    own = float(np.mean([simulate(run, pool, rng).makespan for _ in range(20_000)]))
    renewal = float(np.expm1(1.0 / 0.8) * (0.8 + 0.3))
    rows.append(["one block of 1 s, workers that live 0.8 s", "1", f"{own:.3f}", f"{renewal:.3f}"])
    own = float(np.mean(
        [simulate(Run(640, 1, 1.0), Pool(64, 0.1, 50.0, 0.3), rng).makespan for _ in range(200)]
    ))  # fmt: skip
    said = expected_makespan(Run(640, 1, 1.0), Pool(64, 0.1, 50.0, 0.3))
    rows.append(
        [
            "640 blocks of 1 s, lives of 50 s; closed form, which is no exact one",
            "64",
            f"{own:.3f}",
            f"{said:.3f}",
        ]
    )
    print("Cases that are known\n")
    print_table(("case", "workers", "simulated", "exact"), rows)


def validate() -> None:
    """Print all comparisons."""
    rng = np.random.default_rng(0)
    exact(rng)
    sleeping(rng)
    training()
