"""The layer graph: operators over named tensors, ordered and shaped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from leaveout.models.operators.base import Operator, Shape

__all__ = ["Graph", "Join", "Node"]


@dataclass(frozen=True)
class Join(Operator):
    """Sum or difference of two variable tensors of one shape: a residual connection.

    Attributes
    ----------
    sign : int
        1 for Add, -1 for Sub.
    """

    sign: int = 1


@dataclass(frozen=True)
class Node:
    """One operator.

    Attributes
    ----------
    name : str
        For messages.
    operator : Operator
    inputs : tuple of str
        Variable inputs only; constants are named inside the operator.
    output : str
    """

    name: str
    operator: Operator
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True, eq=False)
class Graph:
    """A network without the values of its parameters.

    Attributes
    ----------
    nodes : tuple of Node
        In topological order.
    input, output : str
        Tensor names.
    input_shape : tuple of int
        One sample, without the batch axis.
    parameters : mapping of str to tuple of int
        Shape of each trainable initialiser, in the file's order.
    constants : mapping of str to ndarray of float64
        Everything constant that is not an initialiser, by tensor name.
    transposed : mapping of str to (str, tuple of int)
        Constants made by transposing another one: name to (source, order of axes).
    notes : tuple of str
        What a user should know about how the file was read.
    """

    nodes: tuple[Node, ...]
    input: str
    output: str
    input_shape: Shape
    parameters: Mapping[str, Shape]
    constants: Mapping[str, NDArray[np.float64]]
    transposed: Mapping[str, tuple[str, Shape]]
    notes: tuple[str, ...] = ()

    @cached_property
    def digraph(self) -> nx.DiGraph[str]:
        """Tensors as vertices, an edge from each variable input of a node to its output."""
        digraph: nx.DiGraph[str] = nx.DiGraph()
        digraph.add_node(self.input)
        for node in self.nodes:
            digraph.add_node(node.output, node=node)
            digraph.add_edges_from((source, node.output) for source in node.inputs)
        return digraph

    def needed(self) -> tuple[Node, ...]:
        """Return the nodes the output depends on, in topological order."""
        return self._needed

    @cached_property
    def _needed(self) -> tuple[Node, ...]:
        ancestors = nx.ancestors(self.digraph, self.output) | {self.output}
        by_output = {node.output: node for node in self.nodes}
        position = {node.output: i for i, node in enumerate(self.nodes)}
        order = nx.lexicographical_topological_sort(
            self.digraph.subgraph(ancestors),
            key=lambda name: position.get(name, -1),
        )
        return tuple(by_output[name] for name in order if name in by_output)
