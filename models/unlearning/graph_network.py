"""An ONNX network as a torch module that is differentiable."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ModelError
from leaveout.models.graph import Join, Node
from leaveout.models.onnx.file import Network, network_from
from leaveout.models.onnx.operators import Relu
from leaveout.models.onnx.operators.arithmetic import Gemm, MatMul, Scale, Shift
from leaveout.models.onnx.operators.shape import Identity, Permute, Reshape
from leaveout.models.onnx.operators.window import Conv, GlobalAveragePool
from leaveout.models.replay import with_parameters

if TYPE_CHECKING:
    from torch import Tensor


_TRAINABLE = (Gemm, MatMul, Conv)
_KNOWN = (*_TRAINABLE, Relu, Join, Shift, Scale, Reshape, Identity, Permute, GlobalAveragePool)


class GraphNetwork:
    """The graph of an ONNX network with trainable parameters.

    All float initialisers are trained. Dense and convolutional layers, ReLU, residuals, scaling,
    shifting and reshaping are supported.
    """

    def __init__(self, network: Network) -> None:
        import torch

        graph = network.graph
        for node in graph.needed_nodes():
            if not isinstance(node.operator, _KNOWN):
                raise ModelError(
                    f"{network.source}: {node.name} is a {type(node.operator).__name__}, which "
                    "cannot be retrained; expected dense or convolutional layers with ReLU"
                )
        if not graph.parameters:
            raise ModelError(f"{network.source}: the network has no initialiser to train")
        self.network = network
        self._values: dict[str, Tensor] = {
            name: torch.from_numpy(np.array(value, dtype=np.float32)).requires_grad_(True)
            for name, value in network.parameters.items()
        }
        self._constants: dict[str, Tensor] = {
            name: torch.from_numpy(np.array(value, dtype=np.float32))
            for name, value in graph.constants.items()
        }

    def __deepcopy__(self, memo: dict[int, object]) -> GraphNetwork:
        new = GraphNetwork.__new__(GraphNetwork)
        new.network, new._constants = self.network, self._constants
        new._values = {
            name: value.detach().clone().requires_grad_(True)
            for name, value in self._values.items()
        }
        return new

    def __call__(self, x: Tensor, /) -> Tensor:
        """Return scores of shape (rows, labels)."""
        graph = self.network.graph
        tensors = {graph.input: x.reshape(-1, *graph.input_shape)}
        for node in graph.needed_nodes():
            tensors[node.output] = self._apply(node, [tensors[name] for name in node.inputs])
        return tensors[graph.output].reshape(len(x), -1)

    def parameters(self) -> list[Tensor]:
        """Return the trainable initialisers, in the file's order."""
        return list(self._values.values())

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return the values of the parameters by name."""
        return {name: value.detach().numpy().copy() for name, value in self._values.items()}

    def undrawn(self) -> tuple[str, ...]:
        """Return the trainable initialisers that `redraw` keeps.

        Networks that start from them inherit their trained values.
        """
        drawn = {name for name, _ in self._redraw_ranges()}
        return tuple(name for name in self._values if name not in drawn)

    def redraw(self, generator: np.random.Generator) -> None:
        """Redraw layer parameters, uniformly within 1/sqrt(fan_in) of 0; see `undrawn`."""
        import torch

        for name, limit in self._redraw_ranges():
            value = self._values[name]
            drawn = generator.uniform(-limit, limit, tuple(value.shape)).astype(np.float32)
            with torch.no_grad():
                value.copy_(torch.from_numpy(drawn))
        for value in self._values.values():
            if not torch.isfinite(value).all():
                raise ModelError(f"{self.network.source}: a redrawn parameter is not finite")

    def to_network(self, source: str) -> Network:
        """Return the ONNX network with the current parameters."""
        return network_from(with_parameters(self.network.model, self.arrays()), source)

    def _redraw_ranges(self) -> Iterator[tuple[str, float]]:
        """Yield the parameters that `redraw` draws, with their ranges."""
        for node in self.network.graph.needed_nodes():
            operator = node.operator
            if not isinstance(operator, _TRAINABLE):
                continue
            weight = self._value(operator.weight)
            if isinstance(operator, Conv) or (isinstance(operator, Gemm) and operator.transposed):
                fan_in = math.prod(weight.shape[1:])
            else:
                fan_in = weight.shape[0]
            if isinstance(operator, MatMul):
                names = [operator.weight, *self._shifts(node)]
            else:
                names = [operator.weight, *filter(None, [operator.bias])]
            for stored in map(self._stored_name, names):
                if stored in self._values:
                    yield stored, 1 / math.sqrt(fan_in)

    def _shifts(self, node: Node) -> list[str]:
        """Return the biases that follow a MatMul in an Add."""
        return [
            after.operator.constant
            for after in self.network.graph.needed_nodes()
            if isinstance(after.operator, Shift) and after.inputs == (node.output,)
        ]

    def _stored_name(self, name: str) -> str:
        while name in self.network.graph.moved:
            name = self.network.graph.moved[name][0]
        return name

    def _value(self, name: str) -> Tensor:
        graph = self.network.graph
        if name in graph.moved:
            source, operator = graph.moved[name]
            value = self._value(source)
            if isinstance(operator, Permute):
                return value.permute(*(axis - 1 for axis in operator.order[1:]))
            assert isinstance(operator, Reshape), "constants can only be transposed and reshaped"
            return value.reshape(operator.shape)
        return self._values[name] if name in self._values else self._constants[name]

    def _apply(self, node: Node, inputs: list[Tensor]) -> Tensor:
        import torch

        operator, x = node.operator, inputs[0]
        match operator:
            case Relu():
                return torch.relu(x)
            case Join():
                return x + operator.sign * inputs[1]
            case Gemm():
                weight = self._value(operator.weight)
                y = operator.alpha * (x @ (weight.T if operator.transposed else weight))
                return y + operator.beta * self._value(operator.bias) if operator.bias else y
            case MatMul():
                return x @ self._value(operator.weight)
            case Shift():
                return operator.sign * x + operator.other_sign * self._value(operator.constant)
            case Scale():
                by = self._value(operator.constant)
                return x * by if operator.kind == "multiply" else x / by
            case Reshape():
                return x.reshape(len(x), *operator.shape)
            case Permute():
                return x.permute(*operator.order)
            case Conv():
                return self._convolve(operator, x)
            case GlobalAveragePool():
                return x.mean(dim=tuple(range(2, x.ndim)), keepdim=True)
        return x  # Identity, the only operator of _KNOWN left

    def _convolve(self, operator: Conv, x: Tensor) -> Tensor:
        import torch
        from torch.nn import functional

        window = operator.window
        # torch pads from the last axis to the first.
        pads = [n for pair in reversed(window.padding(tuple(x.shape[2:]))) for n in pair]
        apply = torch.conv1d if x.ndim == 3 else torch.conv2d
        bias = self._value(operator.bias) if operator.bias else None
        return apply(
            functional.pad(x, pads),
            self._value(operator.weight),
            bias,
            stride=list(window.strides),
            padding=0,
            dilation=list(window.dilations),
            groups=operator.groups,
        )
