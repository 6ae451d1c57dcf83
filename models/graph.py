"""The layer graph: operators over named tensors, with order and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.models.onnx.operators.base import Affine, Operator, Shape, Shapes


@dataclass(frozen=True)
class Join(Operator):
    """Sum or difference of two variable tensors of one shape: a residual connection."""

    sign: int = 1  # 1 for Add, -1 for Sub


@dataclass(frozen=True)
class Node:
    """One operator."""

    name: str  # for messages
    operator: Operator
    inputs: tuple[str, ...]  # variable inputs only; constants are named inside the operator
    output: str


@dataclass(frozen=True, eq=False)
class Graph:
    """A network without its parameter values."""

    nodes: tuple[Node, ...]  # in topological order
    input: str  # tensor names
    output: str  # tensor names
    input_shape: Shape  # one sample, without the batch axis
    labels: int  # number of scores
    shapes: Shapes  # of every tensor; of one sample where it depends on the input
    parameters: Shapes  # shape of each trainable initialiser, in the file's order
    constants: Mapping[str, NDArray[np.float64]]
    moved: Mapping[str, tuple[str, Affine]]
    notes: tuple[str, ...] = ()  # what a user should know about how the file was read
    number: str = ""
    bare: frozenset[str] = frozenset()  # tensors of the file without a batch axis

    @property
    def score_tensor(self) -> str:
        """The tensor of the file from which the scores are read."""
        return self.number or self.output

    def needed_nodes(self) -> tuple[Node, ...]:
        """Return the nodes the output depends on, in topological order."""
        return self._needed_nodes

    @cached_property
    def _needed_nodes(self) -> tuple[Node, ...]:
        """The nodes the output depends on, in topological order."""
        wanted, found = {self.output}, []
        for node in reversed(self.nodes):
            if node.output in wanted:
                wanted.update(node.inputs)
                found.append(node)
        return tuple(reversed(found))
