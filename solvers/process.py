"""A solver in its own process, which can be killed and may crash."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

from leaveout.children import Child, import_environment
from leaveout.errors import SolverError
from leaveout.solvers.outcomes import failed_outcome, with_time_left
from leaveout.solvers.problem import Problem
from leaveout.solvers.protocol import Outcome, Reply, Request, Settings

WORKER = "leaveout.solvers.worker"


def inside_worker() -> bool:
    """Return whether this process is the child of a `SolverProcess`."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == WORKER


class SolverProcess:
    """Solve problems one after another in a child process.

    The child is started by the first ``solve`` (or by ``start``, or by entering the context) and
    again after a crash or a kill. It ends with this process, even if this process is killed.

    Parameters
    ----------
    spec : str
        ``name`` or ``name:option``, as for `find_solver`; looked up in the child.
    grace_seconds, grace_share : float
        The child is killed ``grace_seconds + grace_share * time_limit`` seconds after its
        time limit.
    """

    def __init__(
        self, spec: str = "highs", *, grace_seconds: float = 5.0, grace_share: float = 0.1
    ) -> None:
        self.spec = spec
        self._grace_seconds = grace_seconds
        self._grace_share = grace_share
        self._child: _Child | None = None
        self._retired = False
        self._one_call = threading.Lock()
        self._change = threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start the child without waiting, so that the first ``solve`` need not."""
        self._live_child()

    def kill(self) -> None:
        """End the child; a ``solve`` that blocks in another thread returns "cancelled"."""
        child = self._child
        self._end(child, "cancelled")
        # A solve blocked on the pipes closes them itself when it wakes up.
        if child is not None and self._one_call.acquire(blocking=False):
            child.close()
            self._one_call.release()

    def retire(self) -> None:
        """End the child for good: later calls of ``solve`` return "cancelled" at once."""
        with self._change:
            self._retired = True
        self.kill()

    def solve(self, problem: Problem, settings: Settings | None = None) -> Outcome:
        """Solve ``problem`` in the child and wait for the outcome.

        Parameters
        ----------
        problem : Problem
        settings : Settings, optional
            The time limit counts from this call, the child's start included.

        Returns
        -------
        Outcome
            ``FAILED``, with a worthless dual bound, if the child crashed, was killed, or
            overran its time limit by more than the grace.

        Raises
        ------
        SolverError
            Raised by the solver in the child; the message is the same.
        """
        settings = settings or Settings()
        with self._one_call:
            started = time.perf_counter()
            child = self._live_child()
            if child is None:
                return failed_outcome(problem, "cancelled", 0.0)
            guard = self._guard(child, settings.time_limit)
            try:
                reply = child.ask(problem, settings, started)
            except (EOFError, OSError):
                self._end(child, "crashed")
                reply = Reply(failure=child.obituary(self.spec))
                child.close()
            except BaseException:
                self._end(child, "cancelled")
                child.close()
                raise
            finally:
                if guard is not None:
                    guard.cancel()
            if reply.error is not None:
                raise SolverError(reply.error)
            if reply.outcome is None:
                message = reply.failure or "no answer"
                return failed_outcome(problem, message, time.perf_counter() - started)
            return reply.outcome

    def _guard(self, child: _Child, limit: float | None) -> threading.Timer | None:
        if limit is None:
            return None
        allowed = limit + self._grace_seconds + self._grace_share * limit
        guard = threading.Timer(allowed, self._end, (child, "overran its time limit"))
        guard.daemon = True
        guard.start()
        return guard

    def _live_child(self) -> _Child | None:
        """Return the child, started if needed; None once retired."""
        with self._change:
            if self._retired:
                return None
            if self._child is not None and (self._child.cause or not self._child.is_running):
                self._child.end_as("crashed")
                self._child.close()
                self._child = None
            if self._child is None:
                self._child = _Child(self.spec)
            return self._child

    def _end(self, child: _Child | None, cause: str) -> None:
        with self._change:
            if child is not None:
                child.end_as(cause)
            if self._child is child:
                self._child = None


class _Child(Child):
    """The child of one solver, and why it died."""

    def __init__(self, spec: str) -> None:
        self.cause = ""
        self._is_ready = False
        super().__init__(WORKER, spec, settings=import_environment())

    def ask(self, problem: Problem, settings: Settings, started: float) -> Reply:
        if not self._is_ready:
            self.read(Reply)
            self._is_ready = True
        self.send(Request(problem, with_time_left(settings, started)))
        self.wait()
        return self.read(Reply)

    def end_as(self, cause: str) -> None:
        """Kill the child and the processes it started; only the first cause is kept."""
        if not self.cause:
            self.cause = cause
            self.end()

    def obituary(self, spec: str) -> str:
        """Return one line on how the child ended."""
        if self.cause != "crashed":
            return self.cause
        words = self.last_words()
        last = f": {words}" if words else ""
        return f"solver {spec!r} crashed in its process (exit status {self.exit_status()}){last}"
