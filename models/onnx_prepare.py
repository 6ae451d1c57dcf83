"""Preparation of a model before reading: one score output, weights in float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from leaveout.errors import ModelError
from leaveout.models.onnx_sklearn import is_linear, write_out

_HALVES = {TensorProto.FLOAT16, TensorProto.BFLOAT16}
_LABELS = (
    "the outputs {names} are dropped: labels and confidences are those of the scores that they "
    "come from"
)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A model ready to be read, with notes on its preparation."""

    model: onnx.ModelProto
    notes: tuple[str, ...] = ()  # what a user should know
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

    The name is empty if the outputs are read; the number is 0 if they are not columns.
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
            f"{where}: the model has several outputs ({names}); export the scores only, or take "
            "them with onnx.utils.extract_model"
        )
    if not found or not dropped:
        return "", "", 0
    (scores,) = found
    names = " and ".join(repr(name) for name in dropped)
    note = _LABELS.format(names=names)
    return _of_one_probability(model, made, scores), note, columns if whole else 0


def _whole(model: onnx.ModelProto, made: dict[str, onnx.NodeProto], outputs: list[str]) -> str:
    """Return the tensor whose columns the outputs are, in order; empty if none."""
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
    """Drop everything the scores do not need."""
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
    """Return the half-precision constants that only casts to float32 read."""
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
