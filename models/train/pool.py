"""Blocks trained by worker processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leaveout.children import ChildLostError, ChildPool
from leaveout.errors import TrainingError
from leaveout.models.train.worker import Failed, Step, Task

__all__ = ["train_blocks"]

OnStep = Callable[[range, int, bool], None]

_WORKER = "leaveout.models.train.worker"
_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Sums must not depend on where in memory a matrix begins.
    "MKL_CBWR": "AUTO,STRICT",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}


def train_blocks(task: Task, blocks: Sequence[range], workers: int, on_step: OnStep) -> None:
    """Train all blocks, by as many processes as there are workers, or blocks.

    Parameters
    ----------
    task : Task
    blocks : sequence of range
        Of networks.
    workers : int
    on_step : callable
        Told the block, the epochs it has behind, and whether it is on disk.

    Raises
    ------
    TrainingError
        If a block fails or a worker dies.
    """
    try:
        with ChildPool(_WORKER, min(workers, len(blocks)), task, _SETTINGS) as pool:
            for block, said in pool.work(blocks, _is_last):
                match said:
                    case Step(epochs):
                        on_step(block, epochs, False)
                    case Failed(message):
                        raise TrainingError(message)
                    case _:
                        on_step(block, 0, True)
    except ChildLostError as error:
        raise TrainingError(
            f"a worker process ended before its work was done ({error}); finished blocks are "
            "kept: run the same command again, with fewer --workers or a smaller --block if "
            "memory ran out"
        ) from None


def _is_last(event: Any) -> bool:
    return not isinstance(event, Step)
