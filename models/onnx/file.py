"""Loading of networks from ONNX files, checked against onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from leaveout.errors import ModelError
from leaveout.files import MODEL, read_whole
from leaveout.kernel.smooth import ROOTED
from leaveout.models.graph import Graph, Join, Stack
from leaveout.models.lowering import lower, stacked_constants
from leaveout.models.matrices import magnitude
from leaveout.models.onnx.operator_check import check_operators
from leaveout.models.onnx.operators import Affine, Normal, Smooth
from leaveout.models.onnx.reader import BatchError, read_graph
from leaveout.models.onnx.repairs import one_sample, repair_model
from leaveout.models.onnx.signature import architecture_hash
from leaveout.models.onnx.values import read_parameters, refuse_other_files, take_in
from leaveout.models.replay import Runner, session, with_parameters

if TYPE_CHECKING:
    import networkx as nx

Floats = NDArray[np.float32]

_MOVES = {"ArrayFeatureExtractor", "Imputer"}
_LINEAR = {"LinearClassifier", "LinearRegressor"}
_KINDS = {*_MOVES, "Scaler", *_LINEAR}
_PROBABILITIES = {b"NONE": "", b"LOGISTIC": "Sigmoid", b"SOFTMAX": "Softmax"}
_NEAR = 1e-5  # allowed relative and absolute difference of probabilities: far above rounding


def is_linear(node: onnx.NodeProto) -> bool:
    """Return whether a node is a step or a linear model of scikit-learn that can be written out."""
    return node.domain == "ai.onnx.ml" and node.op_type in _KINDS


def write_out(model: onnx.ModelProto, where: str) -> None:
    """Replace scalers and linear models in place by sums and products, and check each.

    onnxruntime computes a scaler as this difference and product, and a linear model as a product of
    float32 matrices, at most one rounding a term and sum: what is charged for the nodes written.
    """
    nodes = list(model.graph.node)
    known = {item.name: item for item in model.graph.initializer}
    taken = {name for each in nodes for name in (*each.output, *each.input)}
    del model.graph.node[:]
    for node in nodes:
        if not is_linear(node):
            model.graph.node.append(node)
            continue
        given = [known[name] for name in node.input if name in known]
        if node.op_type in _MOVES:
            (made, constants), output = _move(node, given, where), node.output[0]
        elif node.op_type == "Scaler":
            made, constants, output = _scaler(node), _scaler_parameters(node), node.output[0]
        else:
            made, constants, output = _linear(node), _matrices(node), node.output[-1]
        if taken.intersection((*constants, *(each.output[0] for each in made[:-1]))):
            raise ModelError(
                f"{where}: other tensors already have the names that its node "
                f"{node.name!r} needs; rename them"
            )
        stored = [numpy_helper.from_array(value, name) for name, value in constants.items()]
        _check(node, made, [*stored, *given], output, where)
        model.graph.initializer.extend(stored)
        model.graph.node.extend(made)


def _move(
    node: onnx.NodeProto, given: list[TensorProto], where: str
) -> tuple[list[onnx.NodeProto], dict[str, NDArray[Any]]]:
    """Return what selects columns, or fills gaps: numbers of a box have none."""
    target = node.output[0]
    if node.op_type == "Imputer":
        gaps = [each.f for each in node.attribute if each.name == "replaced_value_float"]
        if not (gaps and math.isnan(gaps[0])):
            raise ModelError(
                f"{where}: node {node.name!r} (Imputer) replaces {gaps[0] if gaps else 0:g}, so it "
                "is discontinuous; replace NaN instead (missing_values=np.nan)"
            )
        return [helper.make_node("Identity", node.input, [target], name=node.name)], {}
    if len(given) != 1 or given[0].name != node.input[1]:
        raise ModelError(
            f"{where}: node {node.name!r} (ArrayFeatureExtractor) selects columns by data; "
            "only constant columns are supported"
        )
    places, name = numpy_helper.to_array(given[0]).reshape(-1), f"{target}/places"
    inputs = [node.input[0], name]
    return [helper.make_node("Gather", inputs, [target], name=node.name, axis=-1)], {name: places}


def _scaler_parameters(node: onnx.NodeProto) -> dict[str, Floats]:
    """Return the offset and scale of a scaler as named arrays."""
    given = {each.name: list(each.floats) for each in node.attribute}
    target = node.output[0]
    return {
        f"{target}/{name}": np.asarray(given.get(name, []), np.float32)
        for name in ("offset", "scale")
    }


def _scaler(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    target = node.output[0]
    centred = f"{target}/centred"
    return [
        helper.make_node("Sub", [node.input[0], f"{target}/offset"], [centred]),
        helper.make_node("Mul", [centred, f"{target}/scale"], [target], name=node.name),
    ]


def _matrices(node: onnx.NodeProto) -> dict[str, Floats]:
    given = {each.name: list(each.floats) for each in node.attribute}
    intercepts = np.asarray(given.get("intercepts", []), np.float32)
    coefficients = np.asarray(given.get("coefficients", []), np.float32)
    rows = max(1, len(intercepts))
    target = node.output[-1]
    fits = coefficients.size % rows == 0
    return {
        f"{target}/coefficients": coefficients.reshape(rows if fits else 1, -1).T.copy(),
        f"{target}/intercepts": intercepts,
    }


def _linear(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    target = node.output[-1]
    product, total = f"{target}/product", f"{target}/scores"
    transforms = [each.s for each in node.attribute if each.name == "post_transform"]
    last = _PROBABILITIES.get(transforms[0] if transforms else b"NONE", "Identity")
    made = [
        helper.make_node("MatMul", [node.input[0], f"{target}/coefficients"], [product]),
        helper.make_node("Add", [product, f"{target}/intercepts"], [total if last else target]),
    ]
    if last:
        axis: dict[str, Any] = {"axis": 1} if last == "Softmax" else {}
        made.append(helper.make_node(last, [total], [target], name=node.name, **axis))
    return made


def _check(
    node: onnx.NodeProto,
    made: list[onnx.NodeProto],
    stored: list[TensorProto],
    output: str,
    where: str,
) -> None:
    """Compare a node in onnxruntime with its replacement; all but linear models bit for bit."""
    width = max((len(each.floats) for each in node.attribute), default=1)
    if node.op_type in _LINEAR:
        width = stored[0].dims[0]
    elif node.op_type == "ArrayFeatureExtractor":
        width = 1 + int(numpy_helper.to_array(stored[0]).max(initial=0))
    points = np.random.default_rng(0).normal(size=(64, max(1, width))).astype(np.float32)
    try:
        first, second = (
            _run(nodes, stored, node.input[0], output, points, where) for nodes in ([node], made)
        )
    except ModelError:
        first, second = np.zeros(1, np.float32), np.ones(1, np.float32)
    near = _NEAR if node.op_type in _LINEAR else 0.0
    if first.shape != second.shape or not np.allclose(first, second, rtol=near, atol=near):
        raise ModelError(
            f"{where}: node {node.name!r} ({node.op_type}) does not compute the expected sums "
            "and products; export the model again with the newest skl2onnx"
        )


def _run(
    nodes: list[onnx.NodeProto],
    stored: list[TensorProto],
    source: str,
    output: str,
    points: Floats,
    where: str,
) -> Floats:
    used = {name for each in nodes for name in each.input}
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info(source, TensorProto.FLOAT, [None, points.shape[1]])],
        [onnx.ValueInfoProto(name=output)],
        [item for item in stored if item.name in used],
    )
    imports = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    try:
        (found,) = session(model, where).run(None, {source: points})
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(str(error)) from None
    return np.asarray(found)


_HALVES = {TensorProto.FLOAT16, TensorProto.BFLOAT16}
_LABELS = (
    "the outputs {names} are dropped: labels and confidences are computed from the underlying "
    "scores"
)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model ready to be read, with notes on its preparation."""

    model: onnx.ModelProto
    notes: tuple[str, ...] = ()  # for the user
    columns: int = 0


