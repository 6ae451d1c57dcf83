"""What workers and files cost beside training: start-up, blocks, digests, families."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from many_members import many_members

from leaveout.errors import LeaveoutError
from leaveout.files import sha256_of
from leaveout.models import Family, load_family, load_network
from leaveout.models.archive import read_archive
from leaveout.models.family import FAMILY
from leaveout.models.train import Recipe
from leaveout.models.train.blocks import Blocks, write_block
from leaveout.models.train.export import NETWORK
from leaveout.models.train.pool import Block, Pool, processes
from leaveout.models.train.pool import Step as TaskStep
from leaveout.models.train.ray_pool import ray_workers
from leaveout.models.train.training import StackedTask

from scale_training import train_data

__all__ = ["Start", "Step", "files", "ray_start", "start"]

_ROWS, _FEATURES = 32_561, 21
"""Of the table that workers are sent: Adult's."""


@dataclass(frozen=True)
class Start:
    """What it takes until so many workers have done a first, empty block.

    Attributes
    ----------
    workers : int
    wall : float
        Seconds.
    processor : float
        Seconds of processor time of children; 0 where they are not this process's.
    """

    workers: int
    wall: float
    processor: float


@dataclass(frozen=True)
class Step:
    """One way to read or write.

    Attributes
    ----------
    name : str
    megabytes : float
    seconds : float
        Of processor time, the least of some rounds.
    """

    name: str
    megabytes: float
    seconds: float


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _task() -> StackedTask:
    X, y = train_data(_ROWS, _FEATURES, 2)
    # One step of one epoch: next to nothing.
    recipe = Recipe(layers=(2,), batch=_ROWS, epochs=1)
    return StackedTask(recipe, "", "cpu", X, y, 2, np.arange(_ROWS))


def _started(
    opened: Callable[[StackedTask, int], AbstractContextManager[Pool]], workers: int
) -> Start:
    task = _task()
    orders = [Block(range(i, i + 1)) for i in range(workers)]
    wall, processor = time.perf_counter(), _children()
    with opened(task, workers) as pool:
        done = [order for order, said in pool.work(orders) if not isinstance(said, TaskStep)]
        wall = time.perf_counter() - wall
    assert len(done) == workers
    return Start(workers, wall, _children() - processor)


def start(workers: int) -> Start:
    """Start processes."""
    return _started(processes, workers)


def ray_start(workers: int) -> Iterator[tuple[str, Start]]:
    """Start a cluster of this machine, then workers in it; then workers where it is there.

    Yields nothing where ray is not installed.
    """
    try:
        import ray
    except ImportError:
        return
    yield "ray and its workers", _started(_on_ray, workers)
    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        yield "workers, where ray runs", _started(_on_ray, workers)
    finally:
        ray.shutdown()


@contextmanager
def _on_ray(task: StackedTask, workers: int) -> Iterator[Pool]:
    with ray_workers(workers, 0) as there, there.pool(task, workers) as pool:
        yield pool


def files(trained: Path, members: int, scratch: Path | None = None) -> Iterator[Step]:
    """Write and read blocks, and a family of so many members made from one that was trained.

    Parameters
    ----------
    trained : Path
        Folder with full.onnx and family.npz.
    members : int
    scratch : Path or None
        Where files go.
    """
    rng = np.random.default_rng(0)
    with TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        for size in (3_752, 1_000_000):
            block = rng.random((32, size), dtype=np.float32)
            own = folder / f"{size}"
            own.mkdir()
            said = f"a block of 32 x {size:,}"
            yield _step(f"write {said}", block.nbytes, partial(write_block, own, 0, 32, block))
            yield _step(f"read {said}", block.nbytes, partial(_read, Blocks(own, size)))
        own = folder / "family"
        begun = time.process_time()
        many_members(trained, own, members)
        made = time.process_time() - begun
        file = own / FAMILY
        size = file.stat().st_size
        yield Step(f"make and write a family of {members:,}", size / 1e6, made)
        network = load_network(own / NETWORK)
        yield _step("read its arrays", size, lambda: read_archive(file, LeaveoutError), rounds=2)
        yield _step("load it, checked", size, lambda: _loaded(file, network), rounds=2)
        yield _step("digest it (SHA-256)", size, lambda: sha256_of(file), rounds=2)


def _read(blocks: Blocks) -> float:
    return float(np.array(blocks.read(range(32))).sum())


def _loaded(file: Path, network: object) -> Family:
    return load_family(file, network)  # type: ignore[arg-type]


def _step(name: str, size: int, do: Callable[[], object], rounds: int = 5) -> Step:
    spent = []
    for _ in range(rounds):
        with _clock() as seconds:
            do()
        spent.append(seconds[0])
    return Step(name, size / 1e6, min(spent))


@contextmanager
def _clock() -> Iterator[list[float]]:
    seconds: list[float] = []
    begun = time.process_time()
    yield seconds
    seconds.append(time.process_time() - begun)
