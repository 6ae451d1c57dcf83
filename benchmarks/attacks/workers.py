"""A process that checks cases, and is replaced where one kills it or does not return."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from attacks.kind import Case, Kind, Outcome, generator, load

__all__ = ["Worker", "judged"]

_LIMIT = 60.0
"""Seconds for a case: hundreds of times what one needs."""

_FIRST = 600.0
"""The same of a process's first case of a kind, which may have to wait for compilers."""


def judged(kind: Kind, case: Case) -> Outcome:
    """Check a case; what is raised is an outcome as well."""
    from leaveout.errors import LeaveoutError

    try:
        return kind.check(case)
    except LeaveoutError as error:
        return Outcome("refused", "refused", _ugly(str(error)))
    except Exception as error:
        line = (str(error).splitlines() or [""])[0][:200]
        return Outcome("raised", "refused", f"raised {type(error).__name__}: {line}")


def _ugly(message: str) -> str | None:
    """Return what is wrong with a message: it is one line, and none of a stranger's."""
    if not message.strip() or "Traceback" in message:
        return f"a refusal that says nothing: {message[:200]!r}"
    return None


def _serve(pipe: Connection) -> None:
    # Of a group of its own, so that whatever a case starts ends with it.
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kinds: dict[str, Kind] = {}
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            name, what = pipe.recv()
            if name not in kinds:
                kinds[name] = load(name)
            kind = kinds[name]
            case = kind.make(generator(what[0], name, what[1])) if len(what) == 2 else what[0]
            pipe.send(judged(kind, case))


class Worker:
    """A process that checks one case at a time."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._pipe: Connection | None = None
        self._known: set[str] = set()
        self._lock, self._over = threading.Lock(), False

    def numbered(self, name: str, seed: int, number: int) -> Outcome:
        """Make and check a case."""
        return self._ask(name, (seed, number))

    def given(self, name: str, case: Case) -> Outcome:
        """Check a case."""
        return self._ask(name, (case,))

    def close(self) -> None:
        """End the process and whatever it started."""
        self._end()
        if self._process is not None:
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process, self._pipe = None, None
        self._known.clear()

    def kill(self) -> None:
        """End the process for good; whoever waits for an answer gets one."""
        with self._lock:
            self._over = True
            self._end()

    def _end(self) -> None:
        process = self._process
        if process is not None and process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()

    def _ask(self, name: str, what: tuple[Any, ...]) -> Outcome:
        limit = _LIMIT if name in self._known else _FIRST
        try:
            pipe = self._started()
            pipe.send((name, what))
            if not pipe.poll(limit):
                self.close()
                return Outcome("hung", "refused", f"hangs: no answer within {limit:g} s")
            outcome: Outcome = pipe.recv()
        except (EOFError, OSError):
            process, code = self._process, None
            if process is not None:
                process.join(5.0)
                code = process.exitcode
            self.close()
            return Outcome("died", "refused", f"kills the process: exit code {code}")
        self._known.add(name)
        return outcome

    def _started(self) -> Connection:
        if self._pipe is not None:
            return self._pipe
        here, there = self._context.Pipe()
        with self._lock:
            if self._over:
                raise BrokenPipeError("it was ended")
            self._process = self._context.Process(target=_serve, args=(there,))
            self._process.start()
        there.close()
        self._pipe = here
        return here
