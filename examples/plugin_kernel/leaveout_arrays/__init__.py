"""The kernel over whole arrays: the numpy reference, and torch for GPUs."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forms import Forms
from leaveout.bab.native.kernels.interface import (
    CLOSED,
    OPEN,
    Batch,
    Bounded,
    Layout,
    MemberSets,
    Numbers,
    Work,
)
from leaveout.errors import SolverError
from leaveout_arrays.ascent import ascend, form, gather_forms, recall
from leaveout_arrays.bounds import (
    Array,
    Nodes,
    Space,
    numpy_space,
    tighten,
    torch_space,
)


class ArrayKernel:
    """Kernel for all nodes at once, equal to the compiled one up to rounding."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def bound(
        self, numbers: Numbers, forms: Forms, sets: MemberSets, batch: Batch, work: Work
    ) -> Bounded:
        """See `Kernel.bound`."""
        count = len(batch.which)
        piece = max(1, self._space.room // _bytes(numbers.layout, forms))
        parts = [
            self._piece(numbers, forms, sets, _take(batch, i, i + piece), work)
            for i in range(0, max(count, 1), piece)
        ]
        names = [field.name for field in fields(Bounded)]
        return Bounded(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def _piece(
        self, numbers: Numbers, forms: Forms, sets: MemberSets, batch: Batch, work: Work
    ) -> Bounded:
        space = self._space
        given = {field.name: space.put(getattr(batch, field.name)) for field in fields(Batch)}
        nodes = nodes_of(space, numbers, sets, given, batch.which)
        pair = bool(forms.has_differences.any())
        rows = gather_forms(space, forms, batch)
        with np.errstate(all="ignore"):
            cuts = recall(nodes, rows, given["known"], given["cut"], given["warm"])
            fine = tighten(nodes, pair, cuts)
            status, value, known, start = form(nodes, rows, given, fine)
            found = ascend(nodes, work, rows, given, start, status == OPEN, pair)
        is_open = status == OPEN
        value = space.xp.where(is_open, space.xp.maximum(found.best, given["cut"]), value)
        closed = is_open & (found.best <= given["cut"])
        status = space.xp.where(closed, CLOSED, status)
        results = (
            status, value, nodes.lower, nodes.upper, nodes.state, found.cz, found.cd,
            found.lines, known, found.share, found.input_score, found.neuron_score,
        )  # fmt: skip
        return Bounded(*(space.take(each) for each in results))


class NumpyKernel(ArrayKernel):
    """The numpy reference kernel."""

    def __init__(self, device: str = "", threads: int | None = None) -> None:
        if device:
            raise SolverError(f"kernel 'numpy' takes no device, got {device!r}")
        super().__init__(numpy_space())


class TorchKernel(ArrayKernel):
    """The torch kernel for GPUs."""

    def __init__(self, device: str = "", threads: int | None = None) -> None:
        super().__init__(torch_space(device))


def nodes_of(
    space: Space,
    numbers: Numbers,
    sets: MemberSets,
    given: dict[str, Array],
    which: NDArray[np.int64],
) -> Nodes:
    """Gather the nodes of a batch that is already in a space."""
    own = (numbers.weights, numbers.bias, numbers.rough, numbers.rough_difference)
    members = (sets.centre, sets.radius, sets.shift, sets.slack)
    return Nodes(
        space,
        numbers.layout,
        tuple(space.put(each) for each in own),
        tuple(space.put(each[which]) for each in members),
        (given["lower"], given["upper"]),
        given["state"],
        given["phase"],
        numbers.unit,
    )


def _bytes(layout: Layout, forms: Forms) -> int:
    """Return how many bytes bounding one node may take."""
    widest = int(np.diff(layout.starts).max())
    sources, cuts = layout.inputs + layout.hidden, layout.hidden + forms.kept_bounds
    rows = max(4 * widest, 2 * forms.width + int(np.diff(forms.sum_starts).max(initial=0)))
    each = 4 * sources + 24 * widest + 12 * layout.inputs + 4 * cuts
    return 8 * (4 * layout.weights + rows * each + 120 * sources + 3 * cuts * layout.inputs)


def _take(batch: Batch, begin: int, end: int) -> Batch:
    return Batch(*(getattr(batch, field.name)[begin:end] for field in fields(Batch)))
