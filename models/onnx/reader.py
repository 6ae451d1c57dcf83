"""Conversion of an ONNX model to the layer graph, or an error that names the node."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.arrays import Integers
from leaveout.errors import ModelError
from leaveout.models.graph import Graph, Node
from leaveout.models.lowering import first_flaw
from leaveout.models.onnx.folding import FOLDED, fold_node
from leaveout.models.onnx.operators import Affine, Normal, Operator, Relu, Shape, Shapes, Smooth
from leaveout.models.onnx.operators.shape import (
    BesideZero,
    Identity,
    Permute,
    Pick,
    Place,
    Reshape,
    Take,
)
from leaveout.models.onnx.outlines import OUTLINED
from leaveout.models.onnx.rewrites import REWRITES, Draft, Last, Rewrite, rewrite_node
from leaveout.models.onnx.rewrites.constants import RESHAPED
from leaveout.models.onnx.signature import (
    MOST_AXES,
    last_of,
    only_input,
    only_output,
    opset_of,
)
from leaveout.models.onnx.table import OPERATORS
from leaveout.models.onnx.use import DOMAINS, BatchUsedError, UnsupportedError, Use, attributes_of
from leaveout.models.onnx.values import initial_values

_ALIKE = frozenset(
    [
        "Abs",
        "Add",
        "Cast",
        "Clip",
        "Div",
        "Dropout",
        "Elu",
        "Gather",
        "Gelu",
        "Gemm",
        "HardSigmoid",
        "Identity",
        "LayerNormalization",
        "LeakyRelu",
        "LogSoftmax",
        "MatMul",
        "Max",
        "Min",
        "Mul",
        "Neg",
        "PRelu",
        "Relu",
        "Shape",
        "Sigmoid",
        "Size",
        "Slice",
        "Softmax",
        "Softplus",
        "Split",
        "Sub",
        "Sum",
        "Tanh",
    ]
)
"""Operators that act in the same way on each sample without a batch axis."""

_CURE = "export the model with a batch axis: a sample of shape [1, ...]"
_KEEP = "keep the batch axis in front (in torch, batch_first=True)"


def batch_axis(use: Use, bare: Set[str], cure: str) -> tuple[Operator, bool] | None:
    """Return the operator of a node that moves a batch axis of size one, or data without one.

    And whether what it returns has no batch axis in front. Refusals end with ``cure``.
    """
    if not use.variables or not use.alone:
        return None
    kind = use.proto.op_type
    if use.bare and not all(name in bare for name in use.variables):
        raise UnsupportedError(f"it joins data with and without a batch axis; {cure}")
    places = _places(use, use.shape if use.bare else (1, *use.shape))
    if places is not None:
        front = places.ndim > 1 and len(places) == 1
        # Of axes of size one, another one may come in front.
        kept = kind == "Transpose" and use.attribute("perm", [-1])[0] == 0
        if use.bare or not (front and kept):
            shape = places.shape[front:]
            turned = kind == "Transpose" and Pick(tuple(places.reshape(-1).tolist()), shape)
            return turned or Reshape(shape), not front
    if not use.bare:
        return None
    if kind not in _ALIKE:
        raise UnsupportedError(f"its data has no batch axis; {cure}")
    fixed = [name for name in use.proto.input if name and name not in use.shapes]
    if kind != "MatMul" and any(use.values[name].ndim > len(use.shape) for name in fixed):
        raise UnsupportedError(f"a constant adds an axis to data without a batch axis; {cure}")
    return None


def _places(use: Use, before: Shape) -> Integers | None:
    """Return where numbers come from in a node that only moves them; None for any other."""
    kind, places = use.proto.op_type, np.arange(math.prod(before)).reshape(before)
    if kind == "Transpose" and len(before) > 1:
        order = [int(i) for i in use.attribute("perm", range(len(before))[::-1])]
        return places.transpose(order) if sorted(order) == [*range(len(before))] else None
    named = use.bare or kind != "Squeeze" or use.integers(1, "axes")
    after = RESHAPED[kind](use, before) if kind in RESHAPED and named else []
    if after and math.prod(after) != places.size:
        raise UnsupportedError(
            f"one sample of {list(before)} cannot be reshaped to {after}; export the model for a "
            "batch of 1, or of any size"
        )
    return places.reshape(after) if after else None


_SMOOTH = (
    "of smooth functions, only Sigmoid, Tanh, Gelu, SiLU, Mish, Softplus, Elu, Selu and Celu are "
    "supported (SiLU, Gelu and Mish as torch writes them); train with one of these, or with ReLU"
)
_NORMAL = (
    "it divides by a value computed from the data; train with batch or layer normalisation "
    "instead (LayerNormalization is one node from opset 17 on)"
)
_ATTENTION = (
    "write attention with torch.nn.functional.scaled_dot_product_attention, or as MatMul and "
    "Softmax, before exporting"
)
_RECURRENT = (
    "recurrent networks are not supported; train a dense or convolutional one on a window of "
    "the series"
)
_QUANTISED = "quantised networks compute in another arithmetic; export the float32 model"
TREES = (
    'trees are not a network: read them with trees("...") instead of network("..."); for what one '
    "row changes, train them with leaveout trees train, or train a forest that forgets exactly, "
    "with leaveout forest train"
)
_VECTORS = "it is not a network; train MLPClassifier instead"
_JUMPS = "it is discontinuous; train with ReLU instead"
_RESIZE = "sampling images inside a network is not supported; do it before the network"
_FLOW = "branches and loops are not supported; export one case of the model"
_NORM = (
    "fold a norm of weights into them before exporting: remove_parametrizations of "
    "torch.nn.utils.parametrize; a norm of the data is not supported: scale the data before the "
    "network"
)
_SERIES = "the scores must be one tensor; export them as [batch, labels]"
_TABLE = "indexing by data is not supported; encode categories as one-hot columns"

_BY_KIND: Mapping[str, str] = {
    _SMOOTH: "Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp Log "
    "Reciprocal Sin Sinh Softsign Sqrt Swish Tan",
    _NORMAL: "GroupNormalization InstanceNormalization LpNormalization LRN "
    "MeanVarianceNormalization SimplifiedLayerNormalization LpPool GlobalLpPool "
    "Normalizer",
    _ATTENTION: "Attention Einsum MultiHeadAttention RotaryEmbedding",
    _RECURRENT: "GRU LSTM RNN Scan",
    _QUANTISED: "ConvInteger DequantizeLinear DynamicQuantizeLinear MatMulInteger QLinearConv "
    "QLinearMatMul QuantizeLinear",
    TREES: "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
    _VECTORS: "SVMClassifier SVMRegressor",
    _JUMPS: "And ArgMin Ceil Equal Floor Greater GreaterOrEqual Less LessOrEqual Mod Not Or "
    "Round Sign ThresholdedRelu TopK Where Xor",
    _RESIZE: "GridSample",
    _FLOW: "If Loop",
    _NORM: "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare",
    _SERIES: "ConcatFromSequence Optional SequenceAt SequenceConstruct SequenceEmpty "
    "SequenceInsert SplitToSequence",
    _TABLE: "Embedding GatherElements GatherND OneHot ScatterElements ScatterND",
}
_CURES = {name: text for text, names in _BY_KIND.items() for name in names.split()}

_PRODUCTS = {
    "Div": "it divides data by data; multiply instead, or divide before the network",
}
"""Operators that the network's data may not be both inputs of."""

