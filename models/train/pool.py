"""Worker processes that execute a task's orders; see `ray_pool` for Ray."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.children import ChildLostError, ChildPool
from leaveout.cores import cores
from leaveout.errors import TrainingError
from leaveout.models.train.architecture import Signature
from leaveout.models.train.blocks import write_block
from leaveout.ray_cluster import need_ray, refuse_unreachable


@dataclass(frozen=True)
class Block:
    """Networks to train, numbered as in `leaveout.models.train.blocks`.

    ``expected`` is the parameters' signature; None if the task fixes it.
    """

    networks: range
    expected: Signature | None = None


@dataclass(frozen=True)
class Probe:
    """Train the network on all rows with a seed and return it as ONNX.

    ``turn`` distinguishes repeated orders.
    """

    seed: int
    turn: int = 0


@dataclass(frozen=True)
class Check:
    """Train a little, to compare machines bit by bit."""


Order = Block | Probe | Check


@dataclass(frozen=True)
class Step:
    """The finished share of the order, in [0, 1]."""

    share: float


@dataclass(frozen=True)
class Done:
    """The block is on disk."""


@dataclass(frozen=True, eq=False)
class Trained:
    """Trained networks that are not on disk."""

    parameters: NDArray[np.float32] | None = None  # shape (networks, parameters): for a block
    model: bytes = b""  # for a probe


@dataclass(frozen=True)
class Failed:
    """The order failed for the given reason."""

    message: str


@dataclass(frozen=True)
class Checked:
    """The digest of a check, equal for machines that train the same bits."""

    digest: str


@dataclass(frozen=True)
class Noted:
    """A line for the user; the order continues."""

    words: str


Event = Step | Done | Trained | Failed | Checked | Noted


class Task(ABC):
    """What all orders of a run share: data and training."""

    reference: str = ""  # digest that each machine's check must give; empty before this machine's
    gpus: int = 0  # per worker
    folder: str  # of the blocks; empty if only the parent can write there
    removed: NDArray[np.int64]  # shape (members,): the row that each member lacks

    @abstractmethod
    def prepare(self) -> None:
        """Prepare a process, once."""

    @abstractmethod
    def do(self, order: Order, say: Callable[[Step | Noted], None]) -> Event:
        """Execute an order, reporting progress to ``say``; return the last event."""

    def keep_block(self, networks: range, parameters: NDArray[np.float32]) -> Event:
        """Write a trained block, or return it if there is no folder."""
        if not self.folder:
            return Trained(parameters)
        try:
            write_block(Path(self.folder), networks.start, networks.stop, parameters)
        except OSError as error:
            return Failed(f"{self.folder}: cannot write: {error.strerror or error}")
        return Done()


def name_of(network: int, removed: NDArray[np.int64]) -> str:
    """Return the name of a network for messages; members lack ``removed``."""
    return (
        f"the member without row {removed[network - 1]}" if network else "the network on all rows"
    )


def digest_of(parameters: NDArray[np.float32]) -> str:
    """Return the digest of parameters, bit by bit."""
    return hashlib.sha256(parameters.astype("<f4").tobytes()).hexdigest()


_WORKER = "leaveout.models.train.worker"

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # Sums must not depend on the memory alignment of matrices.
    "MKL_CBWR": "AUTO,STRICT",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    # Nor must an order depend on a process's random hashing of strings.
    "PYTHONHASHSEED": "0",
}
"""Environment of every worker, so that an order gives the same bits in each."""


class Pool(Protocol):
    """Workers that share a task."""

    def work(self, orders: Iterable[Order]) -> Iterator[tuple[Order, Event]]:
        """Yield the events of all orders as they come."""


OpenPool = Callable[[int], AbstractContextManager[Pool]]
"""Opens a pool of at most the given number of workers."""


class _Processes:
    def __init__(self, pool: ChildPool) -> None:
        self._pool = pool

    def work(self, orders: Iterable[Order]) -> Iterator[tuple[Order, Event]]:
        return self._pool.work(orders, _is_last)


@contextmanager
def processes(task: Task, size: int, settings: Mapping[str, str] | None = None) -> Iterator[Pool]:
    """Open a pool of processes."""
    try:
        with ChildPool(_WORKER, size, task, {**ENVIRONMENT, **(settings or {})}) as pool:
            yield _Processes(pool)
    except ChildLostError as error:
        raise TrainingError(
            f"a worker process died before finishing ({error}); finished blocks are kept: run "
            "the same command again, with fewer workers or a smaller block if memory ran out"
        ) from None


def _is_last(event: Any) -> bool:
    return not isinstance(event, Step | Noted)


EXECUTORS = ("processes", "ray")


@dataclass(frozen=True)
class Workplace:
    """The location and current number of workers."""

    size: int
    pool: Callable[[Task, int], AbstractContextManager[Pool]]
    writes: bool  # whether workers can write into this machine's folders


def check_executor(executor: str, said: str) -> None:
    """Raise if an executor is unknown or unusable."""
    if executor not in EXECUTORS:
        raise TrainingError(f"{said}: expected one of {', '.join(EXECUTORS)}")
    if executor == "ray":
        need_ray(TrainingError(f"{said} needs ray: pip install 'leaveout[ray]'"))
        refuse_unreachable(TrainingError)


@contextmanager
def workplace(
    executor: str,
    workers: int | None,
    *,
    gpus: bool = False,
    settings: Mapping[str, str] | None = None,
    shared: int = 0,
) -> Iterator[Workplace]:
    """Yield the place where a run's workers are."""
    if executor == "ray":
        from leaveout.models.train.ray_pool import ray_workers

        with ray_workers(workers, shared) as there:
            yield Workplace(there.size(gpus), there.pool, writes=False)
        return
    size = 1 if gpus else workers or cores()
    yield Workplace(size, lambda task, count: processes(task, count, settings), writes=True)
