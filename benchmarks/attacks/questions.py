"""A network, members and a set of inputs as plain data, made into what leaveout takes."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from leaveout.bab import Instance, make_instance
from leaveout.models import Family, save_family_file
from leaveout.models.onnx.file import check_against_onnxruntime, network_from

from attacks.inputs import Inputs, box_of, random_box
from attacks.kind import Case
from attacks.nets import Net, array, model_of, packed, random_net
from attacks.truth import Runtime

__all__ = [
    "instance_of", "network_and_members", "random_members", "random_question", "runtimes",
    "smaller", "spec_box", "write_files",
]  # fmt: skip

Floats = dict[str, dict[str, Any]]


def network_and_members(rng: np.random.Generator, width: int | None = None) -> Case:
    """Draw a network of at most 4 features and its members."""
    shapes: list[tuple[int, ...]] = [(1,), (2,), (3,), (4,), (1, 3), (2, 2), (1, 2, 2)]
    chances = [0.15, 0.3, 0.25, 0.1, 0.08, 0.06, 0.06]
    shape = (width,) if width else shapes[int(rng.choice(len(shapes), p=chances))]
    scale = 10.0 ** float(rng.choice([0, 0, 0, 0, 0, 0.5, -1, -4, 3, 6]))
    odd = float(rng.choice([0.0, 0.3, 0.7]))
    net = random_net(rng, shape, int(rng.choice([2, 2, 3])), odd=odd, scale=scale)
    return {"net": net, "members": random_members(rng, net)}


def random_question(rng: np.random.Generator, *, listed: float = 0.3) -> Case:
    """Draw a network, members and a set of inputs."""
    case = network_and_members(rng)
    box = random_box(rng, math.prod(case["net"]["shape"]), listed=listed)
    return {**case, "box": box, "planted": [], "seed": int(rng.integers(2**31))}


def random_members(rng: np.random.Generator, net: Net) -> list[Floats]:
    """Draw one to four members: equal to N, near it, far, one weight off, ties, or twice."""
    members: list[Floats] = []
    for _ in range(int(rng.choice([1, 2, 3, 4], p=[0.4, 0.3, 0.2, 0.1]))):
        if members and rng.random() < 0.1:
            members.append(copy.deepcopy(members[-1]))
            continue
        members.append(_member(rng, net))
    return members


def _member(rng: np.random.Generator, net: Net) -> Floats:
    way = str(rng.choice(["same", "near", "mid", "far", "one", "last", "tie"],
                         p=[0.05, 0.25, 0.3, 0.1, 0.1, 0.1, 0.1]))  # fmt: skip
    spread = {"near": 1e-3, "mid": 0.1, "far": 1.0, "last": 0.2}.get(way, 0.0)
    positive = {name for kind, names, *_ in net["nodes"] if kind == "BatchNormalization"
                for name in names[4:]}  # fmt: skip
    found: Floats = {}
    names = list(net["floats"])
    for name in names:
        value = array(net["floats"][name]).astype(float)
        if way != "last" or name in names[-2:]:
            size = np.abs(value).max(initial=0.0) or 1.0
            value = value + spread * size * rng.normal(size=value.shape)
        if name in positive:
            value = np.abs(value)
        found[name] = packed(value.astype(np.float32))
    name = names[int(rng.integers(len(names)))]
    data = found[name]["data"]
    if way == "one" and name not in positive and data:
        data[int(rng.integers(len(data)))] *= float(rng.choice([-1.0, 0.5, 2.0, 0.0]))
    if way == "tie":
        # Two labels with the same scores, where the last weight is a plain one.
        last = array(found[names[-1]])
        if last.ndim and last.shape[-1] == net["labels"]:
            last[..., 1] = last[..., 0]
            found[names[-1]] = packed(last)
    return found


def instance_of(case: Case) -> Instance:
    """Return the question of a case; as from a file, the reading is compared with onnxruntime."""
    network = network_from(model_of(case["net"]), "case")
    check_against_onnxruntime(network)
    return make_instance(network, family_of(case), box_of(case["box"]))


def family_of(case: Case) -> Family:
    """Return the family of a case."""
    stacked = {
        name: np.stack([array(member[name]) for member in case["members"]])
        for name in case["net"]["floats"]
    }
    return Family(stacked, np.arange(len(case["members"]), dtype=np.int64))


def runtimes(case: Case) -> tuple[Runtime, list[Runtime]]:
    """Return N and the members in onnxruntime."""
    return Runtime(model_of(case["net"])), [
        Runtime(model_of(case["net"], member)) for member in case["members"]
    ]


def write_files(case: Case, folder: Path) -> None:
    """Write ``full.onnx`` and ``family.npz``."""
    onnx.save(model_of(case["net"]), folder / "full.onnx")
    save_family_file(folder / "family.npz", family_of(case))


def spec_box(box: dict[str, Any]) -> str:
    """Return the text of a set of inputs."""
    text = f"box({_row(box['lower'])}, {_row(box['upper'])})"
    for each in box["tables"]:
        rows = ", ".join(_row(row) for row in each["rows"])
        at = "[" + ", ".join(map(str, each["columns"])) + "]"
        text = f"grid({text}, at = {at}, values = [{rows}])"
    return text


def _row(values: list[float]) -> str:
    return "[" + ", ".join(_number(v) for v in values) + "]"


def _number(value: float) -> str:
    return repr(float(value))


def smaller(case: Case) -> Iterator[Case]:
    """Yield smaller questions: fewer members, nodes, rows and features, rounder numbers."""
    for i in range(len(case["members"])):
        if len(case["members"]) > 1:
            yield {**case, "members": case["members"][:i] + case["members"][i + 1 :]}
    yield from _smaller_boxes(case)
    for i in range(len(case["planted"])):
        yield {**case, "planted": case["planted"][:i] + case["planted"][i + 1 :]}
    yield from _smaller_nets(case)
    yield from _rounder(case)


def _smaller_boxes(case: Case) -> Iterator[Case]:
    box = case["box"]
    for i, table in enumerate(box["tables"]):
        others = box["tables"][:i] + box["tables"][i + 1 :]
        yield {**case, "box": {**box, "tables": others}}
        rows = table["rows"]
        for j in range(len(rows) if len(rows) > 1 else 0):
            less = {**table, "rows": rows[:j] + rows[j + 1 :]}
            yield {**case, "box": {**box, "tables": [*others, less]}}
    free = Inputs.of(box)
    for i, (low, high) in enumerate(zip(box["lower"], box["upper"], strict=True)):
        if low == high or any(i in columns for columns, _ in free.tables):
            continue
        for at in (low, high, *(point[i] for point in case["planted"])):
            lower, upper = list(box["lower"]), list(box["upper"])
            lower[i] = upper[i] = at
            yield {**case, "box": {**box, "lower": lower, "upper": upper}}


def _smaller_nets(case: Case) -> Iterator[Case]:
    net = case["net"]
    for i, (kind, inputs, outputs, given) in enumerate(net["nodes"]):
        if kind == "Constant":
            continue
        for source in inputs:
            if source in net["floats"] or source in net["integers"]:
                continue
            rest = [
                [k, [source if name == outputs[0] else name for name in names], out, more]
                for k, names, out, more in net["nodes"][:i] + net["nodes"][i + 1 :]
            ]
            if rest and outputs[0] == "y":
                rest = [[k, n, ["y"] if out == [source] else out, m] for k, n, out, m in rest]
            yield _tidy({**case, "net": {**net, "nodes": rest}})
        for key in given:
            if kind != "Constant":
                less = [kind, inputs, outputs, {k: v for k, v in given.items() if k != key}]
                nodes = [*net["nodes"][:i], less, *net["nodes"][i + 1 :]]
                yield {**case, "net": {**net, "nodes": nodes}}


def _tidy(case: Case) -> Case:
    """Drop initialisers that nothing reads."""
    net = case["net"]
    used = {name for _, inputs, _, _ in net["nodes"] for name in inputs}
    floats = {k: v for k, v in net["floats"].items() if k in used}
    members = [{k: v for k, v in member.items() if k in used} for member in case["members"]]
    return {**case, "net": {**net, "floats": floats}, "members": members}


def _rounder(case: Case) -> Iterator[Case]:
    net = case["net"]
    for name, value in net["floats"].items():
        data = np.asarray(value["data"])
        for new in (np.zeros_like(data), np.round(data, 1), np.round(data, 3)):
            if (new != data).any():
                changed = {"shape": value["shape"], "data": [float(v) for v in new]}
                yield {**case, "net": {**net, "floats": {**net["floats"], name: changed}}}
        for i, member in enumerate(case["members"]):
            own = np.asarray(member[name]["data"])
            for new in (data, np.zeros_like(own), np.round(own, 1), np.round(own, 3)):
                if (new != own).any() and len(new) == len(own):
                    changed = {"shape": value["shape"], "data": [float(v) for v in new]}
                    members = list(case["members"])
                    members[i] = {**member, name: changed}
                    yield {**case, "members": members}
