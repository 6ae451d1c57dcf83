"""Bound kernels by name: built-in ones in a table, plug-ins by entry points."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from leaveout.bab.forms import Forms
from leaveout.bab.native.kernels.arguments import Effort, Nodes, net_of, own_of, rows_of
from leaveout.bab.native.kernels.curve_tables import room_for
from leaveout.bab.native.kernels.interface import Batch, Bounded, Kernel, MemberSets, Numbers, Work
from leaveout.cores import cores
from leaveout.errors import LeaveoutError, SolverError, cause

GROUP = "leaveout.kernels"
"""Entry point group of plug-in kernels."""

_ARRAYS = "the package leaveout-arrays (examples/plugin_kernel)"

BUILT_IN: Mapping[str, str] = {
    "cpu": "leaveout.bab.native.kernels.registry:CpuKernel",
}


def make_kernel(spec: str, threads: int | None = None) -> Kernel:
    """Return a kernel by name, optionally with a device: ``torch:cpu``."""
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


class CpuKernel(Kernel):
    """Kernel compiled by numba on first use."""

    def __init__(self, device: str = "", threads: int | None = None) -> None:
        if device:
            raise SolverError(f"kernel 'cpu' does not take a device, got {device!r}")
        self._threads = threads or cores()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="bound")

    def bound(
        self, numbers: Numbers, forms: Forms, sets: MemberSets, batch: Batch, work: Work
    ) -> Bounded:
        from leaveout.bab.native.kernels.node_bounds import ascend_nodes, form_nodes, tighten_nodes

        count, found = len(batch.which), Bounded.initial(batch, room_for(numbers.layout.kinds))
        net, own = net_of(numbers.layout), own_of(numbers)
        rows, nodes = rows_of(forms), Nodes.of(batch, found)
        effort = Effort.of(work, numbers, rows)
        starts = np.zeros_like(batch.share)

        def run(begin: int, end: int) -> None:
            tighten_nodes(begin, end, net, own, sets, effort, rows, nodes)
            form_nodes(begin, end, net, own, sets, effort, rows, nodes, starts)
            ascend_nodes(begin, end, net, own, sets, effort, rows, nodes, starts)

        # Small pieces, because some nodes need a hundred times as long as others.
        piece = max(1, min(8, count // (2 * self._threads)))
        futures = [self._pool.submit(run, i, min(i + piece, count)) for i in range(0, count, piece)]
        for future in futures:
            future.result()
        return found
