"""Size of a network as dense matrices, computed before any is made."""

from __future__ import annotations

import math
from collections.abc import Mapping

from leaveout.models.graph import Node
from leaveout.models.operators import Affine, Relu, Shape, Shapes

LARGEST = 2**26
"""Numbers that a network may take written out, 512 MiB in float64."""


class Extent:
    """Count of the matrix entries of a layer graph, node by node.

    From the input or a ReLU to each tensor before the next ReLU is one dense matrix, and rounding
    analysis adds one per linear operator: a convolution counts as a dense layer.
    """

    def __init__(self, name: str, shape: Shape, constants: Shapes) -> None:
        width = math.prod(shape)
        self._constants = constants
        # Widths of the tensors each tensor is affine in, by name.
        self._sources: dict[str, Mapping[str, int]] = {name: {name: width}}
        self.total = width * width

    def add(self, node: Node, shape: Shape, after: Shape) -> None:
        """Count a node."""
        width = math.prod(after)
        if isinstance(node.operator, Relu):
            self._sources[node.output] = {node.output: width}
            self.total += width * width
            return
        sources = {k: n for name in node.inputs for k, n in self._sources[name].items()}
        self._sources[node.output] = sources
        widest = width
        if isinstance(node.operator, Affine):
            widest = node.operator.widest(shape, self._constants)
        self.total += max(sum(sources.values()), math.prod(shape)) * widest
