"""What can be falsified in a certificate of a claim over points."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from leaveout.models import Family, load_family, load_network, save_family_file
from leaveout.models.replay import with_parameters

from support.certificates import Content

__all__ = ["Change", "broken", "changed"]

Change = tuple[str, Callable[[Content], None]]

ROOT, INPUT, MEMBERS, PHASE = range(4)


def claim_of(content: Content) -> dict[str, Any]:
    """Return the claim of a certificate of one."""
    found: dict[str, Any] = content.manifest["claims"][0]
    return found


def put(key: str, at: Any, value: Any) -> Callable[[Content], None]:
    """Return a change of one array of the tree."""

    def change(content: Content) -> None:
        content.array(key)[at] = value

    return change


def said(change: Callable[[dict[str, Any]], Any]) -> Callable[[Content], None]:
    """Return a change of what is claimed."""
    return lambda content: change(claim_of(content)) and None


def form(change: Callable[[dict[str, Any]], Any]) -> Callable[[Content], None]:
    """Return a change of the first goal."""
    return said(lambda claim: change(claim["cases"][0]["goals"][0]))


def case(**values: Any) -> Callable[[Content], None]:
    """Return a change of the first case."""
    return said(lambda claim: claim["cases"][0].update(values))


def broken(content: Content) -> Iterator[Change]:
    """Yield what no checker may accept, whatever is true."""
    yield from _broken_claims(content)
    yield from _broken_forms(content)
    yield from _broken_trees(content)
    yield from _broken_numbers(content)


def _broken_claims(content: Content) -> Iterator[Change]:
    claim = claim_of(content)
    box, cases = claim["points"][0], claim["cases"]

    def applied(**values: Any) -> Callable[[Content], None]:
        return said(lambda c: c["applications"][0].update(values))

    def file(**values: Any) -> Callable[[Content], None]:
        return said(lambda c: c["applications"][0]["network"].update(values))

    yield "digest", file(sha256="0" * 64)
    yield "path", file(path="nowhere.onnx")
    yield "path outside", file(path="../n.onnx")
    for kind in ("family", "folder", ""):
        yield f"kind {kind}", file(kind=kind)
    for point in (-1, 5):
        yield f"point {point}", applied(point=point)
    alone = {"file": dict(claim["applications"][0]["network"]), "members": 2}
    yield "a family of another number", applied(family=alone, member=None)
    yield "no family", applied(family=None, member=0)
    yield from _broken_families(claim)
    for key in ("points", "applications", "cases"):
        yield f"no {key}", said(lambda c, key=key: c.update({key: []}))
    yield "another point", said(lambda c: c["points"].append(copy.deepcopy(box)))
    yield "a case left out", said(lambda c: c["cases"].pop())
    yield "a case more", said(lambda c: c["cases"].append(copy.deepcopy(cases[0])))
    width = len(box["lower"])
    for name, values in (
        ("an empty box", {"upper": [v - 9.0 for v in box["lower"]]}),
        ("another dimension", {"upper": [*box["upper"], 1.0]}),
        ("a box beyond float32", {"upper": [1e39] * width}),
        ("a number that is none", {"lower": [float("nan")] * width}),
        ("no features", {"lower": [], "upper": []}),
        ("a row outside", {"choices": [{"columns": [0], "values": [[77.0]]}]}),
        ("a row of no float32", {"choices": [{"columns": [0], "values": [[0.1]]}]}),
        ("no rows", {"choices": [{"columns": [0], "values": []}]}),
        ("a column twice", {"choices": [{"columns": [0, 0], "values": [[0.0, 0.0]]}]}),
    ):
        yield name, said(lambda c, values=values: c["points"][0].update(values))
    for upper in (float("nan"), float("inf"), -float("inf")):
        yield f"upper {upper}", said(lambda c, upper=upper: c.update(upper=upper))
    yield "decides nothing", said(lambda c: c.update(decides=True, upper=0.25))
    yield "no such tree", said(lambda c: c.update(tree="tree9"))
    yield "a field left out", said(lambda c: c.pop("reals"))
    yield "a field more", said(lambda c: c.update(members=3))
    yield "a name that steers", said(lambda c: c.update(name="a\nb"))
    yield "no claims", lambda c: c.manifest.update(claims=[])
    yield "another format", lambda c: c.manifest.update(format=5)
    yield "format 1", lambda c: c.manifest.update(format=1)


def _broken_families(claim: dict[str, Any]) -> Iterator[Change]:
    for at, application in enumerate(claim["applications"]):
        family = application["family"]
        if family is None:
            continue

        def changed(at: int = at, **values: Any) -> Callable[[Content], None]:
            return said(lambda c: c["applications"][at].update(values))

        file, count = family["file"], family["members"]
        yield "members that do not exist", changed(family={**family, "members": count + 1})
        yield "members left out", changed(family={**family, "members": count - 1})
        for key, value in (("sha256", "0" * 64), ("path", "nowhere.npz"), ("kind", "folder")):
            yield f"family's {key}", changed(family={**family, "file": {**file, key: value}})
        for member in (-1, count, 10**12):
            yield f"member {member}", changed(member=member)
        if application["member"] is None:
            yield "one of several", changed(member=0)
        elif len(claim["applications"]) == 1 or claim["applications"][0] == application:
            yield "any of several", changed(member=None)


def _broken_forms(content: Content) -> Iterator[Change]:
    claim = claim_of(content)
    first = claim["cases"][0]
    rows = len(first["goals"]) + len(first["conditions"]) + len(first["inside"])
    origin = first["origin"]
    yield "no goals", case(goals=[])
    for k, o in ((0, rows), (-1, 0), (rows + 7, 0)):
        yield f"sum {k} {o}", case(sums=[*first["sums"], [k, o]])
    for side in ([9, 0, 0], [0, 99, 1], [0, 0, 2], [0, -1, 0]):
        yield f"side {side}", case(inside=[*first["inside"], side])
    yield "origin above", case(origin=[max(v, 0.0) + 1.5 for v in origin])
    yield "origin of another input", case(origin=[*origin, 0.0])
    yield "no origin", case(origin=[])
    yield "origin far off", case(origin=[-1e300 for _ in origin])
    if len(claim["points"]) != 2:
        yield "near nothing", case(near=True)
    for term in ([9, 0, 1.0], [0, 99, 1.0], [-1, 0, 1.0], [0, -1, 1.0]):
        yield f"feature {term}", form(lambda f, term=term: f["features"].append(term))
        yield f"score {term}", form(lambda f, term=term: f["scores"].append(term))
    yield "a feature twice", form(lambda f: f["features"].extend([[0, 0, 1.0], [0, 0, 1.0]]))
    yield "a score twice", form(lambda f: f["scores"].append(f["scores"][0]))
    for number in (1e201, -1e300, float("nan"), float("inf")):
        yield f"constant {number}", form(lambda f, number=number: f.update(constant=number))
        yield (
            f"coefficient {number}",
            form(lambda f, number=number: f["scores"][0].__setitem__(2, number)),
        )
    yield "a goal that holds anywhere", form(lambda f: f.update(features=[], scores=[], constant=9))


def _broken_trees(content: Content) -> Iterator[Change]:
    tree = {k.removeprefix("tree0."): v for k, v in content.arrays.items()}
    parent, kind, count = tree["parent"], tree["kind"], len(tree["ident"])
    leaves = np.setdiff1d(np.arange(count), parent)
    for leaf in leaves[:: max(1, len(leaves) // 4)]:
        yield f"leaf {leaf} left out", lambda c, leaf=leaf: c.drop("tree0", int(leaf))
    for own in (INPUT, PHASE):
        split = np.flatnonzero(kind == own)
        if split.size:
            node = split[len(split) // 2]
            pair = parent == parent[node]
            yield f"{own}: one side", put("side", pair, 0)
            yield f"{own}: no such side", put("side", node, 2)
            yield f"{own}: no such index", put("index", pair, 10**6)
            yield f"{own}: another index", put("index", node, 10**6)
            yield f"{own}: an index below 0", put("index", pair, -1)
            if own == INPUT:
                moved = tree["point"][node] + 1e-3
                yield "a point moved in one child", put("point", node, moved)
    split = np.flatnonzero(kind == MEMBERS)
    if split.size:
        node = split[0]
        pair = np.flatnonzero(parent == parent[node])
        yield "members: one child", put("kind", node, INPUT)
        own, other = tree["group"][pair[0]], tree["group"][pair[-1]]
        yield "members: one child twice", put("group", pair[-1], own)
        yield "members: the parent's", put("group", node, tree["group"][parent[node]])
        at = int(tree["offsets"][other])
        yield "members: another", put("members", at, tree["members"][tree["offsets"][own]])
        yield "members: none such", put("members", at, 10**6)
    for node in {0, count // 2, count - 1}:
        yield f"parent behind {node}", put("parent", node, count)
        yield f"parent of itself {node}", put("parent", node, node)
        yield f"kind of {node}", put("kind", node, 7)
        yield f"set of {node}", put("group", node, 10**6)
    yield "root of another case", put("index", 0, 10**6)
    yield "root of no case", put("index", 0, -1)
    yield "root of two members", put("members", 0, 1)
    yield "no members", put("offsets", -1, 0)
    for key in ("ident", "cz", "cd", "share", "errors", "point", "members", "claim", "target"):
        yield f"{key} left out", lambda c, key=key: c.arrays.pop(f"tree0.{key}")
        half = {f"tree0.{key}": np.zeros_like(tree[key], np.float16)}
        yield f"type of {key}", lambda c, half=half: c.arrays.update(half)
    for key in ("share", "cz"):
        if not len(tree[key]):
            continue
        short = np.concatenate([tree[key], tree[key][:, :1]], axis=1)
        yield f"width of {key}", lambda c, k=key, v=short: c.arrays.update({f"tree0.{k}": v})
    for key in ("ident", "target", "errors", "share"):
        short = tree[key][:-1]
        if len(tree[key]):
            yield f"length of {key}", lambda c, k=key, v=short: c.arrays.update({f"tree0.{k}": v})


def _broken_numbers(content: Content) -> Iterator[Change]:
    claim = claim_of(content)
    tree = {k.removeprefix("tree0."): v for k, v in content.arrays.items()}
    count = len(tree["ident"])
    for node in {0, count // 2, count - 1}:
        yield f"target of {node} no number", put("target", node, np.nan)
        yield f"error of {node} infinite", put("errors", (node, 0), np.inf)
    proved = np.flatnonzero(tree["proof"] >= 0)
    if not proved.size:
        return
    # The leaf that the bound rests on has no room to spare.
    node = proved[np.argmax(tree["claim"][proved])]
    row, goals = int(tree["proof"][node]), len(claim["cases"][0]["goals"])
    for key in ("cz", "cd", "share"):
        yield f"{key} no number", put(key, row, np.nan)
        yield f"{key} infinite", put(key, row, np.inf)
    share = tree["share"][row]
    yield "shares below 1", put("share", row, 0.9 * share)
    yield "shares above 1", put("share", row, 1.1 * share)
    yield "shares of 1 but for a bit", put("share", row, share * (1 - 2.0**-50))
    yield "shares of nothing", put("share", row, 0.0)
    for k in range(len(share)):
        yield f"share {k} negative", put("share", (row, k), -0.5)
    if goals > 1:
        shifted = np.where(
            np.arange(len(share)) == 0, 2.0, np.where(np.arange(len(share)) == 1, -1, 0)
        )
        yield "shares that cancel", put("share", row, shifted)
    yield "proof of nothing", put("proof", node, len(tree["share"]))
    yield "proof below 0", put("proof", node, -2)


def changed(content: Content, folder: Path, seed: int) -> Iterator[Change]:
    """Yield what is to be refused where it makes the claim false; files are put beside it."""
    rng = np.random.default_rng(seed)
    claim, tree = claim_of(content), content.arrays
    for below in (1e-6, 1e-3, 0.1, 10.0):
        yield f"upper {below} lower", said(lambda c, b=below: c.update(upper=c["upper"] - b))
        yield f"goal {below} higher", form(lambda f, b=below: f.update(constant=f["constant"] + b))
    for p in range(len(claim["points"])):
        for factor in (0.3, 2.0):

            def wider(c: dict[str, Any], p: int = p, factor: float = factor) -> None:
                box = c["points"][p]
                size = [factor * (b - a) for a, b in zip(box["lower"], box["upper"], strict=True)]
                box["upper"] = [v + s for v, s in zip(box["upper"], size, strict=True)]

            yield f"box {p} wider by {factor}", said(wider)
    for k in range(len(claim["cases"])):
        for way in ("no conditions", "no sides", "goal turned", "labels swapped", "goal doubled"):

            def other(c: dict[str, Any], k: int = k, way: str = way) -> None:
                own = c["cases"][k]
                goal = own["goals"][0]
                if way == "no conditions":
                    own["conditions"], own["sums"] = [], []
                elif way == "no sides":
                    own["inside"], own["sums"] = [], []
                elif way == "goal turned":
                    goal["scores"] = [[a, j, -v] for a, j, v in goal["scores"]]
                elif way == "labels swapped":
                    goal["scores"] = [[a, 1 - j if j < 2 else j, v] for a, j, v in goal["scores"]]
                else:
                    goal["scores"] = [[a, j, 2 * v] for a, j, v in goal["scores"]]

            yield f"case {k}: {way}", said(other)
    for key in ("cz", "cd", "share"):
        for factor in (-1.0, 0.0, 1e20):
            with np.errstate(over="ignore", invalid="ignore"):
                wild = (tree[f"tree0.{key}"] * factor).astype(tree[f"tree0.{key}"].dtype)

            def both(c: Content, key: str = key, wild: Any = wild) -> None:
                c.arrays[f"tree0.{key}"] = wild
                claim_of(c)["upper"] -= 0.05

            yield f"{key} times {factor}, and a lower bound", both
    for cut in (0.0, 1.0):

        def raised(c: Content, cut: float = cut) -> None:
            claim_of(c)["upper"] -= 0.05
            c.array("target")[:] = claim_of(c)["upper"] + cut

        yield f"cut {cut} above a lower bound", raised
    for i in range(10):
        at = i % len(claim["applications"])
        yield f"network {at} shaken", _shaken(folder, claim, at, rng, 0.3 if i < 4 else 2.0)
    for at, application in enumerate(claim["applications"]):
        if application["family"] is None:
            continue
        for spread in (0.3, 2.0, 2.0, 4.0, 4.0):
            yield f"members of {at} shaken", _shaken_family(folder, claim, at, rng, spread)
        if application["member"] is not None:
            for member in range(application["family"]["members"]):
                other_member = {"member": member}
                yield (
                    f"member {member} at {at}",
                    said(lambda c, at=at, o=other_member: c["applications"][at].update(o)),
                )
    if len(claim["applications"]) == 2:
        yield "networks exchanged", said(lambda c: c["applications"].reverse())
        yield "points exchanged", said(lambda c: c["points"].reverse())


def _shaken(
    folder: Path, claim: dict[str, Any], at: int, rng: np.random.Generator, spread: float
) -> Callable[[Content], None]:
    """Name another network of the same architecture, with its own digest."""
    path = f"other{int(rng.integers(2**31))}.onnx"
    network = load_network(folder / claim["applications"][at]["network"]["path"])
    moved = {
        name: (value + spread * rng.normal(size=value.shape)).astype(np.float32)
        for name, value in network.parameters.items()
    }
    onnx.save(with_parameters(network.model, moved), folder / path)
    digest = hashlib.sha256((folder / path).read_bytes()).hexdigest()
    file = {"path": path, "sha256": digest, "kind": "network"}
    return said(lambda c: c["applications"][at].update(network=file))


def _shaken_family(
    folder: Path, claim: dict[str, Any], at: int, rng: np.random.Generator, spread: float
) -> Callable[[Content], None]:
    """Name another family, with its own digest."""
    application = claim["applications"][at]
    network = load_network(folder / application["network"]["path"])
    family = load_family(folder / application["family"]["file"]["path"], network)
    path = f"other{int(rng.integers(2**31))}.npz"
    moved = {
        name: (value + spread * rng.normal(size=value.shape)).astype(np.float32)
        for name, value in family.parameters.items()
    }
    save_family_file(folder / path, Family(moved, family.removed))
    digest = hashlib.sha256((folder / path).read_bytes()).hexdigest()
    part = {"path": path, "sha256": digest, "kind": "family"}
    own = {**application["family"], "file": part}
    return said(lambda c: c["applications"][at].update(family=own))