def prepare_model(model: onnx.ModelProto, where: str) -> Prepared:
    """Return an equivalent model for reading, with notes on what was changed.

    skl2onnx's labels and probability dictionaries are dropped, half-precision weights become
    float32, and scikit-learn's scalers and linear models become arithmetic.
    """
    scores, note, columns = _scores(model, where)
    halves = _halves(model)
    if not (scores or halves or any(map(is_linear, model.graph.node))):
        return Prepared(model)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if scores:
        _keep(copy, scores)
    for tensor in (*copy.graph.initializer, *_constants(copy)):
        if tensor.name in halves:
            exact = numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(exact, tensor.name))
    stale = [item for item in copy.graph.value_info if item.name in halves]
    for item in stale:
        copy.graph.value_info.remove(item)
    write_out(copy, where)
    return Prepared(copy, (note,) if note else (), columns)


def _is(node: onnx.NodeProto | None, kind: str, domain: str = "") -> bool:
    return node is not None and node.op_type == kind and node.domain == domain


def _scores(model: onnx.ModelProto, where: str) -> tuple[str, str, int]:
    """Return the tensor to read instead of the outputs, a note, and its number of columns.

    The name is empty if the outputs themselves are read; the number is 0 if they are not columns.
    """
    graph = model.graph
    made = {name: node for node in graph.node for name in node.output}
    found, dropped = {}, []
    for item in graph.output:
        node = made.get(item.name)
        if node is not None and _is(node, "ZipMap", "ai.onnx.ml"):
            found[_source(made, node.input[0])] = item.name
            dropped.append(item.name)
        elif item.type.WhichOneof("value") == "tensor_type" and (
            item.type.tensor_type.elem_type in {TensorProto.FLOAT, TensorProto.UNDEFINED}
        ):
            found[_source(made, item.name)] = item.name
        elif len(graph.output) > 1:
            dropped.append(item.name)
    columns = len(found)
    whole = _whole(model, made, [*found])
    if whole:
        dropped += found.values()
        found = {whole: ""}
    if len(found) > 1:
        names = ", ".join(repr(name) for name in found.values())
        raise ModelError(
            f"{where}: the model has several outputs ({names}); export only the scores, or "
            "extract them with onnx.utils.extract_model"
        )
    if not found or not dropped:
        return "", "", 0
    (scores,) = found
    names = " and ".join(repr(name) for name in dropped)
    note = _LABELS.format(names=names)
    return _of_one_probability(model, made, scores), note, columns if whole else 0


