"""Statements about deleted rows: forests are trained again, and compared array by array."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .forest_file import PARTS, Answering, Exact, Tree, read_forest
from .forest_growth import train, without
from .forest_splits import Ints
from .numbers import Rejected, need
from .values import Compared, Given

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Forest(Compared):
    """A forest in a statement; two are equal if all their arrays are."""

    held: Exact | Answering
    _trained: dict[tuple[int, ...], Exact] = field(default_factory=dict, repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Forest):
            return NotImplemented
        one, two = self.held, other.held
        if isinstance(one, Exact) and isinstance(two, Exact):
            return one is two or first_apart(one, two) is None
        if isinstance(one, Answering) and isinstance(two, Answering):
            return _same_answering(one, two)
        return False

    def __hash__(self) -> int:
        return id(self)

    def exact(self) -> Exact:
        """Return the forest, which must have training rows."""
        if not isinstance(self.held, Exact):
            raise Rejected(f"{self.held.path}: stores no rows, so none can be deleted")
        return self.held

    def trained_without(self, rows: tuple[int, ...]) -> Exact:
        """Return the forest trained without some rows; the last result is cached."""
        if rows not in self._trained:
            self._trained.clear()
            held = self.exact()
            self._trained[rows] = train(without(held, rows) if rows else held)
        return self._trained[rows]


def forest(given: Given) -> Forest:
    """Read a forest file."""
    file = given.file()
    return Forest(read_forest(file.path, file.sha256))


def points(given: Given) -> list[tuple[int, ...]]:
    """Read the records of deleted rows: the column ``row`` of each line, separated by blanks."""
    file = given.file()
    found = []
    content = file.path.read_bytes()
    need(hashlib.sha256(content).hexdigest() == file.sha256, "it has another SHA-256")
    try:
        stream = io.StringIO(content.decode("utf-8-sig"), newline="")
        reader = csv.reader(stream, skipinitialspace=True, strict=True)
        head = [name.strip() for name in next(reader, [])]
        for cells in reader:
            fits = not cells or (len(cells) == len(head) and head.count("row") == 1)
            what = "not a record; expected a cell for each column, with one column 'row'"
            need(fits, f"line {reader.line_num}: {what}")
            if cells:
                found.append(_record(cells[head.index("row")], reader.line_num))
    except (UnicodeDecodeError, csv.Error) as error:
        raise Rejected(f"cannot read: {error}") from None
    need(bool(found), "does not name a row to delete")
    return found


def _record(cell: str, line: int) -> tuple[int, ...]:
    words = cell.split()
    fits = bool(words) and all(re.fullmatch("[0-9]{1,18}", word) for word in words)
    need(fits, f"line {line}: {cell!r} is not a row number, or several separated by blanks")
    return tuple(map(int, words))


def unlearn(given: Given) -> Forest:
    """Return the recorded forest after a deletion, which equals that trained without the rows."""
    whole, rows = forest_and_record(given)
    anew = whole.trained_without(rows)
    hold_against(whole.exact(), read_changes(given.proof), anew)
    given.tell(
        "the result of a deletion is taken from the record of the program that deletes; each "
        "record was compared with a forest retrained here"
    )
    return Forest(anew)


def retrain(given: Given) -> Forest:
    """Train without the rows of a record."""
    whole, rows = forest_and_record(given)
    return Forest(whole.trained_without(rows))


def caches_sound(given: Given) -> bool:
    """Train on the present rows, and compare every array with the file's."""
    whole = given.value_of_kind("forest", Forest, "forest")
    apart = first_apart(whole.exact(), whole.trained_without(()))
    need(apart is None, f"{whole.exact().path}: {apart}")
    return True


def forest_and_record(given: Given) -> tuple[Forest, tuple[int, ...]]:
    """Return the forest and the record of rows of a call; groups leave whole."""
    whole = given.value_of_kind("forest", Forest, "forest")
    record = given.value_of_kind("record", tuple, "record")
    fits = all(type(row) is int for row in record)
    need(fits, "'record' contains something other than row numbers")
    exact = whole.exact()
    for _, places in exact.units if exact.cells is not None else ():
        leaving = np.isin(exact.names[places], record)
        whole_group = not leaving.any() or leaving.all()
        need(whole_group, "'record' names only a part of the rows that leave together")
    return whole, record


@dataclass(frozen=True, eq=False)
class Recorded:
    """A deletion's changes, in the order of trees and nodes."""

    tree: Array  # shape (changes,)
    node: Array  # shape (changes,)
    size: Array  # shape (changes,): number of nodes that replace it
    feature: Array  # shape (nodes,)
    threshold: Array  # shape (nodes,)
    digest: bytes  # SHA-256 of the new forest's arrays, as in its file's manifest


_KINDS = {
    "tree": np.int32, "node": np.int32, "size": np.int32, "feature": np.int32,
    "threshold": np.float64, "digest": np.uint8,
}  # fmt: skip


def read_changes(proof: Mapping[str, Array]) -> Recorded:
    """Return the recorded changes of a proof."""
    need(bool(proof), "its proof does not record the result of the deletion")
    what = "the record of a deletion"
    need(set(proof) == set(_KINDS), f"{what} does not consist of the expected arrays")
    for name, kind in _KINDS.items():
        fits = proof[name].dtype == kind and proof[name].ndim == 1
        need(fits, f"{what}: {name!r} has the wrong type or rank")
    arrays = {name: proof[name] for name in _KINDS if name != "digest"}
    found = Recorded(**arrays, digest=proof["digest"].tobytes())
    whole = len(found.tree) == len(found.node) == len(found.size) and not np.any(found.size < 1)
    need(whole, f"{what}: its lists of changes differ in length")
    nodes = int(found.size.sum(dtype=np.int64))
    need(nodes == len(found.feature) == len(found.threshold), f"{what}: nodes are missing or extra")
    return found


