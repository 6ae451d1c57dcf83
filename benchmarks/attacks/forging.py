"""Forge certificates from the inside: well-formed files that claim what they do not prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from attacks.certificate_content import PER_NODE, Content

__all__ = ["FORGERIES", "Forgery", "Node", "planted_tree"]

ROOT, INPUT, MEMBERS, PHASE, UNTIED = range(5)


@dataclass(eq=False)
class Node:
    """A node of a tree that is made by hand."""

    kind: int
    index: int = 0
    side: int = 0
    point: float = 0.0
    members: list[int] | None = None
    proof: int = -1
    children: list[Node] = field(default_factory=list)


def planted_tree(
    content: Content, roots: list[Node], upper: float, *, labels: int, error: float, tie: float
) -> None:
    """Put a tree made by hand in the place of the first one; it claims ``upper`` everywhere."""
    rows: list[tuple[Node, int]] = []
    waiting = [(root, -1) for root in roots]
    while waiting:
        node, parent = waiting.pop(0)
        rows.append((node, parent))
        waiting += [(child, len(rows) - 1) for child in node.children]
    sets = [node.members for node, _ in rows if node.members is not None]
    numbers = iter(range(len(sets)))
    values = {
        "ident": list(range(len(rows))),
        "parent": [parent for _, parent in rows],
        "kind": [node.kind for node, _ in rows],
        "index": [node.index for node, _ in rows],
        "side": [node.side for node, _ in rows],
        "point": [node.point for node, _ in rows],
        "target": [upper] * len(rows),
        "error": [error] * len(rows),
        "tie": [tie] * len(rows),
        "claim": [upper] * len(rows),
        "proof": [node.proof for node, _ in rows],
        "group": [-1 if node.members is None else next(numbers) for node, _ in rows],
    }
    for key, dtype in PER_NODE.items():
        content.arrays[f"tree0.{key}"] = np.asarray(values[key], dtype)
    flat = [member for each in sets for member in each]
    content.arrays["tree0.members"] = np.asarray(flat, np.int64)
    ends = np.cumsum([0, *(len(each) for each in sets)])
    content.arrays["tree0.offsets"] = ends.astype(np.int64)
    if not len(content.arrays["tree0.t"]):
        share = np.zeros((1, labels))
        content.arrays["tree0.t"] = np.zeros(1, np.float32)
        content.arrays["tree0.share"] = share
        content.arrays["tree0.cz"] = np.zeros((1, content.hidden), np.float32)
        content.arrays["tree0.cd"] = np.zeros((1, content.hidden), np.float32)


Forgery = Callable[[np.random.Generator, Content, float], None]
"""Changes a certificate, so that it claims the third argument, or what else is false."""


def _lowered(content: Content, upper: float) -> None:
    """Claim less, everywhere it is said."""
    content.first["upper"] = upper
    np.minimum(content.array("target"), upper, out=content.array("target"))
    np.minimum(content.array("claim"), upper, out=content.array("claim"))


def lowered(rng: np.random.Generator, content: Content, least: float) -> None:
    """Claim less."""
    _lowered(content, least)


def raised_targets(rng: np.random.Generator, content: Content, least: float) -> None:
    """Cut away what is above the claim."""
    _lowered(content, least)
    content.array("target")[:] = least + float(rng.choice([0.0, 1e-12, 1.0, 1e300]))


def dropped(rng: np.random.Generator, content: Content, least: float) -> None:
    """Drop some children, or all below some node."""
    _lowered(content, least)
    parent = content.arrays["tree0.parent"]
    keep = np.ones(len(parent), bool)
    inner = np.flatnonzero(parent >= 0)
    if not len(inner):
        return
    top = int(parent[rng.choice(inner)])
    for i in range(len(parent)):
        above = int(parent[i])
        if above >= 0 and (above == top or not keep[above]) and rng.random() < 0.9:
            keep[i] = False
    place = np.cumsum(keep) - 1
    for key in content.per_node:
        content.arrays[f"tree0.{key}"] = content.arrays[f"tree0.{key}"][keep]
    below = content.arrays["tree0.parent"]
    content.arrays["tree0.parent"] = np.where(below >= 0, place[below], below)
    if rng.random() < 0.7 and len(content.arrays["tree0.share"]):
        content.array("proof")[:] = int(rng.integers(len(content.arrays["tree0.share"])))


def unproved(rng: np.random.Generator, content: Content, least: float) -> None:
    """Say that leaves are empty, or proved by another's multipliers, or that inner nodes are."""
    _lowered(content, least)
    proof = content.array("proof")
    some = rng.random(len(proof)) < rng.choice([0.3, 1.0])
    count = len(content.arrays["tree0.share"])
    proof[some] = -1 if rng.random() < 0.5 or not count else rng.integers(count, size=some.sum())