def _whole(model: onnx.ModelProto, made: dict[str, onnx.NodeProto], outputs: list[str]) -> str:
    """Return the tensor whose columns the outputs are, in order; empty if there is none."""
    integers = {
        item.name: numpy_helper.to_array(item).reshape(-1).tolist()
        for item in model.graph.initializer
        if item.data_type == TensorProto.INT64
    }
    sources = set()
    for place, name in enumerate(outputs):
        node = made.get(name)
        while node is not None and _is(node, "Reshape"):
            node = made.get(node.input[0])
        if node is None or not _is(node, "Slice") or len(node.input) != 4:
            return ""
        if [integers.get(each) for each in node.input[1:]] != [[place], [place + 1], [1]]:
            return ""
        sources.add(_source(made, node.input[0]))
    return sources.pop() if len(sources) == 1 and len(outputs) > 1 else ""


def _source(made: dict[str, onnx.NodeProto], name: str) -> str:
    """Follow copies and normalisations of probabilities back to their source."""
    node = made.get(name)
    if node is None or not (_is(node, "Identity") or _is(node, "Normalizer", "ai.onnx.ml")):
        return name
    norms = [each.s for each in node.attribute if each.name == "norm"]
    maker = made.get(node.input[0])
    if node.op_type == "Normalizer" and (norms != [b"L1"] or not _is_of_probabilities(maker)):
        return name
    return _source(made, node.input[0])