def ends_of(feature: Array) -> Ints:
    """Return the end of each node's subtree, for nodes in preorder."""
    size, ends = len(feature), [0] * len(feature)
    for node in range(size - 1, -1, -1):
        if feature[node] < 0:
            ends[node] = node + 1
            continue
        middle = ends[node + 1] if node + 1 < size else size
        need(middle < size, "a child is missing")
        ends[node] = ends[middle]
    need(size > 0 and ends[0] == size, "a node is left over")
    return np.array(ends)


def _path_to(feature: Array, node: int) -> str:
    """Return the path to a node of a preorder, as one letter per step."""
    ends, at, steps = ends_of(feature), 0, ""
    while at != node:
        left = at + 1
        steps += "L" if node < ends[left] else "R"
        at = left if node < ends[left] else int(ends[left])
    return f"node {steps}" if steps else "the root"


def hold_against(before: Exact, recorded: Recorded, after: Exact) -> None:
    """Compare a trained forest with a forest to which recorded changes are applied.

    Splits are compared one by one, everything else by the digest of all arrays.
    """
    starts = np.concatenate(([0], np.cumsum(recorded.size, dtype=np.int64)))
    inside = (recorded.tree >= 0) & (recorded.tree < len(before.trees))
    need(inside, "the record of a deletion changes a tree that does not exist")
    for i, (tree, anew) in enumerate(zip(before.trees, after.trees, strict=True)):
        own = np.flatnonzero(recorded.tree == i)
        feature, threshold = _apply(tree, recorded, own, starts, i)
        both = min(len(feature), len(anew.feature))
        apart = (feature[:both] != anew.feature[:both]) | (
            threshold[:both] != anew.threshold[:both]
        )
        if apart.any():
            node = int(np.flatnonzero(apart)[0])
            raise Rejected(
                f"tree {i}, {_path_to(anew.feature, node)}: it {_split(feature, threshold, node)} "
                f"in the record and {_split(anew.feature, anew.threshold, node)} after retraining"
            )
        same = len(feature) == len(anew.feature)
        need(same, f"tree {i} has a different number of nodes after retraining")
    what = "the counts, rows or statistics in the recorded forest differ from those after "
    need(recorded.digest == after.digest, f"{what}retraining: the digests differ")


def _apply(
    tree: Tree, recorded: Recorded, own: Ints, starts: Ints, index: int
) -> tuple[Array, Array]:
    """Return a tree's splits after its changes, in preorder."""
    if not len(own):
        return tree.feature, tree.threshold
    ends = ends_of(tree.feature)
    features, thresholds, at = [], [], 0
    for i in own.tolist():
        node = int(recorded.node[i])
        need(at <= node < len(ends), f"tree {index}: the changed nodes are not in order")
        part = slice(int(starts[i]), int(starts[i + 1]))
        ends_of(recorded.feature[part])
        features += [tree.feature[at:node], recorded.feature[part]]
        thresholds += [tree.threshold[at:node], recorded.threshold[part]]
        at = int(ends[node])
    return (
        np.concatenate([*features, tree.feature[at:]]),
        np.concatenate([*thresholds, tree.threshold[at:]]),
    )


def _split(feature: Array, threshold: Array, node: int) -> str:
    if feature[node] < 0:
        return "is a leaf"
    return f"splits attribute {feature[node]} at {float(threshold[node])!r}"


def first_apart(one: Exact, two: Exact) -> str | None:
    """Return the first difference of two forests in words, or None."""
    if one.settings != two.settings:
        return "the settings differ"
    if one.labels != two.labels:
        return "the labels differ"
    for name in ("names", "y", "X"):
        if not np.array_equal(getattr(one, name), getattr(two, name)):
            return f"the rows differ in their {name}"
    cells = [None if each.cells is None else each.cells.tolist() for each in (one, two)]
    if cells[0] != cells[1]:
        return "the rows differ in what they leave with"
    for i, (a, b) in enumerate(zip(one.trees, two.trees, strict=True)):
        for part in PARTS:
            if not np.array_equal(getattr(a, part), getattr(b, part)):
                return f"tree {i}{_where(a, b, part)}: {part} differs after retraining"
    return None


def _where(a: Tree, b: Tree, part: str) -> str:
    """Return the node at which two trees differ, if arrays have one row per node."""
    one, two = getattr(a, part), getattr(b, part)
    if part in ("feature", "threshold", "counts") and one.shape == two.shape:
        apart = one != two
        first = apart.any(axis=1) if apart.ndim > 1 else apart
        return f", {_path_to(b.feature, int(np.flatnonzero(first)[0]))}"
    return ""


def _same_answering(one: Answering, two: Answering) -> bool:
    alike = one.labels == two.labels and one.features == two.features
    leaf = one.feature < 0
    arrays = ("roots", "feature", "left", "right", "threshold")
    return (
        alike
        and one.rounds_inputs == two.rounds_inputs
        and all(np.array_equal(getattr(one, name), getattr(two, name)) for name in arrays)
        and np.array_equal(one.shares[leaf], two.shares[leaf])
    )
