"""What compiled passes are given: named tuples of arrays, n nodes side by side.

Shapes are said here once. ``hidden`` neurons and the scores together are the *outputs*; the inputs
and the hidden neurons are the *sources* (`leaveout.bab.native.layout.Layout`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forms import Forms
from leaveout.bab.native.kernels.interface import Batch, Bounded, MemberSets, Numbers, Work
from leaveout.bab.native.layout import Layout

__all__ = [
    "Effort", "Members", "Net", "Nodes", "Own", "Rows",
    "members_of", "net_of", "own_of", "rows_of",
]  # fmt: skip

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Net(NamedTuple):
    """An architecture.

    Attributes
    ----------
    inputs : int
    starts : ndarray of int64, shape (layers + 1,)
    blocks : ndarray of int64, shape (blocks, 5)
        As those of the layout.
    first : ndarray of int64, shape (layers + 1,)
        The first block of each layer.
    """

    inputs: int
    starts: Integers
    blocks: Integers
    first: Integers


class Own(NamedTuple):
    """The first network.

    Attributes
    ----------
    weights : ndarray of float64, shape (weights,)
    bias, rough, rough_difference : ndarray of float64, shape (outputs,)
    """

    weights: Floats
    bias: Floats
    rough: Floats
    rough_difference: Floats


class Members(NamedTuple):
    """How much members differ from it: of s sets, or of one set without the first axis.

    Attributes
    ----------
    centre, radius : ndarray of float64, shape (s, weights)
    shift, slack : ndarray of float64, shape (s, outputs)
    exact : ndarray of bool, shape (s,)
    """

    centre: Floats
    radius: Floats
    shift: Floats
    slack: Floats
    exact: Flags


class Rows(NamedTuple):
    """The forms of all cases, r rows, or the rows of one case.

    Attributes
    ----------
    inputs : ndarray of float64, shape (r, inputs)
    scores, change : ndarray of float64, shape (r, scores)
    constant, sizes : ndarray of float64, shape (r,)
    goal, featured, touching : ndarray of bool, shape (r,)
        Whether a row is a goal; has inputs; has differences.
    starts : ndarray of int64, shape (cases + 1,)
    sums : ndarray of int64, shape (sums, 2)
    sum_starts : ndarray of int64, shape (cases + 1,)
    """

    inputs: Floats
    scores: Floats
    change: Floats
    constant: Floats
    sizes: Floats
    goal: Flags
    featured: Flags
    touching: Flags
    starts: Integers
    sums: Integers
    sum_starts: Integers


class Nodes(NamedTuple):
    """What is known of nodes, and what is found; as those of `Batch` and `Bounded`.

    Attributes
    ----------
    which, case : ndarray of int64, shape (n,)
    warm : ndarray of bool, shape (n,)
    phase : ndarray of int8, shape (n, hidden)
    errors : ndarray of float64, shape (n, rows)
    cut, stop_at : ndarray of float64, shape (n,)
    lower, upper, input_score : ndarray of float64, shape (n, inputs)
    state : ndarray of float64, shape (n, 6, hidden)
    size : ndarray of float64, shape (n, hidden)
        Largest difference of what a neuron passes on.
    cz, cd, neuron_score : ndarray of float64, shape (n, hidden)
    lines : ndarray of float64, shape (n, 4, hidden)
    known : ndarray of float64, shape (n, remembered, inputs + 2)
    share : ndarray of float64, shape (n, rows)
    status : ndarray of int64, shape (n,)
    value : ndarray of float64, shape (n,)
    """

    which: Integers
    case: Integers
    warm: Flags
    phase: NDArray[np.int8]
    errors: Floats
    cut: Floats
    stop_at: Floats
    lower: Floats
    upper: Floats
    state: Floats
    size: Floats
    cz: Floats
    cd: Floats
    lines: Floats
    known: Floats
    share: Floats
    status: Integers
    value: Floats
    input_score: Floats
    neuron_score: Floats

    @staticmethod
    def of(batch: Batch, found: Bounded) -> Nodes:
        """Lay a batch and what is to be found of it side by side."""
        return Nodes(
            batch.which, batch.case, batch.warm, batch.phase, batch.errors, batch.cut,
            batch.stop_at, found.lower, found.upper, found.state, np.zeros_like(found.cz), found.cz,
            found.cd, found.lines, found.known, found.share, found.status, found.value,
            found.input_score, found.neuron_score,
        )  # fmt: skip


class Effort(NamedTuple):
    """How nodes are bounded.

    Attributes
    ----------
    steps : int
    rate : float
        Of the dual ascent.
    unit : float
        Relative rounding error charged.
    pair : bool
        Whether differences matter to any form.
    """

    steps: int
    rate: float
    unit: float
    pair: bool

    @staticmethod
    def of(work: Work, numbers: Numbers, rows: Rows) -> Effort:
        """Return what some work takes."""
        return Effort(work.steps, work.rate, numbers.unit, bool(rows.touching.any()))


def net_of(layout: Layout) -> Net:
    """Return a layout as compiled code reads it."""
    first = np.searchsorted(layout.blocks[:, 0], np.arange(layout.layers + 1)).astype(np.int64)
    return Net(layout.inputs, layout.starts, layout.blocks, first)


def own_of(numbers: Numbers) -> Own:
    """Return the first network as compiled code reads it."""
    return Own(numbers.weights, numbers.bias, numbers.rough, numbers.rough_difference)


def members_of(sets: MemberSets) -> Members:
    """Return sets of members as compiled code reads them."""
    return Members(sets.centre, sets.radius, sets.shift, sets.slack, sets.exact)


def rows_of(forms: Forms) -> Rows:
    """Return forms as compiled code reads them."""
    return Rows(
        forms.inputs, forms.scores, forms.change, forms.constant, forms.sizes, forms.goal,
        forms.featured, forms.touching,
        forms.starts, forms.sums, forms.sum_starts,
    )  # fmt: skip
