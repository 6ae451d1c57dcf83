"""The peer nnenum, as an installation of its own runs it: one process an instance.

It starts a process a core that this one may use; linear algebra has one thread in each.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from leaveout.cores import cores
from leaveout.errors import LeaveoutError

__all__ = ["Peer", "PeerError", "run_nnenum", "try_nnenum"]

_VERDICTS = {"holds": "unsat", "violated": "sat"}

# What it prints has one digit after the point; what it returns has all.
_PROGRAM = """
import sys
import nnenum.nnenum as front
asked = front.enumerate_network
def timed(*given):
    result = asked(*given)
    print("seconds", result.total_secs, flush=True)
    return result
front.enumerate_network = timed
front.main()
"""

_GRACE = 30.0
"""Seconds beyond the time limit after which it is taken to hang: it starts, and reads files."""


class PeerError(LeaveoutError):
    """The peer is not installed."""


@dataclass(frozen=True)
class Peer:
    """How the peer fared.

    Attributes
    ----------
    verdict : {"sat", "unsat", "unknown"}
    seconds : float
        Of its searches, as it reports them: without its start and without reading files.
    wall, cpu : float
        Of the whole process, with its start.
    detail : str
        What it said last, where it failed.
    """

    verdict: str
    seconds: float
    wall: float
    cpu: float
    detail: str = ""


def try_nnenum(python: Path) -> None:
    """See whether an interpreter has nnenum.

    Raises
    ------
    PeerError
        If it has not.
    """
    try:
        done = subprocess.run(
            [python, "-c", "import nnenum.nnenum"],
            env=_environment(),
            capture_output=True,
            text=True,
        )
    except OSError as error:
        raise PeerError(f"--nnenum {python}: {error.strerror or error}") from None
    if done.returncode:
        raise PeerError(f"--nnenum {python}: {_last(done.stderr)}")


def run_nnenum(python: Path, network: Path, vnnlib: Path, seconds: float) -> Peer:
    """Run it on one instance; Ctrl-C ends it and all it started."""
    before, begun = _children(), time.perf_counter()
    with TemporaryDirectory(prefix="nnenum-") as folder:
        answer = Path(folder) / "answer"
        files = [str(network.resolve()), str(vnnlib.resolve()), f"{seconds:g}", str(answer)]
        process = subprocess.Popen(
            [str(python), "-c", _PROGRAM, *files, str(cores())],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said = process.communicate(timeout=seconds + _GRACE)[0]
        except subprocess.TimeoutExpired:
            _kill(process)
            said = "killed: it went on after its time"
        except KeyboardInterrupt:
            _kill(process)
            raise
        word = answer.read_text().strip() if answer.exists() else ""
    wall = time.perf_counter() - begun
    own = [float(line.split()[1]) for line in said.splitlines() if line.startswith("seconds ")]
    verdict = _VERDICTS.get(word, "unknown")
    detail = "" if word in (*_VERDICTS, "timeout") else word or _last(said)
    return Peer(verdict, sum(own) if own else wall, wall, _children() - before, detail)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
