"""From an ONNX model to the layer graph, or a refusal that names the node."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from leaveout.errors import ModelError
from leaveout.models.graph import Graph, Node
from leaveout.models.onnx_operators import READERS, UnsupportedError, Use
from leaveout.models.operators import Affine, Operator, Shape

__all__ = ["architecture_hash", "read_graph", "read_parameters"]

_BEFORE = (
    "labels and confidences are those of the scores before it, and a confidence is a difference "
    "of two such scores, no probability"
)
_DROPPED_AT_END = {
    "Softmax": _BEFORE,
    "LogSoftmax": _BEFORE,
}


def read_parameters(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    """Floating-point initialisers by name, in the file's order."""
    arrays = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    return {n: a for n, a in arrays.items() if np.issubdtype(a.dtype, np.floating)}


def architecture_hash(model: onnx.ModelProto) -> str:
    """SHA-256 of a network's graph and parameter shapes, without the values of the parameters.

    Names of intermediate tensors and of nodes do not matter; names of parameters do.
    """
    parameters = read_parameters(model)
    alias: dict[str, str] = {name: f"parameter {name}" for name in parameters}
    for item in model.graph.initializer:
        if item.name not in parameters:
            alias[item.name] = f"value {numpy_helper.to_array(item).tolist()}"
    for value in model.graph.input:
        alias.setdefault(value.name, f"input {_dimensions(value)[1:]}")
    nodes = []
    for i, node in enumerate(model.graph.node):
        attributes = sorted(
            (a.name, _plain(onnx.helper.get_attribute_value(a))) for a in node.attribute
        )
        nodes.append([node.op_type, attributes, [alias.get(name, "") for name in node.input]])
        alias.update({name: f"node {i} output {j}" for j, name in enumerate(node.output)})
    shapes = {name: list(array.shape) for name, array in parameters.items()}
    outputs = [alias.get(item.name, "") for item in model.graph.output]
    text = json.dumps([nodes, shapes, outputs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value).tolist()
    return value if isinstance(value, (int, float, str)) else [_plain(item) for item in value]


def _dimensions(item: onnx.ValueInfoProto) -> list[int | None]:
    dims = item.type.tensor_type.shape.dim
    return [int(d.dim_value) if d.HasField("dim_value") else None for d in dims]


def read_graph(model: onnx.ModelProto, where: str) -> Graph:
    """Read the layer graph of a model.

    Parameters
    ----------
    model : onnx.ModelProto
    where : str
        File name for messages.

    Raises
    ------
    ModelError
        If the model has several inputs or outputs, an unknown input shape, an operator outside
        the supported list, or a parameter that is not finite.
    """
    values: dict[str, NDArray[Any]] = {
        item.name: numpy_helper.to_array(item) for item in model.graph.initializer
    }
    parameters = read_parameters(model)
    for name, array in parameters.items():
        if not np.isfinite(array).all():
            raise ModelError(f"{where}: initialiser {name!r} holds NaN or infinity")
    name, shape = _only_input(model, values, where)
    if len(model.graph.output) != 1:
        outputs = ", ".join(repr(item.name) for item in model.graph.output)
        raise ModelError(
            f"{where}: the model has several outputs ({outputs}); export the scores only"
        )
    output = model.graph.output[0].name
    shapes = {key: array.shape for key, array in parameters.items()}
    reader = _Reader(where, values, shapes, name, shape, output)
    for node in model.graph.node:
        reader.read(node)
    return reader.graph()


def _only_input(
    model: onnx.ModelProto, values: dict[str, NDArray[Any]], where: str
) -> tuple[str, Shape]:
    inputs = [item for item in model.graph.input if item.name not in values]
    if len(inputs) != 1:
        raise ModelError(f"{where}: the model has {len(inputs)} inputs, expected one")
    item = inputs[0]
    if item.type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        raise ModelError(f"{where}: input {item.name!r} is not float32; export a float32 model")
    batch, *rest = _dimensions(item) or [None]
    if not rest or any(n is None or n < 1 for n in rest):
        raise ModelError(
            f"{where}: input {item.name!r} has shape {_dimensions(item)}; expected [batch, ...] "
            "with every size but the batch's known"
        )
    if batch not in {None, 1}:
        raise ModelError(
            f"{where}: the model is exported for batches of {batch}; export it with a dynamic "
            "batch axis, or a batch of 1"
        )
    return item.name, tuple(n for n in rest if n is not None)


class _Reader:
    """Walks the nodes once, keeping shapes of variable tensors and values of constant ones."""

    def __init__(
        self,
        where: str,
        values: dict[str, NDArray[Any]],
        parameters: dict[str, Shape],
        name: str,
        shape: Shape,
        output: str,
    ) -> None:
        self.where, self.values, self.parameters = where, values, parameters
        self.input, self.input_shape, self.output = name, shape, output
        self.shapes: dict[str, Shape] = {name: shape}
        self.renamed: dict[str, str] = {}
        self.transposed: dict[str, tuple[str, Shape]] = {}
        self.nodes: list[Node] = []
        self.notes: list[str] = []

    def refuse(self, proto: onnx.NodeProto, why: str) -> ModelError:
        name = proto.name or f"output {proto.output[0]}"
        return ModelError(f"{self.where}: node {name!r} ({proto.op_type}): {why}")

    def read(self, original: onnx.NodeProto) -> None:
        proto = onnx.NodeProto()
        proto.CopyFrom(original)
        if proto.domain not in {"", "ai.onnx"}:
            raise self.refuse(proto, f"operators of domain {proto.domain!r} are not supported")
        for i, source in enumerate(proto.input):
            proto.input[i] = self.renamed.get(source, source)
        use = Use(proto, self.shapes, self.values)
        if not use.variables:
            self.fold_constant(proto, use)
        elif proto.op_type in _DROPPED_AT_END:
            self.drop_at_end(proto, use)
        elif proto.op_type not in READERS:
            raise self.refuse(
                proto, f"not supported; supported operators: {', '.join(sorted(READERS))}"
            )
        else:
            try:
                operator = READERS[proto.op_type](use)
                shape = self.shape_after(operator, use)
            except UnsupportedError as error:
                raise self.refuse(proto, str(error)) from None
            except (ValueError, IndexError) as error:
                raise self.refuse(proto, f"shapes do not fit: {error}") from None
            target = proto.output[0]
            self.nodes.append(Node(proto.name or target, operator, use.variables, target))
            self.shapes[target] = shape

    def shape_after(self, operator: Operator, use: Use) -> Shape:
        if not isinstance(operator, Affine):
            return use.shape
        constants = {
            name: np.asarray(value, dtype=np.float64)[None]
            for name, value in self.values.items()
            if np.issubdtype(value.dtype, np.floating)
        }
        result = operator.apply(np.zeros((1, 1, *use.shape)), constants, True)
        if result.shape[1] != 1:
            raise UnsupportedError("it mixes the samples of a batch")
        return result.shape[2:]

    def fold_constant(self, proto: onnx.NodeProto, use: Use) -> None:
        target = proto.output[0]
        if proto.op_type == "Constant":
            for key in ("value", "value_float", "value_floats", "value_int", "value_ints"):
                raw = use.attribute(key, None)
                if raw is not None:
                    tensor = isinstance(raw, onnx.TensorProto)
                    value = numpy_helper.to_array(raw) if tensor else np.asarray(raw)
                    self.values[target] = value.astype(np.float32) if "float" in key else value
                    return
            raise self.refuse(proto, "only numeric constants are supported")
        if proto.op_type == "Identity":
            self.renamed[target] = proto.input[0]
        elif proto.op_type == "Transpose" and proto.input[0] in self.values:
            source = self.values[proto.input[0]]
            order = tuple(int(i) for i in use.attribute("perm", range(source.ndim)[::-1]))
            self.transposed[target] = (proto.input[0], order)
            self.values[target] = source.transpose(order)
        else:
            raise self.refuse(
                proto, "it computes on constants only; simplify the model before exporting it"
            )

    def drop_at_end(self, proto: onnx.NodeProto, use: Use) -> None:
        axis = int(use.attribute("axis", -1))
        if proto.output[0] != self.output or len(use.shape) != 1 or axis not in {1, -1}:
            raise self.refuse(proto, "supported only as the last operator, over the labels")
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
            if name not in self.parameters
            and name not in self.transposed
            and np.issubdtype(value.dtype, np.floating)
        }
        return Graph(
            tuple(self.nodes),
            self.input,
            output,
            self.input_shape,
            self.parameters,
            constants,
            self.transposed,
            tuple(self.notes),
        )