def no_errors(rng: np.random.Generator, content: Content, least: float) -> None:
    """Charge no evaluation error, at the roots or below them."""
    _lowered(content, least)
    for key in {"error", "tie", "errors"} & {*content.per_node}:
        some = np.ones(len(content.arrays["tree0.parent"]), bool)
        if rng.random() < 0.5:
            some = content.arrays["tree0.parent"] >= 0
        content.array(key)[some] = float(rng.choice([0.0, 1e-30, -0.0, -1.0]))


def multipliers(rng: np.random.Generator, content: Content, least: float) -> None:
    """Change multipliers: scaled, far off, not finite, shares that sum to 1 by cancelling."""
    _lowered(content, least)
    way = int(rng.integers(6))
    if way == 0:
        key = "t" if "tree0.t" in content.arrays else "share"
        content.array(key)[:] = float(rng.choice([1e30, -1.0, 0.0, np.inf, np.nan]))
    elif way == 1:
        share = content.array("share")
        share[:] *= float(rng.choice([0.5, -1.0, 1 - 2**-52]))
    elif way == 2:
        share = content.array("share")
        if share.size:
            share[:, 0] += 1e16
            share[:, -1] -= 1e16
    else:
        key = str(rng.choice(["cz", "cd"]))
        with np.errstate(invalid="ignore", over="ignore"):
            content.array(key)[:] *= float(rng.choice([-1.0, 1e20, 0.0, np.nan, np.inf]))


def wild_splits(rng: np.random.Generator, content: Content, least: float) -> None:
    """Split at points outside of the region, or with both children on one side."""
    _lowered(content, least)
    kind = content.arrays["tree0.kind"]
    split = kind == INPUT
    if rng.random() < 0.5:
        point = float(rng.choice([1e300, -1e300, 1e308, np.inf, -np.inf, np.nan]))
        content.array("point")[split] = point
    else:
        content.array("side")[split | (kind == PHASE)] = int(rng.integers(2))


def crooked_sets(rng: np.random.Generator, content: Content, least: float) -> None:
    """Wrap offsets, repeat members, leave some out, name sets that overlap."""
    _lowered(content, least)
    offsets, members = content.array("offsets"), content.array("members")
    way = int(rng.integers(6))
    if way == 0:
        offsets[-1] = np.int64(2**62)
    elif way == 1 and len(offsets) > 2:
        offsets[1] = -(2**63)
    elif way == 2:
        members[:] = 0
    elif way == 3:
        members[:] = np.where(rng.random(len(members)) < 0.5, -1, members)
    elif way == 4:
        content.array("group")[:] = int(rng.integers(-1, len(offsets)))
    else:
        content.arrays["tree0.offsets"] = np.zeros(1, np.int64)
        content.arrays["tree0.members"] = np.zeros(0, np.int64)


def wrong_numbers(rng: np.random.Generator, content: Content, least: float) -> None:
    """Name nodes, parents, kinds, rivals and neurons that are not there, or another's."""
    _lowered(content, least)
    key = str(rng.choice(["ident", "parent", "kind", "index", "side"]))
    found = content.array(key)
    at = rng.random(len(found)) < rng.choice([0.2, 1.0])
    low, high = (-128, 127) if key == "kind" else (-(2**63), 2**63 - 1)
    found[at] = int(rng.choice([0, 1, 2, 3, -1, -2, min(len(found), high), low, high]))


