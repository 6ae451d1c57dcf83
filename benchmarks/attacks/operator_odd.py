"""What can be wrong or odd about a network's file: one change at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx

from attacks.kind import Case
from attacks.onnx_cases import TYPES, tensor

__all__ = ["odd"]

Rng = np.random.Generator

_HUGE = [300_000_000, 2**31, 2**31 - 1, 2**40, 2**62, 10**9]
_VALUES: list[Any] = [
    0, 1, 2, -1, -2, 7, 2**31, 2**62, -(2**62), 0.0, 1.5, -1.0, 1e-45, 3e38, "nan", "inf",
    "", "SAME_UPPER", "VALID", "x", [], [0], [1], [2, 2], [-1, -1], [0, 0], [1, 1, 1, 1],
    [10**9, 10**9], [10**9] * 4, [-1, 0, 0, -1], [0, 1], [1, 0], [0.5, 2.0], [2**62],
]  # fmt: skip
_NAMES = ["broadcast", "axis", "consumed_inputs", "ratio", "is_test", "group", "pads", "epsilon"]
_NUMBERS: list[Any] = ["nan", "inf", "-inf", 3.4e38, -3.4e38, 1e-45, -1e-38, 0.0, -0.0, 1e30, 1e-30]


def _pick(rng: Rng, items: Any) -> Any:
    listed = list(items)
    return listed[rng.integers(len(listed))] if listed else None


def _attribute_value(rng: Rng, case: Case) -> None:
    node = _pick(rng, case["nodes"])
    schemas = onnx.defs.get_all_schemas_with_history()
    known = {a for s in schemas if s.name == node["op"] for a in s.attributes}
    name = _pick(rng, sorted(known) or _NAMES) if rng.random() < 0.9 else _pick(rng, _NAMES)
    node["attributes"][name] = _pick(rng, _VALUES)


def _attribute_lost(rng: Rng, case: Case) -> None:
    node = _pick(rng, [n for n in case["nodes"] if n["attributes"]] or case["nodes"])
    node["attributes"].pop(_pick(rng, node["attributes"]), None)


def _constant_type(rng: Rng, case: Case) -> None:
    for name in [*case["constants"]] if rng.random() < 0.3 else [_pick(rng, case["constants"])]:
        if name is not None:
            case["constants"][name]["type"] = kind = _pick(rng, TYPES)
            if rng.random() < 0.3:
                for given in case["inputs"]:
                    given[1] = kind


def _constant_value(rng: Rng, case: Case) -> None:
    name = _pick(rng, case["constants"])
    if name is not None and case["constants"][name]["data"]:
        data = case["constants"][name]["data"]
        whole = case["constants"][name]["type"] in {"int64", "bool"}
        choices = [0, -1, -2, 2, 2**31, 10**9, -(2**62)] if whole else _NUMBERS
        data[rng.integers(len(data))] = _pick(rng, choices)


def _constant_shape(rng: Rng, case: Case) -> None:
    name = _pick(rng, case["constants"])
    if name is None:
        return
    shape, data = case["constants"][name]["shape"], case["constants"][name]["data"]
    turn = rng.integers(6)
    if turn == 0:
        shape.insert(0, 1)
    elif turn == 1:
        shape.append(1)
    elif turn == 2:
        shape.reverse()
    elif turn == 3:
        shape[:] = [len(data)]
    elif turn == 4:
        shape[:], data[:] = [0, *shape[1:]], []
    else:
        shape.insert(0, 2)
        data.extend(list(data))


def _constant_by_node(rng: Rng, case: Case) -> None:
    name = _pick(rng, case["constants"])
    if name is None:
        return
    given = case["constants"].pop(name)
    key: Any = {"value": given}
    if given["type"] == "float32" and rng.random() < 0.4 and len(given["shape"]) < 2:
        key = (
            {"value_floats": given["data"]} if given["shape"] else {"value_float": given["data"][0]}
        )
    if given["type"] == "int64" and rng.random() < 0.5:
        key = {"value_ints": given["data"]}
    if rng.random() < 0.1:
        key = {_pick(rng, ["value_string", "value_int", "sparse_value"]): _pick(rng, [1, "a"])}
    node = {"op": "Constant", "inputs": [], "outputs": [name], "attributes": key}
    case["nodes"].insert(0, node)


def _constant_computed(rng: Rng, case: Case) -> None:
    name = _pick(rng, case["constants"])
    if name is None:
        return
    case["constants"][f"{name}_"] = given = case["constants"].pop(name)
    op = _pick(rng, ["Identity", "Transpose", "Relu", "Cast", "Neg"])
    if op == "Transpose":
        values = np.array(given["data"]).reshape(given["shape"]).T
        case["constants"][f"{name}_"] = tensor(values, given["type"])
    attributes = {"to": TYPES["float32"]} if op == "Cast" else {}
    node = {"op": op, "inputs": [f"{name}_"], "outputs": [name], "attributes": attributes}
    case["nodes"].insert(0, node)


def _input_shape(rng: Rng, case: Case) -> None:
    shape = case["inputs"][0][2] or ["n", 2]
    case["inputs"][0][2] = shape
    turn = rng.integers(6)
    if turn == 0:
        case["inputs"][0][2] = shape[1:]
    elif turn == 1:
        shape[0] = _pick(rng, [0, 1, 2, 3, *_HUGE])
    elif turn == 2:
        shape[rng.integers(len(shape))] = _pick(rng, [0, 1, 2, "m", None, *_HUGE])
    elif turn == 3:
        shape.append(_pick(rng, [1, 2, *_HUGE]))
    elif turn == 4:
        case["inputs"][0][2] = _pick(
            rng, [None, [], ["n"], ["n", 2**31, 2**31], ["n", 300_000_000]]
        )
    else:
        case["inputs"][0][1] = _pick(rng, TYPES)


def _more_outputs(rng: Rng, case: Case) -> None:
    node = _pick(rng, case["nodes"])
    node["outputs"] = node["outputs"] + ["more"] * int(rng.integers(1, 3))
    if rng.random() < 0.3:
        case["outputs"].append(["more", _pick(rng, ["bool", "float32"]), ["n", "k"]])


def _inputs_of_node(rng: Rng, case: Case) -> None:
    node = _pick(rng, case["nodes"])
    inputs = node["inputs"]
    turn = rng.integers(6)
    if turn == 0:
        inputs.reverse()
    elif turn == 1:
        inputs.append(_pick(rng, ["", "x", *case["constants"]]))
    elif turn == 2 and inputs:
        inputs[rng.integers(len(inputs))] = _pick(rng, ["", "x", "nowhere", *case["constants"]])
    elif turn == 3 and inputs:
        inputs.pop()
    elif turn == 4 and len(inputs) > 1:
        inputs[rng.integers(1, len(inputs))] = inputs[0]
    else:
        inputs.extend(["", ""])


def _graph(rng: Rng, case: Case) -> None:
    turn = rng.integers(6)
    if turn == 0:
        case["inputs"].append(["z", "float32", ["n", 2]])
    elif turn == 1:
        case["outputs"].append([_pick(rng, case["nodes"])["outputs"][0], "float32", ["n", "k"]])
    elif turn == 2:
        case["outputs"][0][2] = _pick(rng, [["n", 7], [], ["n"], [1, 2], ["m", "k"], [3, 2]])
    elif turn == 3:
        case["overridable"] = [*case["constants"]]
    elif turn == 4:
        case["nodes"].reverse()
    else:
        case["outputs"][0][0] = _pick(rng, ["x", "nowhere", *case["constants"]])


def _opset(rng: Rng, case: Case) -> None:
    case["opset"] = int(_pick(rng, [0, 1, 2, 5, 6, 24, 25, 26, 99, *range(7, 24)]))


def _domain(rng: Rng, case: Case) -> None:
    _pick(rng, case["nodes"])["domain"] = _pick(
        rng, ["ai.onnx", "ai.onnx.ml", "com.microsoft", "?"]
    )


def _operator(rng: Rng, case: Case) -> None:
    """Any operator that there is in place of one, with its own attributes."""
    schema = _pick(rng, [s for s in onnx.defs.get_all_schemas() if s.domain == ""])
    node = _pick(rng, case["nodes"])
    node["op"] = schema.name
    node["inputs"] = node["inputs"][: max(1, schema.max_input)]
    if rng.random() < 0.7:
        node["attributes"] = {}
    for name in list(schema.attributes)[:3]:
        if rng.random() < 0.3:
            node["attributes"][name] = _pick(rng, _VALUES)


_CHANGES: list[tuple[Callable[[Rng, Case], None], float]] = [
    (_attribute_value, 5),
    (_attribute_lost, 1),
    (_constant_type, 2),
    (_constant_value, 3),
    (_constant_shape, 3),
    (_constant_by_node, 2),
    (_constant_computed, 2),
    (_input_shape, 3),
    (_more_outputs, 1),
    (_inputs_of_node, 3),
    (_graph, 1),
    (_opset, 1),
    (_domain, 0.3),
    (_operator, 3),
]


def odd(rng: Rng, case: Case) -> Case:
    """Return a case with one or two changes."""
    changed = copy.deepcopy(case)
    weights = np.array([weight for _, weight in _CHANGES])
    for _ in range(int(rng.choice([1, 2], p=[0.75, 0.25]))):
        _CHANGES[int(rng.choice(len(_CHANGES), p=weights / weights.sum()))][0](rng, changed)
    return changed
