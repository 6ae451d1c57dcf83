"""Processes that tests start: whatever happens, they and all they started end with the test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HANGS = 600.0
"""Seconds after which a process is taken to hang: far more than one needs on a busy machine."""

_MARK = "LEAVEOUT_TEST_CHILD"
"""Environment variable by which the descendants of a process are known, in whatever session."""

_started: list[tuple[subprocess.Popen[Any], str]] = []


def start(command: Sequence[object], **options: Any) -> subprocess.Popen[Any]:
    """Start a process in a session of its own; `end_all` ends it after the test if nobody did.

    ``options`` are those of `subprocess.Popen`; streams are text unless they say otherwise.
    """
    mark = uuid.uuid4().hex
    environment = {**(options.pop("env", None) or os.environ), _MARK: mark}
    options = {"text": True, "start_new_session": True, **options}
    process = subprocess.Popen([str(each) for each in command], env=environment, **options)
    _started.append((process, mark))
    return process


def run(
    command: Sequence[object], *, given: str | None = None, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[Any]:
    """Run a process to its end, ``given`` on its standard input; keep what it says.

    Fails where it takes more than `HANGS` seconds or, if that is to be checked, ends with an error.
    """
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if given is not None:
        streams["stdin"] = subprocess.PIPE
    process = start(command, **{**streams, **options})
    try:
        out, err = process.communicate(given, timeout=HANGS)
        assert process.returncode == 0 or not check, err
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
    finally:
        end(process)


def end(process: subprocess.Popen[Any]) -> None:
    """Kill a process that `start` returned and all it started, and close its pipes."""
    for each, mark in list(_started):
        if each is process:
            _kill(process, mark)
            _started.remove((each, mark))


def end_all() -> None:
    """End every process that was started and not ended."""
    for process, _ in list(_started):
        end(process)


def marked(process: subprocess.Popen[Any]) -> list[int]:
    """Return a process that `start` returned, and all that it started, in whatever session."""
    return [pid for each, mark in _started if each is process for pid in _marked(mark)]


def _kill(process: subprocess.Popen[Any], mark: str) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    # Again and again: one that is found may have started another one meanwhile.
    while found := _marked(mark):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _marked(mark: str) -> list[int]:
    """Return the processes that run with a mark; where there is no /proc, none are found."""
    wanted, found = f"{_MARK}={mark}".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0") and alive(int(path.parent.name)):
                found.append(int(path.parent.name))
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody waited for does not."""
    with contextlib.suppress(OSError):
        return _status(Path(f"/proc/{pid}/stat"))[0] not in "ZX"
    return False


def children(pid: int) -> list[int]:
    """Return the processes whose parent is this one."""
    return [each for each, fields in _all() if int(fields[1]) == pid]


def group(pid: int) -> list[int]:
    """Return the processes of a process group."""
    return [each for each, fields in _all() if int(fields[2]) == pid]


def session(pid: int) -> list[int]:
    """Return the processes of a session."""
    return [each for each, fields in _all() if int(fields[3]) == pid]


def worked(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    with contextlib.suppress(OSError):
        return sum(map(int, _status(Path(f"/proc/{pid}/stat"))[11:13])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _all() -> Iterator[tuple[int, list[str]]]:
    """Yield the processes that run, each with its state, parent, group, session and so on."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = _status(path)
            if fields[0] not in "ZX":
                yield int(path.parent.name), fields


def _status(path: Path) -> list[str]:
    return path.read_text().rpartition(")")[2].split()


def wait_until(
    happened: Callable[[], object], what: str, process: subprocess.Popen[Any] | None = None
) -> None:
    """Wait until something has happened; it fails where it never does.

    Parameters
    ----------
    happened : callable
    what : str
        What is waited for, to be said where it does not come.
    process : Popen, optional
        The process that brings it about: where it ends first, nothing is waited for any more.
    """
    until = time.monotonic() + HANGS
    while not happened():
        if process is not None and process.poll() is not None and not happened():
            said = process.stderr.read() if process.stderr else ""
            raise AssertionError(f"{what}: it ended with {process.returncode} before\n{said}")
        assert time.monotonic() < until, f"{what}: not within {HANGS:.0f} s"
        time.sleep(0.02)


def wait_until_gone(pids: Sequence[int]) -> None:
    """Wait until none of the processes runs any more."""
    wait_until(lambda: not any(map(alive, pids)), f"the end of {pids}")