def _is_of_probabilities(node: onnx.NodeProto | None) -> bool:
    """Return whether a node's output is non-negative, so that normalising keeps the order."""
    if _is(node, "Softmax") or _is(node, "Sigmoid"):
        return True
    transforms = (
        [each.s for each in node.attribute if each.name == "post_transform"] if node else []
    )
    return _is(node, "LinearClassifier", "ai.onnx.ml") and transforms in (
        [b"SOFTMAX"],
        [b"LOGISTIC"],
    )


def _of_one_probability(
    model: onnx.ModelProto, made: dict[str, onnx.NodeProto], scores: str
) -> str:
    """Return ``p`` if the scores are ``[1 - p, p]``, as skl2onnx writes for two classes."""
    both = made.get(scores)
    if both is None or not _is(both, "Concat") or len(both.input) != 2:
        return scores
    rest, p = made.get(both.input[0]), both.input[1]
    if not (_is(rest, "Sub") and rest is not None and rest.input[1] == p):
        return scores
    ones = [
        numpy_helper.to_array(item)
        for item in model.graph.initializer
        if item.name == rest.input[0] and item.data_type == TensorProto.FLOAT
    ]
    fits = _is(made.get(p), "Sigmoid") and ones and ones[0].size == 1 and float(ones[0].item()) == 1
    return p if fits else scores


def _keep(model: onnx.ModelProto, scores: str) -> None:
    """Drop everything that the scores do not depend on."""
    graph, wanted, kept = model.graph, {scores}, []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
            kept.append(node)
    nodes, kept_values = kept[::-1], [item for item in graph.initializer if item.name in wanted]
    del graph.node[:], graph.initializer[:], graph.output[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept_values)
    graph.output.append(helper.make_tensor_value_info(scores, TensorProto.FLOAT, None))


