"""Hidden nodes as networks: the part of a network that computes one."""

from __future__ import annotations

import onnx

from leaveout.errors import ModelError
from leaveout.models import Network
from leaveout.models.onnx_file import check_against_onnxruntime, network_from
from leaveout.specs.text.errors import Slip, nearest
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.problem import Tensor


def hidden_network(network: Network, node: Tensor, at: Position) -> tuple[Network, tuple[int, ...]]:
    """Return the network whose scores are a flattened hidden node, and its shape."""
    given = {name for proto in network.model.graph.node for name in proto.output if name}
    if node.onnx_name not in given:
        wrong = f"no node of {network.source} gives '{node.onnx_name[:40]}'"
        raise Slip(at, wrong, nearest(node.onnx_name[:40], given))
    model, flat = _cut(network.model, node.onnx_name)
    try:
        found = network_from(model, network.source)
        check_against_onnxruntime(found)
    except ModelError as error:
        wrong = f"the hidden node {node.name} is not read: {error}"
        raise Slip(at, wrong, "leave out what is said of it") from None
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
