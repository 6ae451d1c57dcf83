"""Conversion of an ONNX model to the layer graph, or a refusal that names the node."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.errors import ModelError
from leaveout.models.extent import LARGEST, Extent
from leaveout.models.flaws import first_flaw
from leaveout.models.graph import Graph, Node
from leaveout.models.onnx_batch import batch_axis
from leaveout.models.onnx_cures import TELLING, cure, with_cure
from leaveout.models.onnx_folding import FOLDED, fold_node
from leaveout.models.onnx_operators import OPERATORS
from leaveout.models.onnx_padding import refuse_padded
from leaveout.models.onnx_signature import (
    DOMAINS,
    MOST_AXES,
    last_of,
    only_input,
    only_output,
    opset_of,
)
from leaveout.models.onnx_use import UnsupportedError, Use
from leaveout.models.onnx_values import initial_values
from leaveout.models.operators import Affine, Shape
from leaveout.models.operators.moving import BesideZero
from leaveout.models.rewrites import REWRITES, Draft, Last, Rewrite, rewrite_node

SEVERAL = {"Split"}
"""Operators of which every output is read."""


def read_graph(model: onnx.ModelProto, where: str, notes: Sequence[str] = ()) -> Graph:
    """Read the layer graph of a model without computing anything or making matrices."""
    initialisers = {item.name for item in model.graph.initializer}
    name, shape, alone = only_input(model, initialisers, where)
    output = only_output(model, where)
    values = initial_values(model, where)
    reader = _Reader(where, values, opset_of(model, where), name, shape, alone, output)
    reader.last = last_of(model, output)
    reader.notes += notes
    reader.used = {source for node in model.graph.node for source in node.input} | {output}
    reader.taken = {
        *(tensor for node in model.graph.node for tensor in (*node.input, *node.output)),
        *(item.name for item in model.graph.input),
        *values,
    }
    reader.look_ahead(model)
    for node in model.graph.node:
        reader.read(node)
        if reader.ended:
            # All that the scores depend on comes before.
            break
    return reader.graph()


class _Reader:
    """Reader of all nodes in order, tracking variable shapes and constant values.

    A node with a rewrite is read as its replacement, to which the remaining rewrites apply.
    """

    def __init__(
        self,
        where: str,
        values: dict[str, NDArray[Any]],
        opset: int,
        name: str,
        shape: Shape,
        alone: bool | None,
        output: str,
    ) -> None:
        self.where, self.opset, self.alone = where, opset, alone is not False
        self.bare = {name} if alone is None else set()
        self.last, self.ended = Last(frozenset([output]), frozenset([output])), False
        self.input, self.input_shape, self.output = name, shape, output
        self.parameters: dict[str, Shape] = {
            key: array.shape for key, array in values.items() if array.dtype == np.float32
        }
        self.stored = {key: values[key] for key in self.parameters}
        # The graph is that of all members: how it is read may not depend on a parameter's value.
        hidden = {
            key: np.broadcast_to(np.float32(np.nan), shape)
            for key, shape in self.parameters.items()
        }
        self.values: dict[str, NDArray[Any]] = {**values, **hidden}
        self.constant_shapes = {key: array.shape for key, array in values.items()}
        self.extent = Extent(name, shape, self.constant_shapes)
        self.shapes: dict[str, Shape] = {name: shape}
        self.renamed: dict[str, str] = {}
        self.moved: dict[str, tuple[str, Affine]] = {}
        self.varying = set(self.parameters)
        self.nodes: list[Node] = []
        self.notes: list[str] = []
        self.used: set[str] = set()
        self.taken: set[str] = set()
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

    def look_ahead(self, model: onnx.ModelProto) -> None:
        """Refuse unsupported kinds of network by their characteristic operator."""
        for proto in model.graph.node:
            if proto.op_type in TELLING:
                name = proto.name or f"output {next(iter(proto.output), '')}"
                raise ModelError(
                    f"{self.where}: node {name!r} ({proto.op_type}): {cure(proto.op_type, '')}"
                )

    def read(self, proto: onnx.NodeProto) -> None:
        name = proto.name or f"output {next(iter(proto.output), '')}"
        try:
            if proto.op_type == "MaxPool":
                refuse_padded(self.renamed.get(proto.input[0], proto.input[0]), self.nodes)
            self.understand(proto, REWRITES)
        except (UnsupportedError, ValueError) as error:
            raise ModelError(
                f"{self.where}: node {name!r} ({proto.op_type}): {with_cure(str(error))}"
            ) from None
        if proto.output[0] in self.shapes:
            self.within(f"node {name!r} ({proto.op_type})")

    def understand(self, original: onnx.NodeProto, rewrites: Sequence[Rewrite]) -> None:
        proto = onnx.NodeProto()
        proto.CopyFrom(original)
        proto.input[:] = [self.renamed.get(source, source) for source in proto.input]
        self.check(proto)
        bare = bool(self.bare.intersection(proto.input))
        use = Use(proto, self.opset, self.shapes, self.values, self.alone, bare)
        added = batch_axis(use, self.bare)
        if added is not None:
            self.add(Node(proto.name or proto.output[0], added, use.variables, proto.output[0]))
            self.bare ^= set() if bare else {proto.output[0]}
            return
        found = rewrite_node(use, rewrites, self.last, self.taken)
        if isinstance(found, str) and not use.variables:
            self.fold(proto, found)
        elif isinstance(found, str):
            if proto.op_type not in OPERATORS:
                raise UnsupportedError(found)
            name = proto.name or proto.output[0]
            operators = OPERATORS[proto.op_type].operators(use)
            # Where it gives one, others are left out, and are not used.
            for operator, output in zip(operators, proto.output, strict=False):
                if output:
                    self.add(Node(name, operator, use.variables, output))
                    self.bare |= {output} if bare else set()
        elif found.ending is not None:
            self.output, self.ended = found.ending.scores, True
            self.notes.append(found.ending.note)
        elif found.same is None:
            self.keep(found.draft)
            for node in found.draft.nodes:
                self.understand(node, found.rest)
        elif found.same in self.shapes:
            self.understand(identity(proto, found.same), ())
        else:
            target = proto.output[0]
            self.renamed[target] = found.same
            self.varying |= {target} if found.same in self.varying else set()
            self.values[target] = self.values[found.same]
            self.constant_shapes[target] = self.values[target].shape

    def fold(self, proto: onnx.NodeProto, reason: str) -> None:
        """Compute a node of constants, none of which is a parameter."""
        if proto.op_type not in FOLDED:
            raise UnsupportedError(cure(proto.op_type, reason))
        varying = sorted(self.varying.intersection(proto.input))
        if varying:
            raise UnsupportedError(
                f"it computes on the parameter {varying[0]!r} alone, which members change; fold "
                "it into the weights before exporting (onnxsim, or onnxruntime's optimised model)"
            )
        found = fold_node(proto, self.values, self.opset, self.where)
        for name, value in zip((name for name in proto.output if name), found, strict=True):
            self.values[name] = value
            self.constant_shapes[name] = value.shape

    def check(self, proto: onnx.NodeProto) -> None:
        """Check a node against the supported operators, ONNX's schema, and its place."""
        if proto.domain not in DOMAINS:
            raise UnsupportedError(
                cure(proto.op_type, f"operators of domain {proto.domain!r} are not supported")
            )
        known = {*OPERATORS, *(rewrite.operator for rewrite in REWRITES)}
        variable = not proto.input or any(source in self.shapes for source in proto.input)
        if proto.op_type not in known and (variable or proto.op_type not in FOLDED):
            raise UnsupportedError(cure(proto.op_type, known))
        for source in proto.input:
            if source and source not in self.shapes and source not in self.values:
                raise UnsupportedError(f"no node before it gives its input {source!r}")
        try:
            onnx.checker.check_node(proto, self.context)
        except onnx.checker.ValidationError as error:
            line = (str(error).strip().splitlines() or ["damaged"])[0]
            raise UnsupportedError(f"not as opset {self.opset} has it: {line}") from None
        first, *others = proto.output
        if not first and proto.op_type not in SEVERAL:
            raise UnsupportedError("its first output has no name")
        for output in proto.output:
            if output and (output in self.shapes or output in self.constant_shapes):
                raise UnsupportedError(f"another node, or an initialiser, gives {output!r} too")
        for output in others:
            if output and output in self.used and proto.op_type not in SEVERAL:
                raise UnsupportedError(f"its output {output!r} is used; only the first may be")

    def add(self, node: Node) -> None:
        shape = self.shapes[node.inputs[0]]
        after = shape
        if isinstance(node.operator, Affine):
            after = node.operator.shape_after(shape, self.constant_shapes)
        number = node.output in self.last.number
        if not (after or number) or len(after) >= MOST_AXES or min(after, default=1) < 1:
            raise UnsupportedError(
                f"it gives a tensor of shape {['batch', *after]}; expected 2 to {MOST_AXES} axes, "
                "none of them empty"
            )
        self.extent.add(node, shape, after)
        self.nodes.append(node)
        self.shapes[node.output] = after

    def keep(self, draft: Draft) -> None:
        for name, value in draft.constants.items():
            self.values[name] = value
            self.constant_shapes[name] = value.shape
        for name, (source, operator) in draft.moved.items():
            self.moved[name] = source, operator
            self.values[name] = operator.apply(self.values[source][None, None], {}, False)[0, 0]
            self.constant_shapes[name] = self.values[name].shape
            self.varying |= {name} if source in self.varying else set()

    def graph(self) -> Graph:
        where, output = self.where, self.output
        if output not in self.shapes:
            raise ModelError(
                f"{where}: output {output!r} does not depend on the input; export the scores"
            )
        shape, number = self.shapes[output], ""
        if math.prod(shape) == 1:
            number, output = output, f"{output}//scores"
            self.add(Node(output, BesideZero(), (number,), output))
            self.notes.append(
                "its one number is read as two labels: the scores are 0 and the number, so label 1 "
                "is where it is above 0, and score 1 is the number itself"
            )
            shape = self.shapes[output]
        if sum(n > 1 for n in shape) != 1:
            raise ModelError(
                f"{where}: the output has shape {['batch', *shape]}; expected [batch, labels]: "
                "flatten or pool it before the last layer"
            )
        constants = {
            name: np.asarray(value, dtype=np.float64)
            for name, value in self.values.items()
            if value.dtype == np.float32
            and name not in self.parameters
            and name not in self.moved
            and name not in self.renamed
        }
        graph = Graph(
            tuple(self.nodes),
            self.input,
            output,
            self.input_shape,
            math.prod(shape),
            {**self.constant_shapes, **self.shapes},
            self.parameters,
            constants,
            self.moved,
            tuple(self.notes),
            number,
            frozenset(self.bare),
        )
        flaw = first_flaw(graph, {name: value[None] for name, value in self.stored.items()})
        if flaw is not None:
            raise ModelError(f"{where}: node {flaw.node!r}: {flaw.why}")
        return graph


def identity(proto: onnx.NodeProto, source: str) -> onnx.NodeProto:
    """Return a node that copies ``source`` to another node's output name."""
    name = proto.name or proto.output[0]
    return onnx.helper.make_node("Identity", [source], proto.output[:1], name=name)