TELLING = frozenset(
    name
    for text in (_NORMAL, _ATTENTION, _RECURRENT, _QUANTISED, TREES, _VECTORS, _FLOW)
    for name in _BY_KIND[text].split()
)
"""Operators that reveal the kind of network; none of them computes on constants."""

_OTHER = (
    "simplify the model before exporting it, or express it with supported operators "
    "(docs/own-model.md)"
)


def cure(operator: str, known: Iterable[str] | str) -> str:
    """Return why an operator is unsupported and what to do, for the end of an error message."""
    if operator in _CURES:
        return f"not supported: {_CURES[operator]}"
    if isinstance(known, str):
        return f"{known}; {_OTHER}"
    return f"not supported; supported operators: {', '.join(sorted(known))}; {_OTHER}"


def with_cure(refusal: str) -> str:
    """Return an error message with advice appended unless it already has some."""
    return refusal if ";" in refusal or ": export" in refusal else f"{refusal}; {_OTHER}"


LARGEST = 2**27
"""Most entries of a network's matrices, 1 GiB in float64."""


class Extent:
    """Number of matrix entries of a layer graph, counted node by node.

    From the input or an activation to each tensor before the next is one matrix, and rounding
    analysis adds one per linear operator.
    """

    def __init__(self, name: str, shape: Shape, constants: Shapes) -> None:
        self._constants = constants
        # How many entries of each source a number of each tensor reads, by names of tensors.
        self._reads: dict[str, Mapping[str, float]] = {name: {name: 1.0}}
        self._widths = {name: math.prod(shape)}
        self.total = float(math.prod(shape))

    def add(self, node: Node, shape: Shape, after: Shape) -> None:
        """Count a node."""
        width = self._widths[node.output] = math.prod(after)
        if isinstance(node.operator, Relu | Smooth):
            self._reads[node.output] = {node.output: 1.0}
            self.total += width
            return
        alone = node.inputs[:1] if isinstance(node.operator, Normal) else node.inputs
        reads = [self._reads[name] for name in alone]
        each = 1.0
        if isinstance(node.operator, Affine):
            entries = node.operator.entries(shape, self._constants)
            self.total += entries
            each = entries / width
        sources = {source for read in reads for source in read}
        self._reads[node.output] = {
            source: min(self._widths[source], each * sum(read.get(source, 0.0) for read in reads))
            for source in sources
        }
        self.total += width * sum(self._reads[node.output].values())


