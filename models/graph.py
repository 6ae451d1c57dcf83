"""The layer graph: operators over named tensors, with order and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.kernel.smooth import Kinds
from leaveout.models.activations import activate
from leaveout.models.matrices import Matrices, Sparse, numbers
from leaveout.models.onnx.operators.base import Affine, Operator, Shape, Shapes


@dataclass(frozen=True)
class Join(Operator):
    """Sum or difference of two variable tensors of equal shape: a residual connection."""

    sign: int = 1  # 1 for Add, -1 for Sub


@dataclass(frozen=True)
class Node:
    """One operator."""

    name: str  # in messages
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
    shapes: Shapes  # shape of each tensor; of one sample if the tensor depends on the input
    parameters: Shapes  # shape of each trainable initialiser, in the file's order
    constants: Mapping[str, NDArray[np.float64]]
    moved: Mapping[str, tuple[str, Affine]]
    notes: tuple[str, ...] = ()  # for the user, on how the file was read
    number: str = ""
    bare: frozenset[str] = frozenset()  # tensors of the file without a batch axis

    @property
    def score_tensor(self) -> str:
        """The tensor of the file from which the scores are read."""
        return self.number or self.output

    def needed_nodes(self) -> tuple[Node, ...]:
        """Return the nodes that the output depends on, in topological order."""
        return self._needed_nodes

    @cached_property
    def _needed_nodes(self) -> tuple[Node, ...]:
        """The nodes that the output depends on, in topological order."""
        wanted, found = {self.output}, []
        for node in reversed(self.nodes):
            if node.output in wanted:
                wanted.update(node.inputs)
                found.append(node)
        return tuple(reversed(found))


@dataclass(frozen=True, eq=False)
class Layer:
    """One affine map of each of ``m`` networks, reading one or more earlier sources.

    ``z = sum over s of weights[s] @ h_s + bias``, where source 0 is the input and source k is
    the output of layer k after its ReLU. More than one source is a residual connection.

    Attributes
    ----------
    weights : mapping of int to ndarray of float64 or `Sparse`, shape (m, outputs, inputs)
    bias : ndarray of float64, shape (m, outputs)
    kinds : ndarray of int8, shape (outputs,), or None
        Smooth activations in place of ReLUs; None if there are none.
    """

    weights: Mapping[int, Matrices]
    bias: Floats
    kinds: Kinds | None = None

    def outputs(self, values: Floats) -> Floats:
        """Return pre-activations after the activation."""
        return np.asarray(activate(values, self.kinds), np.float64)

    @property
    def width(self) -> int:
        """Number of outputs."""
        return int(self.bias.shape[1])


@dataclass(frozen=True, eq=False)
class Stack:
    """Networks of one architecture, side by side; a single network is a stack of one.

    Attributes
    ----------
    inputs : int
        Width of the (flattened) input.
    layers : tuple of Layer
        An activation follows every layer but the last, whose outputs are the scores.
    """

    inputs: int
    layers: tuple[Layer, ...]

    def __len__(self) -> int:
        return int(self.layers[0].bias.shape[0])

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self.layers[-1].width

    @property
    def is_smooth(self) -> bool:
        """Whether any activation is not a ReLU."""
        return any(layer.kinds is not None for layer in self.layers)

    @cached_property
    def is_sparse(self) -> bool:
        """Whether any matrix is kept as its entries."""
        return any(isinstance(w, Sparse) for each in self.layers for w in each.weights.values())

    @property
    def unit(self) -> str:
        """What its hidden neurons are called."""
        return "neurons" if self.is_smooth else "ReLUs"

    def member(self, index: int) -> Stack:
        """Return the stack of the single network at ``index``."""
        return self.take([index])

    def take(self, members: list[int] | NDArray[np.int64]) -> Stack:
        """Return the stack of some of the networks, in the given order."""
        chosen = np.asarray(members, dtype=np.int64)
        return Stack(
            self.inputs,
            tuple(
                Layer(
                    {s: w[chosen] for s, w in layer.weights.items()},
                    layer.bias[chosen],
                    layer.kinds,
                )
                for layer in self.layers
            ),
        )

    def activations(self, points: Floats) -> list[Floats]:
        """Return the pre-activations of every layer.

        Parameters
        ----------
        points : ndarray of float64, shape (p, inputs) or (m, p, inputs)
            Shared by all networks, or separate points for each.

        Returns
        -------
        list of ndarray, shape (m, p, width of the layer)
        """
        sources = [points if points.ndim == 3 else points[None]]
        values = []
        for layer in self.layers:
            value = layer.bias[:, None, :] + sum(
                sources[s] @ w.transpose(0, 2, 1) for s, w in layer.weights.items()
            )
            values.append(value)
            sources.append(layer.outputs(value))
        return values

    def scores(self, points: Floats) -> Floats:
        """Return scores in float64, shape (m, p, labels)."""
        return self.activations(points)[-1]

    def flat(self) -> Floats:
        """Return each network's weights, without zeros that all have, and biases in one row."""
        parts = []
        for layer in self.layers:
            parts += [numbers(w) for _, w in sorted(layer.weights.items())]
            parts.append(layer.bias)
        return np.concatenate(parts, axis=1)


def confidence(scores: Floats, label: int) -> Floats:
    """Return the score of ``label`` minus the best other score, along the last axis."""
    others = np.delete(scores, label, axis=-1)
    best: Floats = others.max(axis=-1)
    return np.asarray(scores[..., label] - best)
