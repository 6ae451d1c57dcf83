"""The layer graph: operators over named tensors, ordered and shaped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.models.operators.base import Affine, Operator, Shape, Shapes

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
    labels : int
        Number of scores.
    shapes : mapping of str to tuple of int
        Of every tensor; of one sample where it depends on the input.
    parameters : mapping of str to tuple of int
        Shape of each trainable initialiser, in the file's order.
    constants : mapping of str to ndarray of float64
        Everything constant that is not an initialiser, by tensor name.
    moved : mapping of str to (str, Affine)
        Constants whose numbers are those of another one: name to (source, operator, which only
        moves numbers, and reads the constant as a batch of one sample).
    notes : tuple of str
        What a user should know about how the file was read.
    number : str
        The tensor of the file that is one number, where the scores are 0 and it; else empty.
    bare : frozenset of str
        Tensors of the file without a batch axis.
    """

    nodes: tuple[Node, ...]
    input: str
    output: str
    input_shape: Shape
    labels: int
    shapes: Shapes
    parameters: Shapes
    constants: Mapping[str, NDArray[np.float64]]
    moved: Mapping[str, tuple[str, Affine]]
    notes: tuple[str, ...] = ()
    number: str = ""
    bare: frozenset[str] = frozenset()

    @property
    def given(self) -> str:
        """The tensor of the file that the scores are read from."""
        return self.number or self.output

    def needed(self) -> tuple[Node, ...]:
        """Return the nodes the output depends on, in topological order."""
        return self._needed

    @cached_property
    def _needed(self) -> tuple[Node, ...]:
        wanted, found = {self.output}, []
        for node in reversed(self.nodes):
            if node.output in wanted:
                wanted.update(node.inputs)
                found.append(node)
        return tuple(reversed(found))
