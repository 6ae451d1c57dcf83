"""The child of a `SolverProcess`: reads problems from one pipe and writes outcomes to another."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from typing import TYPE_CHECKING

from leaveout.solvers.frames import Reply, Request, read_frame, write_frame

if TYPE_CHECKING:
    from typing import IO

__all__ = ["main"]


def main(spec: str) -> None:
    """Serve problems for the solver ``spec`` until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = _own_channel()
    waiting: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()

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


def _own_channel() -> tuple[IO[bytes], IO[bytes]]:
    """Move the pipes away from descriptors 0 and 1, where solvers print and read."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return requests, replies


def _listen(requests: IO[bytes], waiting: queue.SimpleQueue[Request]) -> None:
    """Pass requests on; end the process, and any program it started, with the parent."""
    try:
        while True:
            waiting.put(read_frame(requests, Request))
    except EOFError:
        pass
    finally:
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