def refuse_padded(source: str, nodes: Sequence[Node]) -> None:
    """Refuse MaxPool over data padded with constants.

    onnxruntime fuses Pad and MaxPool and then ignores the padding instead of treating it as 0; this
    is equivalent only if all data are at least 0.
    """
    made = {node.output: node for node in nodes}
    node = made.get(source)
    while node is not None and isinstance(node.operator, (Identity, Permute, Reshape, Take)):
        node = made.get(node.inputs[0])
    if node is None or not isinstance(node.operator, Place):
        return
    before = made.get(node.inputs[0])
    if node.operator.fill or before is None or not isinstance(before.operator, Relu):
        raise UnsupportedError(
            "in place of this constant, onnxruntime does not support a number as padding for "
            "the pooling after it; pad in the pooling itself (padding=1), or after a ReLU"
        )


def refuse_turned(first: str, weight: NDArray[Any] | None, turned: Set[str]) -> None:
    """Refuse MatMul of transposed data and a vector, which onnxruntime 1.31 fuses wrongly."""
    if first in turned and weight is not None and weight.ndim == 1:
        raise UnsupportedError(
            "onnxruntime may compute other numbers where transposed data is multiplied by a "
            "vector; multiply by a matrix of one column, and squeeze the product"
        )


class BatchError(ModelError):
    """A model that can be read for batches of one sample alone."""


SEVERAL = {"Split"}  # operators with more than one output that is read


