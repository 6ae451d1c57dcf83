"""Training and search in one process, in two, and on Ray with two workers, one of them killed too.

    python benchmarks/ray_two_workers.py DATA.npz OUT --members 60 --time 120

Prints a table: digest of the family, which must be the same, bounds of each label, which must
agree, and what it took. A cluster that ``RAY_ADDRESS`` names is used, else one is started here.
*start* is what it takes to connect and to leave, measured alone; on a busy machine compare ``cpu``,
the processor seconds of this process and of all that it started: not of a cluster that was there
before.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from meter import Meter

from leaveout.bab import EngineResult, make_instance
from leaveout.bab.native.leaks import search
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.workers.pool import make_executor
from leaveout.encoders import Box
from leaveout.models import load_family, load_network
from leaveout.models.train import Recipe, run
from leaveout.ray_cluster import RayDriver

WAYS = {
    "1 process": ("processes", 1, False),
    "2 processes": ("processes", 2, False),
    "Ray, 2 workers": ("ray", 2, False),
    "Ray, a worker killed": ("ray", 2, True),
}
"""Executor, workers, whether one is killed."""


@dataclass(frozen=True)
class Cost:
    """What something took, in seconds."""

    wall: float
    cpu: float

    @classmethod
    def of(cls, work: Callable[[], object], meter: Meter) -> Cost:
        """Do it."""
        began, used = time.perf_counter(), meter.read()
        work()
        return cls(time.perf_counter() - began, meter.read() - used)


def kill_worker(name: str) -> bool:
    """Kill a worker of Ray on this machine that is at something of this name, if there is one."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if command.startswith(f"ray::{name}".encode()):
            os.kill(int(path.parent.name), signal.SIGKILL)
            return True
    return False


class Killer:
    """Kills one worker, once there is something to lose."""

    def __init__(self, wanted: bool, name: str) -> None:
        self.left, self._name = wanted, name

    def __call__(self, done: int) -> None:
        """Kill it, if anything is done."""
        if self.left and done:
            self.left = not kill_worker(self._name)

    @property
    def missed(self) -> bool:
        """Whether it came too late."""
        return self.left


def train(
    data: Path, out: Path, way: str, given: argparse.Namespace, meter: Meter
) -> tuple[Cost, str]:
    """Train a family, and digest its file."""
    executor, workers, kills = WAYS[way]
    killer = Killer(kills, "_train")
    cost = Cost.of(
        lambda: run(
            data, out, recipe=Recipe(epochs=given.epochs), members=given.members,
            workers=workers, executor=executor, device="cpu", block=given.block,
            on_progress=lambda progress: killer(progress.finished),
        ),
        meter,
    )  # fmt: skip
    digest = hashlib.sha256((out / "family.npz").read_bytes()).hexdigest()[:12]
    return cost, f"{digest}{' (none was there to kill)' if killer.missed else ''}"


def bound(folder: Path, way: str, given: argparse.Namespace, meter: Meter) -> tuple[Cost, str]:
    """Search the labels of a family one after the other, and say their bounds."""
    executor, workers, kills = WAYS[way]
    network = load_network(folder / "full.onnx")
    family = load_family(folder / "family.npz", network)
    box = Box(np.zeros(network.inputs), np.ones(network.inputs))
    instance = make_instance(network, family, box)
    killer = Killer(kills, "_Actor")
    options = NativeOptions(seconds=given.time, workers=workers, executor=executor)
    found: list[EngineResult] = []

    def search_all() -> None:
        # As a run of `leaveout verify` does: what one label had started serves the next.
        with closing(make_executor(options)) as lent:
            for label in range(instance.labels):
                result = search(
                    instance, label, options, executor=lent,
                    progress=lambda progress: killer(progress.solved),
                )  # fmt: skip
                found.append(result)

    cost = Cost.of(search_all, meter)
    said = ", ".join(
        f"[{each.lower:.6f}, {each.upper:.6f}] {each.reason or 'done'} in {each.seconds:.1f} s"
        for each in found
    )
    return cost, f"{said}{' (none was there to kill)' if killer.missed else ''}"


def connect() -> None:
    """Go to the cluster, and leave it."""
    with RayDriver(2):
        pass


def _folder(out: Path, way: str) -> Path:
    return out / way.replace(" ", "_")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--members", type=int, default=60)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--block", type=int, default=4)
    parser.add_argument("--time", type=float, default=120.0)
    given = parser.parse_args()
    meter = Meter()
    start = Cost.of(connect, meter)
    print(f"start of Ray: {start.wall:.1f} s, {start.cpu:.1f} s cpu\n")
    print("| | workers | seconds | against 1 process | cpu | result |\n|---|---|---|---|---|---|")
    for name, work in (
        ("training", lambda way: train(given.data, _folder(given.out, way), way, given, meter)),
        ("search", lambda way: bound(given.out / "1_process", way, given, meter)),
    ):
        first: Cost | None = None
        for way in WAYS:
            cost, said = work(way)
            first = first or cost
            share = cost.wall / first.wall - 1
            row = [name, way, f"{cost.wall:.1f}", f"{share:+.0%}", f"{cost.cpu:.1f}", said]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
