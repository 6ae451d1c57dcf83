"""Positions of an architecture's neurons and weights in flat arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.models import Stack

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Layout:
    """The flat form that every bound kernel reads.

    Outputs are the ``hidden`` neurons by layer, then the scores; sources are the inputs, then the
    hidden neurons; each block of weights joins one source to one layer.
    """

    inputs: int
    hidden: int
    labels: int
    starts: NDArray[np.int64]  # shape (layers + 1,)
    blocks: NDArray[np.int64]  # shape (blocks, 5)
    weights: int  # length of the weight vector

    @property
    def layers(self) -> int:
        """Number of affine maps."""
        return len(self.starts) - 1

    def weights_of(self, stack: Stack) -> Floats:
        """Return the weights of each network of a stack, shape (m, weights)."""
        parts = [
            w.reshape(len(stack), -1)
            for layer in stack.layers
            for _, w in sorted(layer.weights.items())
        ]
        return np.concatenate(parts, axis=1)

    def biases_of(self, stack: Stack) -> Floats:
        """Return the biases of each network, shape (m, hidden + labels)."""
        return np.concatenate([layer.bias for layer in stack.layers], axis=1)

    def matrix(self, weights: Floats, block: int) -> Floats:
        """Return a view of one block of a weight vector, or of a stack of them."""
        layer, _, width, offset, _ = (int(v) for v in self.blocks[block])
        rows = int(self.starts[layer + 1] - self.starts[layer])
        part = weights[..., offset : offset + rows * width]
        return part.reshape(*weights.shape[:-1], rows, width)


def layout_of(stack: Stack) -> Layout:
    """Return the layout of a stack's architecture."""
    widths = [layer.width for layer in stack.layers]
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    rows, offset = [], 0
    for k, layer in enumerate(stack.layers):
        for source in sorted(layer.weights):
            width = stack.inputs if source == 0 else widths[source - 1]
            start = 0 if source == 0 else stack.inputs + int(starts[source - 1])
            rows.append((k, start, width, offset, source))
            offset += widths[k] * width
    return Layout(
        stack.inputs,
        int(starts[-2]),
        widths[-1],
        starts,
        np.asarray(rows, dtype=np.int64),
        offset,
    )