def other_results(rng: np.random.Generator, content: Content, least: float) -> None:
    """Claim for another label, by another's tree, twice, or about another question."""
    result = content.manifest["results"][0]
    way = int(rng.integers(4))
    if way == 0:
        result["label"] = int(rng.choice([0, 1, 2, -1, -2]))
        result["upper"] = least
    elif way == 1:
        result["upper"] = float(rng.choice([-1e9, np.nextafter(least, -np.inf), -np.inf, np.nan]))
    elif way == 2:
        content.manifest["results"].append({**result, "upper": least})
    else:
        result["question"] = int(rng.choice([-1, 1, 2**40]))
        result["upper"] = least


def _widened(rng: np.random.Generator, content: Content) -> None:
    """State wider bounds of what is listed: the set is the same."""
    box = content.box
    if rng.random() < 0.3:
        return
    for table in box["choices"]:
        for column in table["columns"]:
            size = max(abs(box["lower"][column]), abs(box["upper"][column]), 1e-20)
            size *= 10.0 ** int(rng.integers(0, 14))
            box["lower"][column] = max(box["lower"][column] - size, -1e30)
            box["upper"][column] = min(box["upper"][column] + size, 1e30)


def by_hand(rng: np.random.Generator, content: Content, least: float) -> None:
    """Make a tree without proof whose leaves look empty, covered, or proved by nothing."""
    _widened(rng, content)
    members = int(content.manifest["questions"][0]["members"])
    label = int(content.manifest["results"][0]["label"])
    labels = int(content.arrays["tree0.share"].shape[1])
    everyone = list(range(members))
    inputs = len(content.box["lower"])
    proof = int(rng.choice([-1, 0]))

    def below(depth: int, own: list[int]) -> list[Node]:
        way = int(rng.integers(5)) if depth else 0
        if way == 1:
            parts = [own] if len(own) == 1 or rng.random() < 0.3 else [own[:1], own[1:]]
            if rng.random() < 0.2:
                parts.append([])
            return [
                Node(MEMBERS, 0, side, 0.0, part, proof, below(depth - 1, part))
                for side, part in enumerate(parts)
            ]
        if way == 2:
            index = int(rng.integers(inputs))
            point = float(rng.choice([0.0, -1e300, 1e300, 1e-9, content.box["upper"][index]]))
            return [
                Node(INPUT, index, side, point, None, proof, below(depth - 1, own))
                for side in (0, 1)
            ]
        if way == 3 and content.hidden:
            index = int(rng.integers(content.hidden))
            return [
                Node(PHASE, index, side, 0.0, None, proof, below(depth - 1, own)) for side in (0, 1)
            ]
        if way == 4:
            return [Node(UNTIED, 0, 0, 0.0, None, proof, below(depth - 1, own))]
        return []

    depth = int(rng.integers(1, 4))
    roots = [
        Node(ROOT, rival, 0, 0.0, everyone, proof, below(depth, everyone))
        for rival in range(labels)
        if rival != label
    ]
    upper = float(rng.choice([least, -1e9, 0.0]))
    error, tie = (float(content.arrays[f"tree0.{key}"].max()) for key in ("error", "tie"))
    content.manifest["results"][0]["upper"] = min(upper, least)
    planted_tree(content, roots, min(upper, least), labels=labels, error=2 * error, tie=2 * tie)


def hollow(rng: np.random.Generator, content: Content, least: float) -> None:
    """Give every root one child with all its members, and no proof of anything."""
    _widened(rng, content)
    members = int(content.manifest["questions"][0]["members"])
    label = int(content.manifest["results"][0]["label"])
    labels = int(content.arrays["tree0.share"].shape[1])
    everyone = list(range(members))
    roots = [
        Node(ROOT, rival, 0, 0.0, everyone, -1, [Node(MEMBERS, 0, 0, 0.0, everyone, -1)])
        for rival in range(labels)
        if rival != label
    ]
    upper = float(rng.choice([-1e9, least]))
    error, tie = (float(content.arrays[f"tree0.{key}"].max()) for key in ("error", "tie"))
    content.manifest["results"][0]["upper"] = upper
    planted_tree(content, roots, upper, labels=labels, error=error, tie=tie)


