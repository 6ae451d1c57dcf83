"""Networks of a query, loaded and checked against its declarations."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from leaveout.errors import ModelError
from leaveout.files import MODEL, open_file
from leaveout.models import Network, architecture_hash, load_network
from leaveout.models.matrices import numbers
from leaveout.models.onnx.file import check_against_onnxruntime, network_from, network_from_bytes
from leaveout.specs.text.errors import Position, Slip, nearest
from leaveout.specs.vnnlib.problem import Declared, Problem, Tensor


def hidden_network(network: Network, node: Tensor, at: Position) -> tuple[Network, tuple[int, ...]]:
    """Return the network whose scores are a flattened hidden node, and its shape."""
    given = {name for proto in network.model.graph.node for name in proto.output if name}
    if node.onnx_name not in given:
        wrong = f"no node of {network.source} produces '{node.onnx_name[:40]}'"
        raise Slip(at, wrong, nearest(node.onnx_name[:40], given))
    model, flat = _cut(network.model, node.onnx_name)
    try:
        found = network_from(model, network.source)
        check_against_onnxruntime(found)
    except ModelError as error:
        wrong = f"the hidden node {node.name} is not supported: {error}"
        raise Slip(at, wrong, "remove the conditions on it") from None
    last = next(each for each in found.graph.nodes if each.output == flat)
    return found, tuple(found.graph.shapes[last.inputs[0]])


def _cut(model: onnx.ModelProto, name: str) -> tuple[onnx.ModelProto, str]:
    """Return the part of a model that computes a tensor, flattened, and its new name."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    needed, kept = {name}, []
    for proto in reversed(model.graph.node):
        if needed.intersection(proto.output):
            kept.append(proto)
            needed.update(proto.input)
    taken = {each for proto in model.graph.node for each in (*proto.input, *proto.output)}
    flat = f"{name} flat"
    while flat in taken:
        flat += "_"
    del graph.node[:]
    graph.node.extend(reversed(kept))
    graph.node.append(onnx.helper.make_node("Flatten", [name], [flat], name=flat, axis=1))
    stored = [item for item in model.graph.initializer if item.name in needed]
    del graph.initializer[:]
    graph.initializer.extend(stored)
    inputs = {item.name for item in model.graph.initializer} - {item.name for item in stored}
    for i in reversed(range(len(graph.input))):
        if graph.input[i].name in inputs:
            del graph.input[i]
    del graph.output[:]
    graph.output.append(onnx.helper.make_tensor_value_info(flat, onnx.TensorProto.FLOAT, None))
    del graph.value_info[:]
    return copy, flat


def load_model(path: Path) -> Network:
    """Load a network, possibly gzip-compressed."""
    if path.suffix != ".gz":
        return load_network(path)
    try:
        with open_file(path, MODEL) as file, gzip.GzipFile(fileobj=file) as stream:
            content = stream.read(MODEL + 1)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ModelError(f"{path}: not a complete gzip file") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot read: {error.strerror or error}") from None
    if len(content) > MODEL:
        raise ModelError(f"{path}: unpacks to more than the size limit of an ONNX file")
    return network_from_bytes(content, str(path), beside=path)


def outputs_of(network: Network) -> int:
    """Return a network's number of outputs; one with a single output has two scores."""
    return 1 if network.graph.number else network.labels


def score_of(network: Network, element: int) -> int:
    """Return the score of an output element; a single output is score 1."""
    return element + bool(network.graph.number)


def structure_hash(network: Network) -> str:
    """Return the SHA-256 of a graph without parameter values and names."""
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    used = [name for node in model.graph.node for name in node.input]
    names = {
        name: f"parameter {i}"
        for i, name in enumerate(each for each in dict.fromkeys(used) if each in network.parameters)
    }
    for item in model.graph.initializer:
        item.name = names.get(item.name, item.name)
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = names.get(name, name)
    # An initialiser may also be listed as an input; it is not an input of the graph.
    for i in reversed(range(len(model.graph.input))):
        if model.graph.input[i].name in names:
            del model.graph.input[i]
    return architecture_hash(model)


def _same_weights(first: Network, second: Network) -> bool:
    if first is second:
        return True
    if structure_hash(first) != structure_hash(second):
        return False
    return all(
        np.array_equal(ours, theirs)
        for mine, other in zip(first.stack.layers, second.stack.layers, strict=True)
        for ours, theirs in (
            (mine.bias, other.bias),
            *((numbers(mine.weights[s]), numbers(other.weights[s])) for s in mine.weights),
        )
    )


def check_networks(problem: Problem, networks: Sequence[Network]) -> list[Network]:
    """Refuse undeclared networks; return the networks of the hidden nodes."""
    by_name = dict(zip((each.name for each in problem.networks), networks, strict=True))
    for declared in problem.networks:
        network = by_name[declared.name]
        _refuse_dropped(network)
        graph = network.graph
        for tensor, shape, name in (
            (declared.input, graph.input_shape, graph.input),
            (declared.output, (outputs_of(network),), graph.score_tensor),
        ):
            _check_tensor(declared, tensor, shape, name, network.source)
        if declared.equal_to and not _same_weights(network, by_name[declared.equal_to]):
            raise Slip(declared.at, f"{declared.name} is not equal to {declared.equal_to}")
        other = declared.isomorphic_to
        if other and structure_hash(network) != structure_hash(by_name[other]):
            raise Slip(declared.at, f"{declared.name} is not isomorphic to {other}")
    found = []
    for position, node in problem.hidden_nodes:
        declared, network = problem.networks[position], networks[position]
        hidden, shape = hidden_network(network, node, declared.at)
        _check_tensor(declared, node, shape, node.onnx_name, network.source)
        found.append(hidden)
    return found


def _refuse_dropped(network: Network) -> None:
    last = network.model.graph.output[0].name
    for node in network.model.graph.node:
        if last in node.output and network.graph.score_tensor != last:
            raise ModelError(
                f"{network.source}: the final {node.op_type} is not computed, but a VNN-LIB "
                "query is about its output; export the scores before it"
            )


def _squeeze_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _check_tensor(
    declared: Declared, tensor: Tensor, shape: tuple[int, ...], name: str, source: str
) -> None:
    size = int(np.prod(shape))
    if _squeeze_shape(tensor.shape) != _squeeze_shape(shape) and tensor.shape != (size,):
        raise Slip(
            declared.at,
            f"{tensor.name} of {declared.name} has shape {list(tensor.shape)}, but in {source} "
            f"{list(shape)} without the batch",
        )
    if tensor.onnx_name and tensor.onnx_name != name:
        raise Slip(declared.at, f"{source} has no '{tensor.onnx_name[:40]}', only '{name}'")
