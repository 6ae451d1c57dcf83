"""Bound kernels by name: built-in ones in a table, plug-ins by entry point."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping

from leaveout.bab.native.kernels.interface import Kernel
from leaveout.errors import LeaveoutError, SolverError, cause

GROUP = "leaveout.kernels"
"""Entry points of kernels from elsewhere."""

_ARRAYS = "the package leaveout-arrays (examples/plugin_kernel)"

BUILT_IN: Mapping[str, str] = {
    "cpu": "leaveout.bab.native.kernels.cpu:CpuKernel",
}


def make_kernel(spec: str, threads: int | None = None) -> Kernel:
    """Return a kernel by name, perhaps on a device: ``torch:cpu``."""
    name, colon, device = spec.partition(":")
    if colon and not device:
        raise SolverError(f"kernel {spec!r} names no device; write {name!r}, or name one after ':'")
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        made: Kernel = getattr(importlib.import_module(module), attribute)(device, threads)
        return made
    others = importlib.metadata.entry_points(group=GROUP)
    for point in others.select(name=name):
        return _foreign(point, device, threads)
    known = ", ".join([*BUILT_IN, *sorted(others.names)])
    cure = f"; {_ARRAYS} adds it" if name in ("numpy", "torch") else ""
    raise SolverError(f"unknown kernel {spec!r}; known kernels: {known}{cure}")


def _foreign(point: importlib.metadata.EntryPoint, device: str, threads: int | None) -> Kernel:
    try:
        made = point.load()(device, threads)
    except LeaveoutError:
        raise
    except (Exception, SystemExit) as error:  # a plug-in may raise anything
        text = cause(error)
        raise SolverError(f"cannot create kernel {point.name!r} ({point.value}): {text}") from error
    if not callable(getattr(made, "bound", None)):
        raise SolverError(
            f"kernel {point.name!r} ({point.value}) is not a kernel: it has no bound()"
        )
    kernel: Kernel = made
    return kernel