def moved_box(rng: np.random.Generator, content: Content, least: float) -> None:
    """State another box: wider, shifted, crossed, or not of numbers."""
    box, at = content.box, int(rng.integers(len(content.box["lower"])))
    way = int(rng.integers(6))
    width = box["upper"][at] - box["lower"][at] + 1e-3
    if way == 0:
        box["upper"][at] += float(rng.choice([0.5, 2.0, 1e4])) * width
    elif way == 1:
        box["lower"][at] -= float(rng.choice([0.5, 2.0, 1e4])) * width
    elif way == 2:
        box["lower"][at], box["upper"][at] = box["upper"][at] + 1.0, box["lower"][at]
    elif way == 3:
        box["lower"][at] = float(rng.choice([np.nan, -np.inf]))
    elif way == 4:
        box["upper"][at] = 1e39
    else:
        box["lower"] = [*box["lower"], 0.0]


def other_tables(rng: np.random.Generator, content: Content, least: float) -> None:
    """List other rows: outside of the box, twice, in two tables, of no feature, no number."""
    box = content.box
    tables, inputs = box["choices"], len(box["lower"])
    at = int(rng.integers(inputs))
    if not tables or rng.random() < 0.5:
        tables.append({"columns": [at], "values": [[box["lower"][at]]]})
    table = tables[int(rng.integers(len(tables)))]
    way = int(rng.integers(9))
    if way == 0:
        table["values"] = [[1e6 + box["upper"][table["columns"][0]]] * len(table["columns"])]
    elif way == 1:
        table["columns"] = [*table["columns"], table["columns"][0]]
        table["values"] = [
            [*row, row[0] + float(rng.choice([0.0, 1.0]))] for row in table["values"]
        ]
    elif way == 2:
        tables.append({"columns": list(table["columns"]), "values": [
            [v + 1.0 for v in row] for row in table["values"]]})  # fmt: skip
    elif way == 3:
        table["columns"] = [c - inputs for c in table["columns"]]
    elif way == 4:
        table["values"] = [[float(rng.choice([np.nan, np.inf, 1e39]))] * len(table["columns"])]
    elif way == 5:
        table["values"] = []
    elif way == 6:
        table["values"] = [row[:-1] for row in table["values"]]
    elif way == 7:
        table["columns"] = [inputs + 3 for _ in table["columns"]]
    else:
        table["values"] = [
            *table["values"],
            [float(np.float32(rng.uniform(box["lower"][c], box["upper"][c])))
             for c in table["columns"]],
        ]  # fmt: skip
    if rng.random() < 0.5:
        _lowered(content, least)


def other_files(rng: np.random.Generator, content: Content, least: float) -> None:
    """Name other files, kinds, digests or numbers of members."""
    question = content.manifest["questions"][0]
    key = str(rng.choice(["network", "family"]))
    way = int(rng.integers(5))
    if way == 0:
        question[key]["sha256"] = "0" * 64
    elif way == 1:
        question[key]["path"] = str(rng.choice(["../x", "/dev/null", "full.onnx", "family.npz"]))
    elif way == 2:
        question[key]["kind"] = str(rng.choice(["network", "family", "folder", ""]))
    elif way == 3:
        question["members"] += int(rng.choice([-1, 1, 2**40]))
    else:
        question["network"], question["family"] = question["family"], question["network"]
    content.manifest["results"][0]["upper"] = least


_ALL: tuple[Forgery, ...] = (
    lowered, raised_targets, dropped, unproved, no_errors, multipliers, wild_splits, crooked_sets,
    wrong_numbers, other_results, by_hand, hollow, moved_box, other_tables, other_files,
)  # fmt: skip

FORGERIES = {each.__name__: each for each in _ALL}
"""By name."""
