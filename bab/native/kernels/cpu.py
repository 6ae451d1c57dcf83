"""The kernel for CPUs: compiled, the nodes of a batch shared among threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from leaveout.bab.native.kernels.batch import Batch, Bounded, MemberSets, Numbers, Work
from leaveout.bab.native.layout import Layout
from leaveout.cores import cores

__all__ = ["CpuKernel", "flat_layout"]


def flat_layout(layout: Layout) -> tuple[Any, ...]:
    """Return the layout as compiled code reads it: inputs, starts, blocks, first block a layer."""
    first = np.searchsorted(layout.blocks[:, 0], np.arange(layout.layers + 1)).astype(np.int64)
    return layout.inputs, layout.starts, layout.blocks, first


class CpuKernel:
    """Compiled with numba when first used, and kept by it for the next time.

    Parameters
    ----------
    threads : int, optional
        By default one a core.
    """

    name = "cpu"

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or cores()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="bound")

    def bound(self, numbers: Numbers, sets: MemberSets, batch: Batch, work: Work) -> Bounded:
        """See `Kernel.bound`."""
        from leaveout.bab.native.kernels.node import steps

        tighten_nodes, form_nodes, ascend_nodes = steps()
        count, layout = len(batch.which), numbers.layout
        found = Bounded(
            np.zeros(count, np.int64),
            np.full(count, np.inf),
            np.array(batch.lower),
            np.array(batch.upper),
            np.array(batch.state),
            np.array(batch.cz),
            np.array(batch.cd),
            np.array(batch.t),
            np.array(batch.share),
            np.zeros_like(batch.lower),
            np.full_like(batch.cz, -1.0),
        )
        net = flat_layout(layout)
        own = (numbers.weights, numbers.bias, numbers.rough, numbers.rough_difference)
        members = (sets.centre, sets.radius, sets.shift, sets.slack, sets.exact)
        size, start_share = np.zeros_like(batch.cz), np.zeros_like(batch.share)
        start_cz, start_cd = np.zeros_like(batch.cz), np.zeros_like(batch.cd)
        start_t = np.zeros(count)

        def run(begin: int, end: int) -> None:
            tighten_nodes(
                begin, end, net, own, members, numbers.unit, batch.which,
                found.lower, found.upper, found.state, batch.phase, size, found.status,
            )  # fmt: skip
            form_nodes(
                begin, end, net, own, members, numbers.unit, work.label, batch.tie, batch.cut,
                batch.which, batch.rival, found.lower, found.upper, found.state, batch.phase, size,
                found.status, found.value, start_cz, start_cd, start_t, start_share,
            )  # fmt: skip
            ascend_nodes(
                begin, end, net, own, members, numbers.unit, work.label, batch.tie, batch.cut,
                batch.aim, work.steps, work.rate, batch.which, batch.rival, found.lower,
                found.upper, found.state, batch.phase, size, found.status, found.value,
                start_cz, start_cd, start_t, start_share,
                found.cz, found.cd, found.t, found.share, batch.warm, found.pull, found.tension,
            )  # fmt: skip

        # Small pieces, because some nodes take a hundred times as long as others.
        piece = max(1, min(8, count // (2 * self._threads)))
        futures = [self._pool.submit(run, i, min(i + piece, count)) for i in range(0, count, piece)]
        for future in futures:
            future.result()
        return found
