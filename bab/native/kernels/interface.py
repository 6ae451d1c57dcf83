"""Interface of bound kernels: many nodes side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.kernel.smooth import Kinds
from leaveout.models import Stack
from leaveout.models.activations import beside
from leaveout.models.matrices import Matrix, Sparse, numbers, single

if TYPE_CHECKING:
    from leaveout.bab.forms import Forms


@dataclass(frozen=True, eq=False)
class Layout:
    """The flat form that all bound kernels read.

    Outputs are the ``hidden`` neurons by layer, then the scores; sources are the inputs, then the
    hidden neurons; each block of weights joins one source to one layer.
    """

    inputs: int
    hidden: int
    labels: int
    starts: NDArray[np.int64]  # shape (layers + 1,)
    blocks: NDArray[np.int64]  # shape (blocks, 5): layer, start, width, offset, source
    weights: int  # length of the weight vector
    entries: NDArray[np.int64]  # shape (blocks, 2): where a sparse block's pointers and columns are
    pointers: NDArray[np.int64]  # of sparse blocks: each row's first entry, and their number
    columns: NDArray[np.int64]  # of sparse blocks: of each entry
    kinds: Kinds  # shape (hidden,): smooth activations; 0 for a ReLU

    @property
    def layers(self) -> int:
        """Number of affine maps."""
        return len(self.starts) - 1

    def weights_of(self, stack: Stack) -> Floats:
        """Return the weights of each network of a stack, shape (m, weights)."""
        parts = [numbers(w) for layer in stack.layers for _, w in sorted(layer.weights.items())]
        return np.concatenate(parts, axis=1)

    def biases_of(self, stack: Stack) -> Floats:
        """Return the biases of each network, shape (m, hidden + labels)."""
        return np.concatenate([layer.bias for layer in stack.layers], axis=1)

    def fits(self, stack: Stack) -> bool:
        """Whether networks are laid out like this, so that their numbers are at equal places."""
        other = layout_of(stack)
        return all(
            np.array_equal(one, same)
            for one, same in (
                (self.blocks, other.blocks),
                (self.entries, other.entries),
                (self.pointers, other.pointers),
                (self.columns, other.columns),
            )
        )

    def is_sparse(self, block: int) -> bool:
        """Whether a block is kept as its entries."""
        return bool(self.entries[block, 0] >= 0)

    def matrix(self, weights: Floats, block: int) -> Floats:
        """Return one block of a weight vector, or of a stack of them, written out."""
        layer, _, width, offset, _ = (int(v) for v in self.blocks[block])
        rows = int(self.starts[layer + 1] - self.starts[layer])
        if not self.is_sparse(block):
            part = weights[..., offset : offset + rows * width]
            return part.reshape(*weights.shape[:-1], rows, width)
        pointers, columns = self._entries(block, rows)
        found = np.zeros((*weights.shape[:-1], rows, width))
        at = np.repeat(np.arange(rows), np.diff(pointers))
        found[..., at, columns] = weights[..., offset : offset + len(columns)]
        return found

    def own_matrix(self, weights: Floats, block: int) -> Matrix:
        """Return one block of a weight vector without copying."""
        layer, _, width, offset, _ = (int(v) for v in self.blocks[block])
        if not self.is_sparse(block):
            return self.matrix(weights, block)
        pointers, columns = self._entries(block, int(self.starts[layer + 1] - self.starts[layer]))
        return single(pointers, columns, weights[offset : offset + len(columns)], width)

    def _entries(self, block: int, rows: int) -> tuple[Integers, Integers]:
        pointer, column = (int(v) for v in self.entries[block])
        pointers = self.pointers[pointer : pointer + rows + 1]
        return pointers, self.columns[column : column + int(pointers[-1])]


def layout_of(stack: Stack) -> Layout:
    """Return the layout of a stack's architecture."""
    widths = [layer.width for layer in stack.layers]
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    rows, places, offset = [], [], 0
    pointers, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for k, layer in enumerate(stack.layers):
        for source, weights in sorted(layer.weights.items()):
            width = stack.inputs if source == 0 else widths[source - 1]
            start = 0 if source == 0 else stack.inputs + int(starts[source - 1])
            places.append((-1, -1))
            if isinstance(weights, Sparse):
                places[-1] = sum(map(len, pointers)), sum(map(len, columns))
                pointers.append(weights.starts)
                columns.append(weights.columns)
            rows.append((k, start, width, offset, source))
            offset += numbers(weights).shape[1]
    return Layout(
        stack.inputs,
        int(starts[-2]),
        widths[-1],
        starts,
        np.asarray(rows, dtype=np.int64),
        offset,
        np.asarray(places, dtype=np.int64),
        np.concatenate(pointers),
        np.concatenate(columns),
        _kinds(stack),
    )


