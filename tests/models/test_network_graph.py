"""The graph of a network's operators: order, constants, branches."""

from __future__ import annotations

import random

import networkx as nx
import numpy as np
import pytest
from onnx import helper

from leaveout.models.onnx.file import network_from
from leaveout.models.onnx.network_graph import (
    constant_parts,
    data_graph,
    residual_blocks,
)
from leaveout.models.onnx.repairs import order_nodes

from support import networks


@pytest.fixture(scope="module")
def graph():
    return network_from(networks.branched(), "net.onnx").nx_graph()


def test_each_operator_is_a_node_in_order_with_what_it_is_read_as(graph):
    assert list(graph)[:2] == ["x", "s"]
    assert list(nx.topological_sort(graph))[-1] == "y"
    assert graph.nodes["x"]["kind"] == "input"
    assert graph.nodes["a"] == {
        "operator": "Gemm",
        "name": "first",
        "kind": "data",
        "shape": (4,),
        "numbers": 4,
        "parameters": 28,
        "read_as": ("Gemm",),
    }
    assert graph.nodes["n"]["read_as"] == ("Relu", "Scale", "Join")
    assert (graph.nodes["y"]["kind"], graph.nodes["y"]["shape"]) == ("dropped", None)
    assert set(graph.predecessors("j")) == {"n", "r"}


def test_what_computes_constants_is_found(graph):
    assert constant_parts(graph) == [{"s", "count", "flat"}]
    assert set(data_graph(graph)) == set(graph) - {"s", "count", "flat"}


def test_weights_are_counted_whatever_their_order():
    nodes = [
        helper.make_node("Transpose", ["W"], ["T"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "T"], ["y"]),
    ]
    model = networks.model(nodes, {"W": np.ones((2, 3), np.float32)}, ["n", 3], ["n", 2])
    assert network_from(model, "net.onnx").nx_graph().nodes["y"]["parameters"] == 6


def test_branches_begin_where_all_that_joins_comes_from(graph):
    assert residual_blocks(graph) == [("r", "j"), ("r", "k")]


def test_nodes_in_any_order_come_back_behind_what_they_read(graph):
    nodes = list(networks.branched().graph.node)
    for seed in range(20):
        mixed = random.Random(seed).sample(nodes, len(nodes))
        ordered = order_nodes(mixed)
        known = {"x", "zero", "rest", "W", "b", "V"}
        for node in ordered:
            assert known.issuperset(node.input)
            known.update(node.output)
        assert len(ordered) == len(nodes)
    assert order_nodes(nodes) == nodes
