"""A worker process: trains the members it is told to, one at a time.

It reads from stdin a `Task`, then a line an order, the number of a member; it answers on stdout
with a `Member` or the `TrainingError` that stopped it. When stdin ends, its parent has gone, so
it does. Both ends are this program's own, which is why what they pass is pickled.
"""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading

from leaveout.errors import TrainingError
from leaveout.models.votes.learners import TORCH
from leaveout.models.votes.member import Task, train_member

__all__ = ["main"]


def _listen(orders: queue.SimpleQueue[int]) -> None:
    for line in sys.stdin.buffer:
        orders.put(int(line))
    # From a thread, nothing else ends a member that is being trained.
    os._exit(0)


def main() -> None:
    """Serve orders until stdin ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints must not come between two answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    task: Task = pickle.load(sys.stdin.buffer)
    orders: queue.SimpleQueue[int] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    if task.learner.name == TORCH:
        import torch

        torch.set_num_threads(1)
        torch.set_float32_matmul_precision("highest")
    from leaveout.models.votes.pool import one_thread

    with one_thread():
        while True:
            index = orders.get()
            try:
                answer: object = train_member(task, index)
            except TrainingError as error:
                answer = error
            pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
            answers.flush()


if __name__ == "__main__":
    main()
