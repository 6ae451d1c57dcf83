"""A worker process that trains one requested member at a time.

It reads a `Task`, then member numbers; it replies to each with a `Member`.
"""

from __future__ import annotations

import queue

from leaveout.frames import follow, own_channel, read_frame, write_frame
from leaveout.models.votes.learners import TORCH
from leaveout.models.votes.member import Task, train_member
from leaveout.models.votes.pool import one_thread


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
