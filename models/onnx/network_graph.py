"""Files of networks as graphs of networkx: constants, residual blocks; the extra ``graphs``."""

from __future__ import annotations

import math

import onnx

from leaveout.extras import name_extra
from leaveout.models.graph import Graph
from leaveout.models.onnx.operator_check import parts_of

try:
    import networkx as nx
except ModuleNotFoundError as error:
    raise name_extra(error) from None


def graph_of(model: onnx.ModelProto, graph: Graph) -> nx.DiGraph:
    """Return the operators of a model that was read; see `Network.nx_graph`."""
    found, makers = nx.DiGraph(), {graph.input: graph.input}
    found.add_node(
        graph.input,
        operator="Input",
        name=graph.input,
        kind="input",
        shape=graph.input_shape,
        numbers=math.prod(graph.input_shape),
        parameters=0,
        read_as=(),
    )
    parts = {part.output: part for part in parts_of(model, graph)}
    for proto in model.graph.node:
        outputs = [name for name in proto.output if name]
        read = [node for name in outputs if name in parts for node in parts[name].nodes]
        known = [name for name in outputs if name in graph.shapes]
        shape = graph.shapes[known[0]] if known else None
        found.add_node(
            outputs[0],
            operator=proto.op_type,
            name=proto.name or outputs[0],
            kind="data" if read else "constant" if known else "dropped",
            shape=shape,
            numbers=math.prod(shape) if shape is not None else 0,
            parameters=sum(_weights(graph, name) for name in proto.input),
            read_as=tuple(dict.fromkeys(type(node.operator).__name__ for node in read)),
        )
        makers.update(dict.fromkeys(outputs, outputs[0]))
        sources = dict.fromkeys(makers[name] for name in proto.input if name in makers)
        found.add_edges_from((source, outputs[0]) for source in sources)
    return found


def _weights(graph: Graph, name: str) -> int:
    """Return how many weights a tensor has, perhaps in another order."""
    while name in graph.moved:
        name, _ = graph.moved[name]
    return math.prod(graph.parameters.get(name, (0,)))


def data_graph(graph: nx.DiGraph) -> nx.DiGraph:
    """Return the part of a graph that computes with the input, dropped operators included."""
    kinds = graph.nodes(data="kind")
    return graph.subgraph(
        name
        for name in nx.descendants(graph, next(iter(graph))) | {next(iter(graph))}
        if kinds[name] != "constant"
    )


def constant_parts(graph: nx.DiGraph) -> list[set[str]]:
    """Return the sets of connected operators that compute constants of two or more operators."""
    constants = graph.subgraph(n for n, kind in graph.nodes(data="kind") if kind == "constant")
    return [part for part in nx.weakly_connected_components(constants) if len(part) > 1]


def residual_blocks(graph: nx.DiGraph) -> list[tuple[str, str]]:
    """Return where each block of parallel branches begins, and the operator that joins them."""
    data = data_graph(graph)
    before = nx.immediate_dominators(data, next(iter(graph)))
    return [(before[name], name) for name, count in data.in_degree() if count > 1]
