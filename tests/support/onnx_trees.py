"""Random ONNX models of trees, and what onnxruntime makes of inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
THRESHOLDS = (-1.5, -0.0, 0.0, 0.1, 0.3, 1.0, 2.0, 3.0, 7.0, 30.0, 31.0, 1e-40, 3.4e38, 1 / 3)


def random_trees(rng, features, trees, depth, modes):
    """Return trees as nested tuples: a list of weights, or a question with two trees."""

    def grow(left: int) -> Any:
        if left == 0 or rng.random() < 0.2:
            return float(rng.normal())
        mode = str(rng.choice(list(modes)))
        value = float(rng.choice(THRESHOLDS)) if rng.random() < 0.7 else float(rng.normal())
        members = [float(each) for each in rng.choice((0, 1, 2, 3, 9, 30, 31, 40), 3)]
        question = (int(rng.integers(features)), mode, members if mode == "MEMBER" else value)
        return (*question, int(rng.integers(2)), grow(left - 1), grow(left - 1))

    return [grow(depth) for _ in range(trees)]


def old_attributes(trees, target, double, *, missing=True, as_tensor=False, prefix="target"):
    """Return the attributes of opsets 1 and 3; ``target(tree)`` is the score a tree adds to."""
    lists: dict[str, list[Any]] = {
        f"nodes_{each}": []
        for each in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids",
                     "falsenodeids", "missing_value_tracks_true")
    } | {f"{prefix}_{each}": [] for each in ("treeids", "nodeids", "ids", "weights")}  # fmt: skip

    def write(tree, number: int, fresh: list[int]) -> int:
        at = fresh[0]
        fresh[0] += 1
        place = len(lists["nodes_modes"])
        leaf = isinstance(tree, float)
        row = (0, "LEAF", 0.0, 0) if leaf else tree[:4]
        for name, value in zip(
            ("treeids", "nodeids", "featureids", "modes", "values", "missing_value_tracks_true"),
            (number, at, row[0], row[1] if leaf else f"BRANCH_{row[1]}", row[2], row[3]),
        ):
            lists[f"nodes_{name}"].append(value)
        lists["nodes_truenodeids"].append(0)
        lists["nodes_falsenodeids"].append(0)
        if leaf:
            for name, value in (("treeids", number), ("nodeids", at), ("ids", target(number)),
                                ("weights", tree)):  # fmt: skip
                lists[f"{prefix}_{name}"].append(value)
        else:
            lists["nodes_truenodeids"][place] = write(tree[4], number, fresh)
            lists["nodes_falsenodeids"][place] = write(tree[5], number, fresh)
        return at

    for number, tree in enumerate(trees):
        write(tree, number, [0])
    if not missing:
        del lists["nodes_missing_value_tracks_true"]
    if as_tensor:
        kind = np.float64 if double else np.float32
        for name in ("nodes_values", f"{prefix}_weights"):
            tensor = numpy_helper.from_array(np.array(lists.pop(name), kind), name)
            lists[f"{name}_as_tensor"] = tensor  # type: ignore[assignment]
    return lists


def new_attributes(trees, target, double, *, missing=True):
    """Return the attributes of opset 5."""
    kind = np.float64 if double else np.float32
    lists: dict[str, list[Any]] = {
        each: []
        for each in ("nodes_splits", "nodes_featureids", "nodes_modes", "nodes_truenodeids",
                     "nodes_trueleafs", "nodes_falsenodeids", "nodes_falseleafs",
                     "nodes_missing_value_tracks_true", "leaf_weights", "leaf_targetids",
                     "tree_roots")
    }  # fmt: skip
    members: list[float] = []

    def child(tree, number: int, side: str, place: int) -> None:
        leaf = isinstance(tree, float)
        lists[f"nodes_{side}leafs"][place] = int(leaf)
        if leaf:
            lists[f"nodes_{side}nodeids"][place] = len(lists["leaf_weights"])
            lists["leaf_weights"].append(tree)
            lists["leaf_targetids"].append(target(number))
        else:
            lists[f"nodes_{side}nodeids"][place] = write(tree, number)

    def write(tree, number: int) -> int:
        place = len(lists["nodes_modes"])
        if isinstance(tree, float):
            tree = (0, "LEQ", 0.0, 0, tree, tree)
        asks = tree[1] == "MEMBER"
        if asks:
            members.extend([*tree[2], np.nan])
        lists["nodes_splits"].append(0.0 if asks else tree[2])
        lists["nodes_featureids"].append(tree[0])
        lists["nodes_modes"].append(MODES.index(tree[1]))
        lists["nodes_missing_value_tracks_true"].append(tree[3])
        for side in ("true", "false"):
            lists[f"nodes_{side}nodeids"].append(0)
            lists[f"nodes_{side}leafs"].append(0)
        child(tree[4], number, "true", place)
        if tree[4] is tree[5]:
            lists["nodes_falsenodeids"][place] = lists["nodes_truenodeids"][place]
            lists["nodes_falseleafs"][place] = 1
        else:
            child(tree[5], number, "false", place)
        return place

    for number, tree in enumerate(trees):
        lists["tree_roots"].append(write(tree, number))
    if not missing:
        del lists["nodes_missing_value_tracks_true"]
    tensors = {
        "nodes_splits": np.array(lists.pop("nodes_splits"), kind),
        "leaf_weights": np.array(lists.pop("leaf_weights"), kind),
        "nodes_modes": np.array(lists.pop("nodes_modes"), np.uint8),
    }
    if members:
        tensors["membership_values"] = np.array(members, kind)
    return {**lists, **{name: numpy_helper.from_array(v, name) for name, v in tensors.items()}}


def as_model(kind, attributes, features, double, opset, outputs, more=(), constants=(), before=()):
    """Return the bytes of a model; ``more`` are nodes after the trees, ``before`` ones before."""
    real = TensorProto.DOUBLE if double else TensorProto.FLOAT
    made = [name for name, _ in outputs]
    source = before[-1].output[0] if before else "x"
    node = helper.make_node(kind, [source], made, domain="ai.onnx.ml", **attributes)
    last = more[-1].output[0] if more else None
    shown = [(last, TensorProto.FLOAT)] if last else outputs
    graph = helper.make_graph(
        [*before, node, *more],
        "trees",
        [helper.make_tensor_value_info("x", real, [None, features])],
        [helper.make_tensor_value_info(name, what, None) for name, what in shown],
        [numpy_helper.from_array(value, name) for name, value in constants],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def one_question(
    threshold, mode="LEQ", *, double=False, leaves=(1.0, 2.0), missing=0, features=2, **more
):
    """Return the bytes of a model of one question about its first feature."""
    tree = (0, mode, threshold, missing, *leaves)
    found = old_attributes([tree], lambda at: 0, double, as_tensor=double)
    return as_model(
        "TreeEnsembleRegressor", {**found, "n_targets": 1, **more}, features, double,
        3 if double else 1, [("y", TensorProto.FLOAT)],
    )  # fmt: skip


def run(data: bytes, X):
    """Return what onnxruntime computes."""
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (source,) = session.get_inputs()
    kind = np.float64 if "double" in source.type else np.float32
    with np.errstate(over="ignore"):
        return session.run(None, {source.name: np.asarray(X).astype(kind)})
