"""The compiled kernel for CPUs, whose threads share the nodes of a batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from leaveout.bab.forms import Forms
from leaveout.bab.native.kernels.arguments import (
    Effort,
    Nodes,
    members_of,
    net_of,
    own_of,
    rows_of,
)
from leaveout.bab.native.kernels.interface import Batch, Bounded, MemberSets, Numbers, Work
from leaveout.cores import cores
from leaveout.errors import SolverError


class CpuKernel:
    """Kernel compiled with numba on first use, and cached by it."""

    def __init__(self, device: str = "", threads: int | None = None) -> None:
        if device:
            raise SolverError(f"kernel 'cpu' does not take a device, got {device!r}")
        self._threads = threads or cores()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="bound")

    def bound(
        self, numbers: Numbers, forms: Forms, sets: MemberSets, batch: Batch, work: Work
    ) -> Bounded:
        """See `Kernel.bound`."""
        from leaveout.bab.native.kernels.node_bounds import steps

        tighten_nodes, form_nodes, ascend_nodes = steps()
        count, found = len(batch.which), Bounded.initial(batch)
        net, own, members = net_of(numbers.layout), own_of(numbers), members_of(sets)
        rows, nodes = rows_of(forms), Nodes.of(batch, found)
        effort = Effort.of(work, numbers, rows)
        starts = np.zeros_like(batch.share)

        def run(begin: int, end: int) -> None:
            tighten_nodes(begin, end, net, own, members, effort, rows, nodes)
            form_nodes(begin, end, net, own, members, effort, rows, nodes, starts)
            ascend_nodes(begin, end, net, own, members, effort, rows, nodes, starts)

        # Small pieces, because some nodes take a hundred times as long as others.
        piece = max(1, min(8, count // (2 * self._threads)))
        futures = [self._pool.submit(run, i, min(i + piece, count)) for i in range(0, count, piece)]
        for future in futures:
            future.result()
        return found
