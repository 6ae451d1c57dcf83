"""What limits training, how much members share, and whole families on a GPU.

    python benchmarks/training.py --data FOLDER                     # speed by recipe and block
    python benchmarks/training.py --data FOLDER --shared            # what members share, by epochs
    python benchmarks/training.py --data FOLDER --full --out DIR    # whole families

FOLDER holds the NPZ files that LUCID's authors trained on. Speed is of one core in processor time,
so that other work on the machine tells less; the peak is that of a product of two 1024 x 1024
matrices, measured beside each row. Operations are counted without padding: of each layer the
product, its gradient by the weights, and by the inputs but for the first.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from leaveout.models.train.pool import ENVIRONMENT

# Before anything imports torch or numpy.
os.environ.update(ENVIRONMENT)

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from leaveout.models.train import Recipe, run
from leaveout.models.train.architecture import Layer, layers_of
from leaveout.models.train.data import read_npz
from leaveout.models.train.stacked import Stack

CASES = {
    "Adult 2x50": ("adult_lucid21", Recipe(batch=1024)),
    "Crypto 2x50": ("crypto_lucid7", Recipe(batch=100)),
    "Twitter 2x50": ("twitter_lucid15", Recipe(batch=1024)),
    "Credit 2x50": ("credit_lucid23", Recipe(batch=1024)),
    "Adult 2x200": ("adult_lucid21", Recipe(layers=(200, 200), batch=1024)),
    "Adult CNN": ("adult_lucid21", Recipe(cnn=True, batch=1024)),
}
_FULL = ("Adult 2x50", "Twitter 2x50", "Credit 2x50")
_SPEED = ("Adult 2x50", "Crypto 2x50", "Adult 2x200", "Adult CNN")
_BLOCKS = (1, 8, 32, 128)
_EPOCHS = (1, 3, 10, 50)
_SIDE = 1024
_PRODUCTS = ("aten::bmm", "aten::baddbmm_")


def peak(times: int = 10) -> float:
    """Return the operations a second of a large product."""
    left, out = torch.ones(_SIDE, _SIDE), torch.empty(_SIDE, _SIDE)
    torch.mm(left, left, out=out)
    begun = time.process_time()
    for _ in range(times):
        torch.mm(left, left, out=out)
    return 2 * _SIDE**3 * times / (time.process_time() - begun)


def operations(layers: tuple[Layer, ...], rows: int) -> int:
    """Count the operations of an epoch of one network."""
    each = [2 * layer.outputs * (layer.fan_in + 1) * layer.positions for layer in layers]
    return rows * (3 * sum(each) - each[0])


class _Counting(Stack):
    """Counts the rows that each network is stepped by."""

    stepped = 0

    def _forward(self, batch: Any, buffers: Any) -> None:
        self.stepped += len(buffers.outputs[0]) * batch.size
        super()._forward(batch, buffers)


def stack_of(
    data: Path, name: str, recipe: Recipe, block: int, kind: type[Stack] = Stack
) -> tuple[Stack, int]:
    """Return a stack of the first networks, and the operations of an epoch of one."""
    read = read_npz(data / f"{name}.npz")
    layers = layers_of(recipe, read.X.shape[1], len(read.labels))
    removed = np.arange(block, dtype=np.int64)
    return kind(layers, recipe, read.X, read.y, removed), operations(layers, len(read.X))


def run_epoch(stack: Stack, epoch: int) -> None:
    """Run every step of an epoch."""
    for _ in stack._epoch(epoch):
        pass


def products_share(stack: Stack) -> float:
    """Return the share of an epoch's time that is spent in matrix products."""
    with profile(activities=[ProfilerActivity.CPU]) as found:
        run_epoch(stack, 1)
    spent = {each.key: each.self_cpu_time_total for each in found.key_averages()}
    return sum(spent.get(name, 0.0) for name in _PRODUCTS) / sum(spent.values())


def speed(data: Path, blocks: tuple[int, ...]) -> None:
    """Print members a second and the share of the peak, by recipe and block."""
    print("recipe        block  members/s (50 epochs)  GFLOP/s  of peak  in products")
    for title in _SPEED:
        name, recipe = CASES[title]
        for block in blocks:
            stack, count = stack_of(data, name, recipe, block)
            run_epoch(stack, 0)
            top, begun = peak(), time.process_time()
            run_epoch(stack, 1)
            seconds = time.process_time() - begun
            rate = count * block / seconds
            print(
                f"{title:<13} {block:>5}  {block / seconds / 50:>21.2f}  {rate / 1e9:>7.1f}  "
                f"{rate / top:>7.0%}  {products_share(stack):>11.0%}",
                flush=True,
            )


def shared(data: Path, block: int = 32) -> None:
    """Print the processor time that sharing steps saves: epochs after the first share none."""
    print("recipe        epochs  networks' epochs trained  saved  saved in time")
    for title in ("Adult 2x50", "Crypto 2x50"):
        name, recipe = CASES[title]
        seconds, first = [], 0.0
        stack, _ = stack_of(data, name, recipe, block, _Counting)
        assert isinstance(stack, _Counting)
        for epoch in range(3):
            begun = time.process_time()
            run_epoch(stack, epoch)
            seconds.append(time.process_time() - begun)
            if not epoch:
                first = stack.stepped / len(stack._x) / block
        later = min(seconds[1:])
        for epochs in _EPOCHS:
            whole = (seconds[0] + (epochs - 1) * later) / (epochs * later)
            saved = (1 - first) / epochs
            print(
                f"{title:<13} {epochs:>6}  {first + epochs - 1:>24.2f}  {saved:>5.0%}"
                f"  {1 - whole:>13.0%}",
                flush=True,
            )


def full(data: Path, out: Path, device: str, members: int | None) -> None:
    """Train the families of all rows, and print what they took."""
    print("family        members    seconds  members/s")
    for title in _FULL:
        name, recipe = CASES[title]
        begun, source = time.monotonic(), data / f"{name}.npz"
        report = run(source, out / name, recipe=recipe, members=members, device=device)
        seconds = time.monotonic() - begun
        rate = report.members / seconds
        print(f"{title:<13} {report.members:>7,}  {seconds:>9.1f}  {rate:>9.1f}", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--members", type=int, help="of --full: the first so many")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="of --full: where families go")
    parser.add_argument("--blocks", default=",".join(map(str, _BLOCKS)))
    given = parser.parse_args()
    if given.full:
        if given.out is None:
            sys.exit("--full: say where families go, as in --out families")
        full(given.data, given.out, given.device, given.members)
        return
    torch.set_num_threads(1)
    if given.shared:
        shared(given.data)
    else:
        speed(given.data, tuple(map(int, given.blocks.split(","))))


if __name__ == "__main__":
    main()
