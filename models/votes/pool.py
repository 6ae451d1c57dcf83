"""Training of members in one or more processes, with the same results.

Run as a program it is a worker: it reads a `Task`, then member numbers, and replies to each with a
`Member`.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from leaveout.children import ChildLostError, ChildPool
from leaveout.errors import TrainingError
from leaveout.frames import follow, own_channel, read_frame, write_frame
from leaveout.models.votes.learners import TORCH
from leaveout.models.votes.member import Member, Task, train_member

_WORKER = "leaveout.models.votes.pool"


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit numerical libraries to one thread, which fixes the order of sums."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def train_members(task: Task, workers: int, on_done: Callable[[int], None]) -> list[Member]:
    """Train all members; a single worker in this process, except with torch, for equal bits."""
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
    from leaveout.models.train.pool import ENVIRONMENT

    count = len(task.rows)
    members: dict[int, Member] = {}
    try:
        with ChildPool(_WORKER, min(workers, count), task, ENVIRONMENT) as pool:
            for index, member in pool.work(range(count)):
                members[index] = member
                on_done(len(members))
    except ChildLostError as error:
        raise TrainingError(
            f"a worker process died before finishing ({error}); nothing was written: run the "
            "command again, with fewer --workers if memory ran out"
        ) from None
    return [members[index] for index in range(count)]


def main() -> None:
    """Train the members that the parent requests, until it exits."""
    requests, answers = own_channel()
    task = read_frame(requests, Task)
    orders: queue.SimpleQueue[int] = queue.SimpleQueue()
    follow(requests, int, orders.put)
    if task.learner.name == TORCH:
        import torch

        torch.set_num_threads(1)
        torch.set_float32_matmul_precision("highest")
    with one_thread():
        while True:
            write_frame(answers, train_member(task, orders.get()))


if __name__ == "__main__":
    main()
