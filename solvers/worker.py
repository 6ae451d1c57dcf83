"""The child of a `SolverProcess`: problems from one pipe, outcomes to another."""

from __future__ import annotations

import queue
import sys

from leaveout.frames import follow, own_channel, write_frame
from leaveout.solvers.protocol import Reply, Request


def main(spec: str) -> None:
    """Serve problems for the solver ``spec`` until the parent closes the pipe."""
    requests, replies = own_channel()
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
    follow(requests, Request, waiting.put)

    from leaveout.errors import LeaveoutError
    from leaveout.solvers.registry import find_solver

    write_frame(replies, Reply())
    while True:
        request = waiting.get()
        try:
            reply = Reply(outcome=find_solver(spec).solve(request.problem, request.settings))
        except LeaveoutError as error:
            reply = Reply(error=str(error))
        except Exception as error:
            reply = Reply(failure=f"{type(error).__name__}: {error}")
        write_frame(replies, reply)


if __name__ == "__main__":
    main(sys.argv[1])