def read_graph(model: onnx.ModelProto, where: str, notes: Sequence[str] = ()) -> Graph:
    """Read the layer graph of a model, without computing tensors or creating matrices."""
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
            # All nodes that the scores depend on come before this one.
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
        # All members share the graph, so reading it must not depend on parameter values.
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
        self.turned: set[str] = set()  # tensors of the file behind a Transpose
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
                f"{self.where}: with {what}, the network's matrices have "
                f"{self.extent.total:.3g} entries; at most {LARGEST:,} (1 GiB) are supported; "
                "use smaller inputs, fewer channels or larger strides"
            )

    def look_ahead(self, model: onnx.ModelProto) -> None:
        """Refuse unsupported kinds of networks by their characteristic operators."""
        data = {self.input}
        for proto in model.graph.node:
            why = cure(proto.op_type, "") if proto.op_type in TELLING else ""
            if proto.op_type in _PRODUCTS and data.issuperset(proto.input[:2]):
                why = _PRODUCTS[proto.op_type]
            if why:
                name = proto.name or f"output {next(iter(proto.output), '')}"
                raise ModelError(f"{self.where}: node {name!r} ({proto.op_type}): {why}")
            if proto.op_type not in {"Shape", "Size"} and data.intersection(proto.input):
                data.update(proto.output)

    def read(self, proto: onnx.NodeProto) -> None:
        name = proto.name or f"output {next(iter(proto.output), '')}"
        try:
            if proto.op_type == "MaxPool":
                refuse_padded(self.renamed.get(proto.input[0], proto.input[0]), self.nodes)
            self.understand(proto, REWRITES)
            if proto.op_type == "MatMul":
                refuse_turned(proto.input[0], self.values.get(proto.input[1]), self.turned)
        except (UnsupportedError, ValueError) as error:
            raised = BatchError if isinstance(error, BatchUsedError) else ModelError
            raise raised(
                f"{self.where}: node {name!r} ({proto.op_type}): {with_cure(str(error))}"
            ) from None
        turns = proto.op_type == "Transpose" and proto.input[0] in self.shapes
        if turns or self.turned.intersection(proto.input):
            self.turned.update(proto.output)
        if proto.output[0] in self.shapes:
            self.within(f"node {name!r} ({proto.op_type})")

    def understand(self, original: onnx.NodeProto, rewrites: Sequence[Rewrite]) -> None:
        proto = onnx.NodeProto()
        proto.CopyFrom(original)
        proto.input[:] = [self.renamed.get(source, source) for source in proto.input]
        if proto.domain == OUTLINED and proto.input[0] in self.shapes:
            self.add_activation(proto)
            return
        self.check(proto)
        bare = bool(self.bare.intersection(proto.input))
        use = Use(proto, self.opset, self.shapes, self.values, self.alone, bare)
        added = batch_axis(use, self.bare, _CURE if self.input in self.bare else _KEEP)
        if added is not None:
            operator, without = added
            self.add(Node(proto.name or proto.output[0], operator, use.variables, proto.output[0]))
            self.bare |= {proto.output[0]} if without else set()
            return
        found = rewrite_node(use, rewrites, self.last, self.taken)
        if isinstance(found, str) and not use.variables:
            self.fold(proto, found)
        elif isinstance(found, str):
            if proto.op_type not in OPERATORS:
                raise UnsupportedError(found)
            name = proto.name or proto.output[0]
            operators = OPERATORS[proto.op_type].operators(use)
            # An operator with one result: further outputs are unused.
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

    def add_activation(self, proto: onnx.NodeProto) -> None:
        """Read what `leaveout.models.onnx.outlines` made of several nodes, or a rewrite of one."""
        (source, *others), (output,) = proto.input, proto.output
        name = proto.op_type.partition("_")[0]
        operator = Normal(tuple(attributes_of(proto)["axes"])) if others else Smooth(name)
        self.add(Node(proto.name or output, operator, (source, *others), output))
        self.bare |= {output} if source in self.bare else set()

    def fold(self, proto: onnx.NodeProto, reason: str) -> None:
        """Compute a node whose inputs are constants other than parameters."""
        if proto.op_type not in FOLDED:
            raise UnsupportedError(cure(proto.op_type, reason))
        varying = sorted(self.varying.intersection(proto.input))
        if varying and proto.op_type in {"Expand", "Tile"}:
            raise UnsupportedError(
                f"it repeats the parameter {varying[0]!r}; export the model for a batch of 1, or "
                "of any size (in torch, x.shape[0] in place of len(x))"
            )
        if varying:
            raise UnsupportedError(
                f"it computes only on the parameter {varying[0]!r}, which members change; fold "
                "it into the weights before exporting (onnxsim, or onnxruntime's optimised "
                "model)"
            )
        found = fold_node(proto, self.values, self.opset, self.where)
        for name, value in zip((name for name in proto.output if name), found, strict=True):
            self.values[name] = value
            self.constant_shapes[name] = value.shape

    def check(self, proto: onnx.NodeProto) -> None:
        """Check a node against the supported operators, ONNX's schema, and its position."""
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
                raise UnsupportedError(f"no earlier node produces its input {source!r}")
        try:
            onnx.checker.check_node(proto, self.context)
        except onnx.checker.ValidationError as error:
            line = (str(error).strip().splitlines() or ["damaged"])[0]
            raise UnsupportedError(f"not valid in opset {self.opset}: {line}") from None
        first, *others = proto.output
        if not first and proto.op_type not in SEVERAL:
            raise UnsupportedError("its first output has no name")
        for output in proto.output:
            if output and (output in self.shapes or output in self.constant_shapes):
                raise UnsupportedError(f"another node or an initialiser also produces {output!r}")
        for output in others:
            if output and output in self.used and proto.op_type not in SEVERAL:
                raise UnsupportedError(
                    f"its output {output!r} is used; only the first output may be used"
                )

    def add(self, node: Node) -> None:
        shape = self.shapes[node.inputs[0]]
        after = shape
        if isinstance(node.operator, Affine):
            after = node.operator.shape_after(shape, self.constant_shapes)
        number = node.output in self.last.number
        if not (after or number) or len(after) >= MOST_AXES or min(after, default=1) < 1:
            raise UnsupportedError(
                f"its result has shape {['batch', *after]}; expected 2 to {MOST_AXES} axes, none "
                "of them empty"
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
        if output in self.bare and len(shape) != 1:
            raise ModelError(
                f"{where}: output {output!r} has shape {list(shape)} for one sample, without a "
                "batch axis; keep the batch axis in front, e.g. x.reshape(len(x), -1)"
            )
        if math.prod(shape) == 1:
            number, output = output, f"{output}//scores"
            self.add(Node(output, BesideZero(), (number,), output))
            self.notes.append(
                "its single number is read as two labels: the scores are 0 and the number, so "
                "the label is 1 where it is above 0, and score 1 is the number itself"
            )
            shape = self.shapes[output]
        if sum(n > 1 for n in shape) != 1:
            raise ModelError(
                f"{where}: the output has shape {['batch', *shape]}; expected [batch, labels]: "
                "flatten or pool before the last layer"
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
