"""From an ONNX model to the layer graph, or a refusal that names the node."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.errors import ModelError
from leaveout.models.extent import LARGEST, Extent
from leaveout.models.flaws import first_flaw
from leaveout.models.graph import Graph, Node
from leaveout.models.onnx_operators import OPERATORS, UnsupportedError, Use, attributes_of
from leaveout.models.onnx_signature import (
    DOMAINS,
    MOST_AXES,
    only_input,
    only_output,
    opset_of,
)
from leaveout.models.onnx_values import constant_value, initial_values
from leaveout.models.operators import Affine, Shape

__all__ = ["read_graph"]

_BEFORE = (
    "labels and confidences are those of the scores before it, and a confidence is a difference "
    "of two such scores, no probability"
)
_DROPPED_AT_END = {
    "Softmax": _BEFORE,
    "LogSoftmax": _BEFORE,
}


def read_graph(model: onnx.ModelProto, where: str) -> Graph:
    """Read the layer graph of a model; nothing is computed, and no matrix is made.

    Parameters
    ----------
    model : onnx.ModelProto
    where : str
        File name for messages.

    Raises
    ------
    ModelError
        If the model has several inputs or outputs, an unknown input shape, an operator, an
        attribute, an opset or a type outside the supported ones, a parameter that is not finite,
        shapes that do not fit, or more numbers than `leaveout.models.extent.LARGEST` written out.
    """
    initialisers = {item.name for item in model.graph.initializer}
    name, shape, alone = only_input(model, initialisers, where)
    output = only_output(model, where)
    values = initial_values(model, where)
    reader = _Reader(where, values, opset_of(model, where), name, shape, alone, output)
    reader.used = {source for node in model.graph.node for source in node.input} | {output}
    for node in model.graph.node:
        reader.read(node)
    return reader.graph()


class _Reader:
    """Walks the nodes once, keeping shapes of variable tensors and values of constant ones."""

    def __init__(
        self,
        where: str,
        values: dict[str, NDArray[Any]],
        opset: int,
        name: str,
        shape: Shape,
        alone: bool,
        output: str,
    ) -> None:
        self.where, self.values, self.opset, self.alone = where, values, opset, alone
        self.input, self.input_shape, self.output = name, shape, output
        self.parameters: dict[str, Shape] = {
            key: array.shape for key, array in values.items() if array.dtype == np.float32
        }
        self.constant_shapes = {key: array.shape for key, array in values.items()}
        self.extent = Extent(name, shape, self.constant_shapes)
        self.shapes: dict[str, Shape] = {name: shape}
        self.renamed: dict[str, str] = {}
        self.transposed: dict[str, tuple[str, Shape]] = {}
        self.nodes: list[Node] = []
        self.notes: list[str] = []
        self.used: set[str] = set()
        self.context = onnx.checker.C.CheckerContext()
        self.context.ir_version = onnx.IR_VERSION
        self.context.opset_imports = {"": opset}
        self.within("its input")

    def within(self, what: str) -> None:
        if self.extent.total > LARGEST:
            raise ModelError(
                f"{self.where}: with {what} the network takes {self.extent.total:.3g} numbers "
                f"written out as matrices, at most {LARGEST:,} (512 MiB) are supported; use "
                "smaller inputs, fewer channels or larger strides"
            )

    def read(self, original: onnx.NodeProto) -> None:
        proto = onnx.NodeProto()
        proto.CopyFrom(original)
        for i, source in enumerate(proto.input):
            proto.input[i] = self.renamed.get(source, source)
        name = proto.name or f"output {next(iter(proto.output), '')}"
        try:
            self.understand(proto)
        except (UnsupportedError, ValueError) as error:
            raise ModelError(f"{self.where}: node {name!r} ({proto.op_type}): {error}") from None
        if proto.output[0] in self.shapes:
            self.within(f"node {name!r} ({proto.op_type})")

    def understand(self, proto: onnx.NodeProto) -> None:
        self.check(proto)
        use = Use(proto, self.opset, self.shapes, self.values, self.alone)
        if not use.variables:
            self.fold_constant(proto)
        elif proto.op_type in _DROPPED_AT_END:
            self.drop_at_end(proto, use)
        else:
            operator = OPERATORS[proto.op_type].operator(use)
            self.add(Node(proto.name or proto.output[0], operator, use.variables, proto.output[0]))

    def check(self, proto: onnx.NodeProto) -> None:
        """Hold a node against the list of operators, ONNX's schema of its own, and its place."""
        if proto.domain not in DOMAINS:
            raise UnsupportedError(f"operators of domain {proto.domain!r} are not supported")
        if proto.op_type not in {*OPERATORS, *_DROPPED_AT_END, "Constant"}:
            raise UnsupportedError(
                f"not supported; supported operators: {', '.join(sorted(OPERATORS))}"
            )
        for source in proto.input:
            if source and source not in self.shapes and source not in self.values:
                raise UnsupportedError(f"no node before it gives its input {source!r}")
        try:
            onnx.checker.check_node(proto, self.context)
        except onnx.checker.ValidationError as error:
            line = (str(error).strip().splitlines() or ["damaged"])[0]
            raise UnsupportedError(f"not as opset {self.opset} has it: {line}") from None
        first, *others = proto.output
        if not first:
            raise UnsupportedError("its first output has no name")
        for output in proto.output:
            if output and (output in self.shapes or output in self.constant_shapes):
                raise UnsupportedError(f"another node, or an initialiser, gives {output!r} too")
        for output in others:
            if output and output in self.used:
                raise UnsupportedError(f"its output {output!r} is used; only the first may be")

    def add(self, node: Node) -> None:
        shape = self.shapes[node.inputs[0]]
        after = shape
        if isinstance(node.operator, Affine):
            after = node.operator.shape_after(shape, self.constant_shapes)
        if not after or len(after) >= MOST_AXES or min(after) < 1:
            raise UnsupportedError(
                f"it gives a tensor of shape {['batch', *after]}; expected 2 to {MOST_AXES} axes, "
                "none of them empty"
            )
        self.extent.add(node, shape, after)
        self.nodes.append(node)
        self.shapes[node.output] = after

    def fold_constant(self, proto: onnx.NodeProto) -> None:
        target = proto.output[0]
        if proto.op_type == "Constant":
            self.values[target] = constant_value(proto)
        elif proto.op_type == "Identity":
            self.renamed[target] = proto.input[0]
            self.values[target] = self.values[proto.input[0]]
        elif proto.op_type == "Transpose":
            source = self.values[proto.input[0]]
            given = attributes_of(proto).get("perm", range(source.ndim)[::-1])
            order = tuple(int(i) for i in given)
            if sorted(order) != list(range(source.ndim)):
                raise UnsupportedError(f"perm = {list(order)} is no order of {source.ndim} axes")
            if source.dtype == np.float32:
                self.transposed[target] = (proto.input[0], order)
            self.values[target] = source.transpose(order)
        else:
            raise UnsupportedError(
                "it computes on constants only; simplify the model before exporting it"
            )
        self.constant_shapes[target] = self.values[target].shape

    def drop_at_end(self, proto: onnx.NodeProto, use: Use) -> None:
        # Before opset 13 all axes from `axis` on are one: the same, of [batch, labels].
        axis = int(use.attribute("axis", 1 if self.opset < 13 else -1))
        if proto.output[0] != self.output or len(use.shape) != 1 or axis not in {1, -1}:
            raise UnsupportedError("supported only as the last operator, over the labels")
        self.output = use.variables[0]
        self.notes.append(f"the final {proto.op_type} is dropped: {_DROPPED_AT_END[proto.op_type]}")

    def graph(self) -> Graph:
        where, output = self.where, self.output
        if output not in self.shapes:
            raise ModelError(f"{where}: output {output!r} does not depend on the input")
        shape = self.shapes[output]
        if len(shape) != 1 or shape[0] < 2:
            raise ModelError(
                f"{where}: the output has shape [batch, {', '.join(map(str, shape))}]; expected "
                "[batch, labels] with at least two labels"
            )
        constants = {
            name: np.asarray(value, dtype=np.float64)
            for name, value in self.values.items()
            if value.dtype == np.float32
            and name not in self.parameters
            and name not in self.transposed
            and name not in self.renamed
        }
        graph = Graph(
            tuple(self.nodes),
            self.input,
            output,
            self.input_shape,
            shape[0],
            {**self.constant_shapes, **self.shapes},
            self.parameters,
            constants,
            self.transposed,
            tuple(self.notes),
        )
        flaw = first_flaw(graph, {name: self.values[name][None] for name in self.parameters})
        if flaw is not None:
            raise ModelError(f"{where}: node {flaw.node!r}: {flaw.why}")
        return graph
