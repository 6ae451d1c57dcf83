"""What is put right in a file before it is read, without changing what onnxruntime computes."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import count

import numpy as np
import onnx
from onnx import helper, numpy_helper

from leaveout.models.onnx.outlines import outline
from leaveout.models.onnx.signature import dimensions
from leaveout.models.onnx.use import DOMAINS

_FACTORS = {"Resize", "Upsample"}
"""Operators whose float inputs describe what they do, and are no weights."""


def repair_model(model: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """Return a model that can be read, and notes for the user; the model itself if it is one.

    Nodes come in order, of several opsets the last counts as for onnxruntime, infinite bounds of
    Clip are left out, factors of Resize become constants, several inputs become the columns of one,
    a fixed batch becomes any batch, and activations of several nodes become one.
    """
    copy, notes = onnx.ModelProto(), []
    copy.CopyFrom(model)
    if _is_unsorted(copy):
        nodes = order_nodes(list(copy.graph.node))
        del copy.graph.node[:]
        copy.graph.node.extend(nodes)
    own = [item for item in copy.opset_import if item.domain in DOMAINS]
    for item in own[:-1]:
        copy.opset_import.remove(item)
    if len(own) > 1:
        notes.append(f"of its opsets, the last counts, as for onnxruntime: {own[-1].version}")
    _drop_bounds(copy)
    _keep_factors(copy)
    notes += [*_join_inputs(copy), *_free_batch(copy)]
    if not model.functions:
        outline(copy)
    return (model, ()) if copy == model else (copy, tuple(notes))


def _is_unsorted(model: onnx.ModelProto) -> bool:
    """Return whether a node reads what only a later one computes."""
    later = {name for node in model.graph.node for name in node.output if name}
    for node in model.graph.node:
        if later.intersection(node.input):
            return True
        later.difference_update(node.output)
    return False


def order_nodes(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return nodes behind those that they read, else in the given order; as given in a cycle."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    sorter = TopologicalSorter(
        {i: {makers[each] for each in node.input if each in makers} for i, node in enumerate(nodes)}
    )
    try:
        sorter.prepare()
    except CycleError:
        return nodes
    ordered, ready = [], list(sorter.get_ready())
    heapq.heapify(ready)
    while ready:
        ordered.append(first := heapq.heappop(ready))
        sorter.done(first)
        for each in sorter.get_ready():
            heapq.heappush(ready, each)
    return [nodes[i] for i in ordered]


def _values(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yield the constants that are stored in the file, by name."""
    for item in model.graph.initializer:
        yield item.name, item
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                yield node.output[0], attribute.t


def _drop_bounds(model: onnx.ModelProto) -> None:
    """Leave out bounds of Clip that bound nothing, and their constants."""
    clips = [node for node in model.graph.node if node.op_type == "Clip" and len(node.input) > 1]
    names = {name for node in clips for name in node.input[1:]}
    stored = {name: item for name, item in _values(model) if name in names}
    dropped = set()
    for node in clips:
        for at, far in enumerate((-np.inf, np.inf), 1):
            name = node.input[at] if at < len(node.input) else ""
            if name in stored and not stored[name].external_data:
                value = numpy_helper.to_array(stored[name])
                if value.dtype == np.float32 and value.size == 1 and value.item() == far:
                    node.input[at] = ""
                    dropped.add(name)
    used = {name for node in model.graph.node for name in node.input}
    for item in [*model.graph.initializer]:
        if item.name in dropped - used:
            model.graph.initializer.remove(item)
    for node in [*model.graph.node]:
        if node.op_type == "Constant" and node.output[0] in dropped - used:
            model.graph.node.remove(node)
    _forget(model, dropped - used)


def _keep_factors(model: onnx.ModelProto) -> None:
    """Turn the stored factors of Resize into constants: members of a family share them."""
    names = {
        name for node in model.graph.node if node.op_type in _FACTORS for name in node.input[1:]
    }
    moved = [item for item in model.graph.initializer if item.name in names]
    for at, item in enumerate(moved):
        constant = helper.make_node("Constant", [], [item.name], value=item)
        model.graph.node.insert(at, constant)
        model.graph.initializer.remove(item)
    _forget(model, {item.name for item in moved})


def _forget(model: onnx.ModelProto, names: set[str]) -> None:
    """Drop inputs of the file that name constants without values."""
    for item in [*model.graph.input]:
        if item.name in names:
            model.graph.input.remove(item)


def _join_inputs(model: onnx.ModelProto) -> Iterator[str]:
    """Make the columns of several float32 inputs those of one, in the order of the file."""
    stored = {item.name for item in model.graph.initializer}
    inputs = [item for item in model.graph.input if item.name not in stored]
    sizes = [dimensions(item) for item in inputs]
    batches = {each[0] for each in sizes if each}
    if not (
        len(inputs) > 1
        and all(item.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for item in inputs)
        and all(len(each) > 1 and all(each[1:]) for each in sizes)
        and batches <= {None, 1}
    ):
        return
    taken = {name for node in model.graph.node for name in (*node.input, *node.output)} | stored
    # Nothing may have its name, nor one of those derived from it; an input may be read by no node.
    first = {name.partition("/")[0] for name in (*taken, *(item.name for item in inputs))}
    joined = next(name for name in ("x" * n for n in count(1)) if name not in first)
    start, said, made, constants = 0, [], [], []
    for item, (_, *shape) in zip(inputs, sizes, strict=True):
        width = math.prod(n or 0 for n in shape)
        columns, places, rest = (
            f"{joined}/{item.name}/{part}" for part in ("row", "places", "shape")
        )
        constants.append(numpy_helper.from_array(np.arange(start, start + width), places))
        into = item.name if len(shape) == 1 else columns
        made.append(helper.make_node("Gather", [joined, places], [into], axis=1))
        if len(shape) > 1:
            constants.append(numpy_helper.from_array(np.array([0, *shape], np.int64), rest))
            made.append(helper.make_node("Reshape", [columns, rest], [item.name]))
        said.append(
            f"{item.name} ({start + 1} to {start + width})"
            if width > 1
            else f"{item.name} ({start + 1})"
        )
        start += width
        model.graph.input.remove(item)
    batch = "batch" if batches == {None} else 1
    whole = helper.make_tensor_value_info(joined, onnx.TensorProto.FLOAT, [batch, start])
    model.graph.input.insert(0, whole)
    for at, node in enumerate(made):
        model.graph.node.insert(at, node)
    model.graph.initializer.extend(constants)
    yield f"its {len(inputs)} inputs are read as the columns of one: {', '.join(said)}"


def one_sample(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model for a batch of one sample."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    stored = {item.name for item in copy.graph.initializer}
    for item in copy.graph.input:
        dims = item.type.tensor_type.shape.dim
        if item.name not in stored and len(dims) > 1:
            dims[0].dim_value = 1
    del copy.graph.value_info[:]
    return copy


def _free_batch(model: onnx.ModelProto) -> Iterator[str]:
    """Let batches of any size in where the file is for a fixed one above 1."""
    stored = {item.name for item in model.graph.initializer}
    inputs = [item for item in model.graph.input if item.name not in stored]
    sizes = dimensions(inputs[0]) if len(inputs) == 1 else []
    batch = sizes[0] if len(sizes) > 1 else None
    if not batch or batch < 2:
        return
    for item in (inputs[0], *model.graph.output):
        dims = item.type.tensor_type.shape.dim
        if dims and dims[0].dim_value == batch:
            dims[0].dim_param = "batch"
    del model.graph.value_info[:]
    yield f"it is for batches of {batch}; read as it computes one sample"