def _constants(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors of Constant nodes, named after the nodes' outputs."""
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                attribute.t.name = node.output[0]
                yield attribute.t


def _halves(model: onnx.ModelProto) -> set[str]:
    """Return the half-precision constants that are only cast to float32."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    found = {
        tensor.name
        for tensor in (*copy.graph.initializer, *_constants(copy))
        if tensor.data_type in _HALVES
    }
    for node in model.graph.node if found else ():
        cast = _is(node, "Cast") and any(
            each.name == "to" and each.i == TensorProto.FLOAT for each in node.attribute
        )
        if not cast:
            found -= set(node.input)
    return found - {item.name for item in model.graph.output}


_SAMPLES = 32
_BATCHES = (*range(2, 9), 16)  # sizes of batches: a file may take one of them alone
_TOLERANCE = 2.0**-14
"""Allowed float32 error relative to the magnitude of the sums: far above the rounding in any
network small enough to verify, far below the effect of a misread operator."""


@dataclass(frozen=True, eq=False)
class Network:
    """A loaded network.

    Attributes
    ----------
    source : str
        Where it was read from, for messages.
    model : onnx.ModelProto
        The model that is read and run; its only output is the scores.
    graph : Graph
    """

    source: str
    model: onnx.ModelProto
    graph: Graph

    @cached_property
    def parameters(self) -> dict[str, NDArray[np.floating]]:
        """Return the values of the trainable initialisers by name, in file order."""
        return read_parameters(self.model)

    @cached_property
    def stack(self) -> Stack:
        """Return the network in normal form: a stack of one."""
        return lower(self.graph, {k: v[None] for k, v in self.parameters.items()})

    @cached_property
    def architecture(self) -> str:
        """Return the hash of the graph without the weights."""
        return architecture_hash(self.model)

    def computes_as(self, other: Network) -> bool:
        """Return whether a runtime computes identical numbers for both networks.

        A difference in the batch axis alone counts, as a runtime may rewrite the two differently.
        """
        return self is other or self._content == other._content

    @cached_property
    def _content(self) -> bytes:
        return self.model.SerializeToString(deterministic=True)

    @property
    def inputs(self) -> int:
        """Width of the flattened input."""
        return math.prod(self.graph.input_shape)

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self.graph.labels

    def nx_graph(self) -> nx.DiGraph:
        """Return the operators of the file as a graph of networkx.

        Returns
        -------
        networkx.DiGraph
            A node for the input, which comes first, and for each operator of the file in order,
            named by its first output; an edge from each to those that read it. Attributes of nodes:

            ``operator`` (str)
                Its ONNX name; ``Input``.
            ``name`` (str)
                The name of the node in the file, for messages.
            ``kind`` (str)
                ``input``, ``data``, ``constant`` (computed when the file is read) or ``dropped``.
            ``shape`` (tuple of int or None)
                Of one sample of its first output, or of a constant; None where it is dropped.
            ``numbers`` (int)
                The product of the shape.
            ``parameters`` (int)
                How many trained numbers it reads itself.
            ``read_as`` (tuple of str)
                The operators that it is read as.
        """
        from leaveout.models.onnx.network_graph import graph_of

        return graph_of(self.model, self.graph)

    def runner(self, parameters: Mapping[str, NDArray[np.floating]] | None = None) -> Runner:
        """Return this network, or one with these parameter values, in onnxruntime."""
        model = self.model if parameters is None else with_parameters(self.model, parameters)
        return Runner(model, self.graph, self.source)


def load_network(path: Path | str) -> Network:
    """Load a network and check that it is read as onnxruntime runs it.

    Parameters
    ----------
    path : path to an ONNX file

    Raises
    ------
    ModelError
        If the file is missing, is not ONNX, contains NaN or something unsupported, is too large in
        normal form, or if the network as read, or one of its operators alone, computes other
        numbers than onnxruntime.
    """
    source = Path(path)
    return network_from_bytes(_read(source), str(source), beside=source)


def network_from(model: onnx.ModelProto, source: str, notes: Sequence[str] = ()) -> Network:
    """Wrap a model already in memory, without checking it against onnxruntime."""
    repaired, more = repair_model(model)
    found = prepare_model(repaired, source)
    told = (*notes, *more, *found.notes)
    try:
        graph = read_graph(found.model, source, told)
    except BatchError:
        whole, found = found.model, replace(found, model=one_sample(found.model))
        told = (*told, "it computes with the size of a batch; read for one sample at a time")
        graph = read_graph(found.model, source, told)
        if _mixes_samples(Runner(whole, graph, source), Runner(found.model, graph, source), graph):
            raise ModelError(
                f"{source}: its scores of a sample depend on the others of a batch; keep the batch "
                "axis apart (MultiheadAttention needs batch_first=True)"
            ) from None
    if found.columns not in {0, graph.labels}:
        raise ModelError(
            f"{source}: it outputs {found.columns} of the {graph.labels} columns of its scores; "
            "export all of them, or the scores themselves"
        )
    return Network(source, found.model, graph)


def _mixes_samples(whole: Runner, alone: Runner, graph: Graph) -> bool:
    """Return whether a batch, if it can be computed, has other scores than its samples."""
    points = np.random.default_rng(0).permutation(_points(math.prod(graph.input_shape)))
    one_each = alone.scores(points)
    size = 1e-4 * (1 + float(np.abs(one_each).max(initial=0)))
    for count in _BATCHES:
        for at in range(0, _SAMPLES - count + 1, count):
            try:
                found = whole.scores(points[at : at + count])
            except ModelError:
                break
            expected = one_each[at : at + count]
            with np.errstate(invalid="ignore"):  # what overflows is refused later
                if found.shape != expected.shape or (np.abs(found - expected) > size).any():
                    return True
    return False


def _points(width: int) -> Floats:
    """Draw samples, shape (samples, width)."""
    rng, half = np.random.default_rng(0), _SAMPLES // 2
    parts = [rng.random((half, width)), rng.normal(size=(half, width))]
    return np.concatenate(parts).astype(np.float32)


def network_from_bytes(content: bytes, source: str, beside: Path | None = None) -> Network:
    """Load a network from the bytes of an ONNX file."""
    try:
        model = onnx.load_from_string(content)
        if beside is not None:
            take_in(model, beside)
        refuse_other_files(model, source)
        model, notes = repair_model(model)
        onnx.checker.check_model(model)
    except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
        line = (str(error).strip().splitlines() or ["damaged"])[0].rstrip(".")
        raise ModelError(
            f"{source}: not a valid ONNX model: {line}; export one, e.g. with torch.onnx.export "
            "(a torch checkpoint is not one), and copy it completely"
        ) from None
    network = network_from(model, source, notes)
    check_against_onnxruntime(network)
    return network


def _read(source: Path) -> bytes:
    try:
        return read_whole(source, MODEL)
    except FileNotFoundError:
        raise ModelError(f"{source}: no such file") from None
    except OSError as error:
        raise ModelError(f"{source}: cannot read: {error.strerror or error}") from None


def check_against_onnxruntime(network: Network) -> None:
    """Compare each operator alone, then all scores, with onnxruntime on samples.

    Scores are compared with optimisations on and a generous tolerance for cancellation; the
    comparison of single operators catches every misreading.
    """
    check_operators(network.model, network.graph, network.parameters, network.source)
    points = _points(network.inputs)
    expected = network.runner().scores(points).astype(np.float64)
    found = network.stack.scores(points.astype(np.float64))[0]
    if not np.isfinite(expected).all():
        raise ModelError(f"{network.source}: scores overflow float32 on inputs of size about 1")
    if expected.shape != found.shape:
        raise ModelError(
            f"{network.source}: onnxruntime returns scores of shape {expected.shape}, expected "
            f"{found.shape}"
        )
    allowed = _TOLERANCE * _magnitudes(network, points.astype(np.float64))
    worst = float(np.max(np.abs(expected - found) / allowed))
    if not worst <= 1:
        raise ModelError(
            f"{network.source}: leaveout evaluates the model differently from onnxruntime, by "
            f"{float(np.max(np.abs(expected - found))):.3g}; please report this model"
        )


def _magnitudes(network: Network, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the summed absolute values of each score's terms, shape (p, labels).

    Operator by operator, since terms that cancel when operators are folded are rounded before.
    """
    graph = network.graph
    own = {name: value[None] for name, value in network.parameters.items()}
    constants = stacked_constants(graph, own)
    shapes, sizes = {graph.input: graph.input_shape}, {graph.input: np.abs(points)}
    for node in graph.needed_nodes():
        shape, size = shapes[node.inputs[0]], sizes[node.inputs[0]]
        if isinstance(node.operator, Affine):
            matrix = magnitude(node.operator.matrix(shape, constants)[0])
            constant = node.operator.constant_magnitude(shape, constants)[0]
            size, shape = (matrix @ size.T).T + constant.reshape(-1), constant.shape
        elif isinstance(node.operator, Join):
            size = size + sizes[node.inputs[1]]
        elif isinstance(node.operator, Normal):
            # Slopes are at most one over the root of the least epsilon, or 1/2.
            whole, steep = sizes[node.inputs[1]], 1 if len(node.inputs) == 2 else ROOTED**-0.5
            size = (1 + whole + np.linalg.norm(whole, axis=1, keepdims=True)) * steep
        elif isinstance(node.operator, Smooth):
            # Of a table, no slope is above 1.2, and no value at 0 above 1.
            square = node.operator.name == "Square"
            size = size * size if square else 1.2 * size + 1.0
        shapes[node.output], sizes[node.output] = shape, size + np.finfo(np.float32).tiny
    return sizes[graph.output]
