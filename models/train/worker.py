"""A worker process: reads a task, then orders, and replies to each with events."""

from __future__ import annotations

import queue

from leaveout.frames import follow, own_channel, read_frame, write_frame
from leaveout.models.train.pool import Event, Order, Task


def main() -> None:
    """Execute the parent's orders until the parent exits."""
    requests, answers = own_channel()
    task = read_frame(requests, Task)  # type: ignore[type-abstract]
    orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
    follow(requests, Order, orders.put)  # type: ignore[arg-type]
    task.prepare()

    def say(event: Event) -> None:
        write_frame(answers, event)

    while True:
        say(task.do(orders.get(), say))


if __name__ == "__main__":
    # Under its importable name, so that messages have the classes the parent knows.
    from leaveout.models.train import worker

    worker.main()
