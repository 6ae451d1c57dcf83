"""Training of members in one or more processes, with the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from leaveout.children import ChildLostError, ChildPool
from leaveout.errors import TrainingError
from leaveout.models.votes.learners import TORCH
from leaveout.models.votes.member import Member, Task, train_member

_WORKER = "leaveout.models.votes.worker"
_SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Sums must not depend on the memory alignment of matrices.
    "MKL_CBWR": "AUTO,STRICT",
}


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit numerical libraries to one thread, which fixes the order of sums."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def train_members(task: Task, workers: int, on_done: Callable[[int], None]) -> list[Member]:
    """Train all members, reporting progress to ``on_done``.

    One worker trains in this process, except with torch, whose results are bit-identical only in a
    separate process.
    """
    if workers == 1 and task.learner.name != TORCH:
        members = []
        # Import the learner's libraries first: ones loaded later would escape the limit.
        if task.learner.prototype is not None:
            task.learner.estimator(task.recipe.seed)
        with one_thread():
            for index in range(len(task.rows)):
                members.append(train_member(task, index))
                on_done(index + 1)
        return members
    return _in_children(task, workers, on_done)


def _in_children(task: Task, workers: int, on_done: Callable[[int], None]) -> list[Member]:
    count = len(task.rows)
    members: dict[int, Member] = {}
    try:
        with ChildPool(_WORKER, min(workers, count), task, _SETTINGS) as pool:
            for index, member in pool.work(range(count)):
                members[index] = member
                on_done(len(members))
    except ChildLostError as error:
        raise TrainingError(
            f"a worker process died before finishing ({error}); nothing was written: run the "
            "command again, with fewer --workers if memory ran out"
        ) from None
    return [members[index] for index in range(count)]
