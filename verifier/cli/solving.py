"""Shared parts of the commands that decide a VNN-LIB query."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaveout.specs.vnnlib import Status
    from leaveout.verifier.points.query import Decision


def say(line: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"leaveout: {line}\n")


@contextmanager
def progress_line() -> Iterator[Callable[[float, float, int, float], None] | None]:
    """Show a live line on standard error if that is a terminal."""
    from rich.console import Console
    from rich.status import Status

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with Status("searching", console=console) as status:

        def show(lower: float, upper: float, nodes: int, seconds: float) -> None:
            status.update(f"{lower:.4g} to {upper:.4g}, {nodes} open, {seconds:.0f} s")

        yield show


def status_of(decision: Decision) -> Status:
    """Return a decision in VNN-COMP's words."""
    if decision.verdict == "proved":
        return "unsat"
    if decision.verdict == "refuted":
        return "sat"
    out_of_time = (decision.reason or "").startswith("time")
    return "timeout" if out_of_time else "unknown"


def keep_to(workers: int) -> None:
    """Restrict this process to some cores, different ones for each process."""
    if not hasattr(os, "sched_setaffinity"):
        say("--workers has no say on this system, which binds no process to cores")
    else:
        cores = sorted(os.sched_getaffinity(0))
        start = os.getpid() % len(cores)
        os.sched_setaffinity(0, (cores[start:] + cores[:start])[:workers])
