"""An older state of the project beside this one, and searches in either."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from leaveout.errors import LeaveoutError

__all__ = ["ROOT", "Checkout", "CheckoutError", "Found", "Search", "here", "search", "unpack"]

ROOT = Path(__file__).resolve().parent.parent

_PROGRAM = Path(__file__).resolve().parent / "idp_search.py"

_LATE = 600.0
"""Seconds beyond the time limit after which a search is taken to hang: it loads, and compiles."""


class CheckoutError(LeaveoutError):
    """There is no such commit, or a checkout cannot search."""


@dataclass(frozen=True)
class Checkout:
    """Where a state of the project lies, and what to call it."""

    name: str
    folder: Path


@dataclass(frozen=True)
class Search:
    """What is asked of a checkout.

    Attributes
    ----------
    folder : Path
        Of the family.
    label, members : int
    seconds : float
    seed : int
    kernel : str
    """

    folder: Path
    label: int
    members: int
    seconds: float
    seed: int
    kernel: str


@dataclass(frozen=True)
class Found:
    """What a checkout found.

    Attributes
    ----------
    source : str
        The package that searched.
    members : int
    lower, upper, seconds : float
    cpu : float
        Seconds of processor time of the process and its children, over the search.
    nodes : int
    closed : bool
    reason : str or None
    interrupted : bool
    """

    source: str
    members: int
    lower: float
    upper: float
    seconds: float
    cpu: float
    nodes: int
    closed: bool
    reason: str | None
    interrupted: bool

    @property
    def gap(self) -> float | None:
        """Upper over lower, None where nothing was found."""
        return self.upper / self.lower if self.lower > 0 else None


def here() -> Checkout:
    """Return the tree this file is in, with whatever was not committed."""
    return Checkout("this tree", ROOT)


def unpack(commit: str, folder: Path) -> Checkout:
    """Write the files of a commit into an empty folder.

    Raises
    ------
    CheckoutError
        If there is no such commit.
    """
    asked = ["rev-parse", "--verify", "--quiet", "--end-of-options", commit + "^{commit}"]
    try:
        full = _git(*asked).decode().strip()
        files = _git("archive", "--format=tar", full)
    except (OSError, subprocess.CalledProcessError):
        raise CheckoutError(f"--against: no commit {commit!r} in {ROOT}") from None
    with tarfile.open(fileobj=BytesIO(files)) as archive:
        archive.extractall(folder, filter="data")
    return Checkout(full[:7], folder)


def _git(*words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True)
    return done.stdout


def search(checkout: Checkout, asked: Search) -> Found:
    """Search in a process of its own; Ctrl-C ends the search with its bounds so far.

    Raises
    ------
    CheckoutError
        If it fails; the message is what it said last.
    """
    options = {
        "label": asked.label,
        "members": asked.members,
        "time": asked.seconds,
        "seed": asked.seed,
        "kernel": asked.kernel,
    }
    words = [f"--{name}={value}" for name, value in options.items()]
    path = os.pathsep.join(str(checkout.folder / room) for room in ("src", "benchmarks"))
    process = subprocess.Popen(
        # -P: modules are the checkout's, not those beside the program.
        [sys.executable, "-P", str(_PROGRAM), str(asked.folder.resolve()), *words],
        cwd=checkout.folder,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = _ended(process, asked.seconds + _LATE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        last = (err.strip().splitlines() or ["it said nothing"])[-1]
        raise CheckoutError(f"{checkout.name}: {last}")
    return parsed(checkout, out)


def _ended(process: subprocess.Popen[str], seconds: float) -> tuple[str, str]:
    try:
        return process.communicate(timeout=seconds)
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return "", f"still searching after {seconds:g} s"


def parsed(checkout: Checkout, out: str) -> Found:
    """Read the line a search prints.

    Raises
    ------
    CheckoutError
        If there is none, or another checkout printed it.
    """
    try:
        found = Found(**json.loads(out.strip().splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        raise CheckoutError(f"{checkout.name}: {out!r} is no result") from None
    if not Path(found.source).is_relative_to(checkout.folder.resolve()):
        raise CheckoutError(f"{checkout.name}: {found.source} was searched with instead")
    return found