def _kinds(stack: Stack) -> Kinds:
    hidden = [(layer.kinds, layer.width) for layer in stack.layers[:-1]]
    found = beside(hidden)
    return np.zeros(sum(width for _, width in hidden), np.int8) if found is None else found


OPEN, CLOSED, CUT, EMPTY = 0, 1, 2, 3
"""Status: above the cut; not, by multipliers; not, by a goal; no counter-examples."""

FARTHEST = 4.0
"""Largest initial guess of a condition's multiplier."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Data shared by all nodes of a question."""

    layout: Layout
    weights: Floats  # shape (layout.weights,): of N
    bias: Floats  # shape (hidden + labels,)
    rough: Floats  # shape (hidden + labels,)
    rough_difference: Floats  # shape (hidden + labels,)
    unit: float  # relative rounding error to charge


class MemberSets(NamedTuple):
    """Differences member minus N for sets of members, or one without its axis: centre +- radius."""

    centre: Floats  # shape (s, layout.weights)
    radius: Floats  # shape (s, layout.weights)
    shift: Floats  # shape (s, hidden + labels): centre of the biases
    slack: Floats  # shape (s, hidden + labels): radius of the biases
    exact: NDArray[np.bool_]  # shape (s,): whether all radii and slacks are 0


@dataclass(frozen=True, eq=False)
class Batch:
    """Nodes to bound."""

    which: Integers  # shape (n,): position of each node's set of members in `MemberSets`
    case: Integers  # shape (n,): position of each node's case in `Forms`
    lower: Floats  # shape (n, inputs)
    upper: Floats  # shape (n, inputs)
    state: Floats  # shape (n, 6, hidden)
    phase: NDArray[np.int8]  # shape (n, hidden): 1 tied on, -1 tied off, 0 free
    lines: Floats  # shape (n, 4, hidden)
    known: Floats  # shape (n, remembered, inputs + 2)
    share: Floats  # shape (n, rows)
    warm: NDArray[np.bool_]  # shape (n,)
    errors: Floats  # shape (n, rows): largest effect of float32 evaluation on each form in the node
    refresh: NDArray[np.bool_]  # shape (n, hidden): neurons whose bounds may be worth tightening
    cut: Floats  # shape (n,)
    stop_at: Floats  # shape (n,): the ascent stops once a node's bound is this low


@dataclass(frozen=True, eq=False)
class Bounded:
    """A kernel's results for each node; shapes as in `Batch`."""

    status: Integers  # shape (n,): `OPEN`, `CLOSED`, `CUT` or `EMPTY`
    value: Floats  # shape (n,)
    lower: Floats
    upper: Floats
    state: Floats
    cz: Floats
    cd: Floats
    lines: Floats  # slopes and offsets that the multipliers follow
    known: Floats  # bounds of forms found here, if the status is `OPEN` or `CLOSED`
    share: Floats
    input_score: Floats  # shape (n, inputs)
    neuron_score: Floats  # shape (n, hidden)

    @staticmethod
    def initial(batch: Batch, more: Floats | None = None) -> Bounded:
        """Return trivial results, for the start; ``more`` are rows added to each state."""
        count = len(batch.which)
        state = batch.state
        if more is not None:
            state = np.concatenate([state, np.broadcast_to(more, (count, *more.shape))], axis=1)
        return Bounded(
            np.zeros(count, np.int64),
            np.full(count, np.inf),
            np.array(batch.lower),
            np.array(batch.upper),
            np.array(state),
            np.zeros_like(batch.lines[:, 0]),
            np.zeros_like(batch.lines[:, 0]),
            np.array(batch.lines),
            np.array(batch.known),
            np.array(batch.share),
            np.zeros_like(batch.lower),
            np.full_like(batch.lines[:, 0], -1.0),
        )


@dataclass(frozen=True)
class Work:
    """The work to do on a batch."""

    steps: int  # steps of the ascent
    rate: float = 0.1  # first step size, relative to the multipliers


class Kernel(Protocol):
    """Protocol of kernels, which bound many nodes at once."""

    def bound(
        self, numbers: Numbers, forms: Forms, sets: MemberSets, batch: Batch, work: Work
    ) -> Bounded:
        """Bound every node of a batch; no argument is changed."""
