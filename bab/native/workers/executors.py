"""Executors by name."""

from __future__ import annotations

from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.workers.pool import Executor, InlineExecutor
from leaveout.errors import SolverError

EXECUTORS = ("processes", "ray")


def make_executor(options: NativeOptions) -> Executor:
    """Return the executor for the options; a single worker always runs in process."""
    if options.executor not in EXECUTORS:
        raise SolverError(
            f"unknown executor {options.executor!r}; known executors: {', '.join(EXECUTORS)}"
        )
    if options.workers == 1:
        return InlineExecutor()
    if options.executor == "ray":
        from leaveout.bab.native.workers.ray_executor import RayExecutor

        return RayExecutor()
    from leaveout.bab.native.workers.processes import ProcessExecutor

    return ProcessExecutor()
