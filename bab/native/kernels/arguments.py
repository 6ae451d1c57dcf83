"""Arguments of compiled passes: named tuples of arrays, n nodes side by side.

Shapes are documented here. ``hidden`` neurons and the scores together are the *outputs*; the inputs
and the hidden neurons are the *sources* (`leaveout.bab.native.kernels.interface.Layout`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.bab.forms import Forms
from leaveout.bab.native.kernels.curve_tables import tables
from leaveout.bab.native.kernels.interface import Batch, Bounded, Layout, Numbers, Work

Flags = NDArray[np.bool_]


class Net(NamedTuple):
    """An architecture."""

    inputs: int
    starts: Integers  # shape (layers + 1,)
    blocks: Integers  # shape (blocks, 5): as in `Layout`
    first: Integers  # shape (layers + 1,): the first block of each layer
    entries: Integers  # these three as in `Layout`
    pointers: Integers
    columns: Integers
    knots: Floats  # of smooth activations: `leaveout.bab.native.kernels.curve_tables`
    curves: Floats


class Own(NamedTuple):
    """The first network."""

    weights: Floats  # shape (weights,)
    bias: Floats  # shape (outputs,)
    rough: Floats  # shape (outputs,)
    rough_difference: Floats  # shape (outputs,)


class Rows(NamedTuple):
    """The forms of all cases, r rows, or the rows of one case."""

    inputs: Floats  # shape (r, inputs)
    scores: Floats  # shape (r, scores)
    change: Floats  # shape (r, scores)
    constant: Floats  # shape (r,)
    sizes: Floats  # shape (r,)
    goal: Flags  # shape (r,): whether a row is a goal
    featured: Flags  # shape (r,): whether it has inputs
    touching: Flags  # shape (r,): whether it has differences
    starts: Integers  # shape (cases + 1,)
    sums: Integers  # shape (sums, 2)
    sum_starts: Integers  # shape (cases + 1,)


class Nodes(NamedTuple):
    """Known data and results of nodes, as in `Batch` and `Bounded`."""

    which: Integers  # shape (n,)
    case: Integers  # shape (n,)
    warm: Flags  # shape (n,)
    phase: NDArray[np.int8]  # shape (n, hidden)
    errors: Floats  # shape (n, rows)
    refresh: Flags  # shape (n, hidden)
    cut: Floats  # shape (n,)
    stop_at: Floats  # shape (n,)
    lower: Floats  # shape (n, inputs)
    upper: Floats  # shape (n, inputs)
    state: Floats  # shape (n, 6, hidden)
    size: Floats  # shape (n, hidden): largest difference that a neuron passes on
    cz: Floats  # shape (n, hidden)
    cd: Floats  # shape (n, hidden)
    lines: Floats  # shape (n, 4, hidden)
    known: Floats  # shape (n, remembered, inputs + 2)
    share: Floats  # shape (n, rows)
    status: Integers  # shape (n,)
    value: Floats  # shape (n,)
    input_score: Floats  # shape (n, inputs)
    neuron_score: Floats  # shape (n, hidden)

    @staticmethod
    def of(batch: Batch, found: Bounded) -> Nodes:
        """Return a batch and its results side by side."""
        return Nodes(
            batch.which, batch.case, batch.warm, batch.phase, batch.errors,
            batch.refresh, batch.cut, batch.stop_at, found.lower, found.upper, found.state,
            np.zeros_like(found.cz), found.cz, found.cd, found.lines, found.known, found.share,
            found.status, found.value, found.input_score, found.neuron_score,
        )  # fmt: skip


class Effort(NamedTuple):
    """The amount of work for bounding nodes."""

    steps: int
    rate: float  # steps of the dual ascent
    unit: float  # relative rounding error to charge
    pair: bool  # whether any form depends on differences

    @staticmethod
    def of(work: Work, numbers: Numbers, rows: Rows) -> Effort:
        """Return the effort for the given work."""
        return Effort(work.steps, work.rate, numbers.unit, bool(rows.touching.any()))


def net_of(layout: Layout) -> Net:
    """Return a layout in the form used by compiled code."""
    first = np.searchsorted(layout.blocks[:, 0], np.arange(layout.layers + 1)).astype(np.int64)
    return Net(
        layout.inputs, layout.starts, layout.blocks, first,
        layout.entries, layout.pointers, layout.columns,
        *(tables() if layout.kinds.any() else (np.zeros((0, 0, 2)), np.zeros((0, 6)))),
    )  # fmt: skip


def own_of(numbers: Numbers) -> Own:
    """Return the first network in the form used by compiled code."""
    return Own(numbers.weights, numbers.bias, numbers.rough, numbers.rough_difference)


def rows_of(forms: Forms) -> Rows:
    """Return forms in the form used by compiled code."""
    return Rows(
        forms.inputs, forms.scores, forms.change, forms.constant, forms.sizes, forms.goal,
        forms.has_inputs, forms.has_differences,
        forms.starts, forms.sums, forms.sum_starts,
    )  # fmt: skip
