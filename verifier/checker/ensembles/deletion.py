"""Functions of statements about deleted rows, as the checker computes them."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.files import TABLE, open_text_file
from leaveout.kernel.values import Compared, Given, HeldFile
from leaveout.verifier.checker.ensembles.files import Answering, Exact, Tree, read_forest
from leaveout.verifier.checker.ensembles.training import train, without
from leaveout.verifier.checker.errors import CertificateError, RejectedError

Numbers = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Recorded:
    """A deletion's changes, in the order of trees and nodes."""

    tree: Numbers  # shape (changes,)
    node: Numbers  # shape (changes,)
    size: Numbers  # shape (changes,): number of nodes that replace it
    feature: Numbers  # shape (nodes,)
    threshold: Numbers  # shape (nodes,)
    digest: bytes  # SHA-256 of the new forest's arrays, as in its file's manifest


_KINDS = {
    "tree": np.int32, "node": np.int32, "size": np.int32, "feature": np.int32,
    "threshold": np.float64, "digest": np.uint8,
}  # fmt: skip


def read_changes(proof: Mapping[str, Numbers]) -> Recorded:
    """Return the recorded changes of a proof."""
    if not proof:
        raise RejectedError("its proof does not record the result of the deletion")
    if set(proof) != set(_KINDS):
        raise RejectedError("the record of a deletion does not consist of the expected arrays")
    for name, kind in _KINDS.items():
        if proof[name].dtype != kind or proof[name].ndim != 1:
            raise RejectedError(f"the record of a deletion: {name!r} has the wrong type or rank")
    found = Recorded(
        **{name: proof[name] for name in _KINDS if name != "digest"},
        digest=proof["digest"].tobytes(),
    )
    changes = len(found.tree)
    if not changes == len(found.node) == len(found.size) or np.any(found.size < 1):
        raise RejectedError("the record of a deletion: its lists of changes differ in length")
    nodes = int(found.size.astype(np.int64).sum())
    if not nodes == len(found.feature) == len(found.threshold):
        raise RejectedError("the record of a deletion: nodes are missing or left over")
    return found


def ends_of(feature: Numbers) -> NDArray[np.int64]:
    """Return the end of each node's subtree, for nodes in preorder."""
    size = len(feature)
    ends = np.zeros(size, np.int64)
    for node in range(size - 1, -1, -1):
        if feature[node] < 0:
            ends[node] = node + 1
            continue
        middle = ends[node + 1] if node + 1 < size else size
        if middle >= size:
            raise RejectedError("a child is missing")
        ends[node] = ends[middle]
    if not size or ends[0] != size:
        raise RejectedError("a node is left over")
    return ends


def path_to(feature: Numbers, node: int) -> str:
    """Return the path to a node of a preorder, as one letter per step."""
    ends, at, steps = ends_of(feature), 0, ""
    while at != node:
        left = at + 1
        steps += "L" if node < ends[left] else "R"
        at = left if node < ends[left] else int(ends[left])
    return f"node {steps}" if steps else "the root"


def hold_against(before: Exact, recorded: Recorded, after: Exact) -> None:
    """Compare a retrained forest with a forest to which recorded changes are applied."""
    starts = np.concatenate(([0], np.cumsum(recorded.size.astype(np.int64))))
    if np.any((recorded.tree < 0) | (recorded.tree >= len(before.trees))):
        raise RejectedError("the record of a deletion changes a tree that does not exist")
    for i, tree in enumerate(before.trees):
        own = np.flatnonzero(recorded.tree == i)
        feature, threshold = _apply_changes(tree, recorded, own, starts, i)
        anew = after.trees[i]
        both = min(len(feature), len(anew.feature))
        apart = (feature[:both] != anew.feature[:both]) | (
            threshold[:both] != anew.threshold[:both]
        )
        if apart.any():
            node = int(np.flatnonzero(apart)[0])
            raise RejectedError(
                f"tree {i}, {path_to(anew.feature, node)}: it {_split(feature, threshold, node)} "
                f"in the record and {_split(anew.feature, anew.threshold, node)} after retraining"
            )
        if len(feature) != len(anew.feature):
            raise RejectedError(f"tree {i} has a different number of nodes after retraining")
    if recorded.digest != digest_of(after):
        raise RejectedError(
            "the counts, rows or statistics in the recorded forest differ from those after "
            "retraining: the digests differ"
        )


def _apply_changes(
    tree: Tree, recorded: Recorded, own: NDArray[np.int64], starts: NDArray[np.int64], index: int
) -> tuple[Numbers, Numbers]:
    """Return a tree's splits after its changes, in preorder."""
    if not len(own):
        return tree.feature, tree.threshold
    ends = ends_of(tree.feature)
    features, thresholds, at = [], [], 0
    for i in own.tolist():
        node = int(recorded.node[i])
        if not at <= node < len(ends):
            raise RejectedError(f"tree {index}: the changed nodes are not in order")
        part = slice(int(starts[i]), int(starts[i + 1]))
        ends_of(recorded.feature[part])
        features += [tree.feature[at:node], recorded.feature[part]]
        thresholds += [tree.threshold[at:node], recorded.threshold[part]]
        at = int(ends[node])
    features.append(tree.feature[at:])
    thresholds.append(tree.threshold[at:])
    return np.concatenate(features), np.concatenate(thresholds)


def _split(feature: Numbers, threshold: Numbers, node: int) -> str:
    if feature[node] < 0:
        return "is a leaf"
    return f"splits attribute {feature[node]} at {float(threshold[node])!r}"


def digest_of(forest: Exact) -> bytes:
    """Return the SHA-256 of a forest's arrays, as in its file's manifest."""
    X = forest.X.copy()
    X[np.isneginf(X)] = np.nan
    arrays: dict[str, Numbers] = {
        "classes": forest.classes, "names": forest.names, "X": X, "y": forest.y,
    }  # fmt: skip
    for part in Tree.__dataclass_fields__:
        arrays[part] = np.concatenate([getattr(tree, part) for tree in forest.trees])
    if forest.cells is not None:
        arrays |= {"group": forest.cells, "group_column": np.array([forest.group])}
    hashed = hashlib.sha256()
    for name, array in arrays.items():
        hashed.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.digest()


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
            raise RejectedError(f"{self.held.path}: stores no rows, so none can be deleted")
        return self.held

    def trained_without(self, rows: tuple[int, ...]) -> Exact:
        """Return the forest retrained without some rows; the last result is cached."""
        if rows not in self._trained:
            self._trained.clear()
            held = self.exact()
            self._trained[rows] = train(without(held, rows) if rows else held)
        return self._trained[rows]


def forest(given: Given) -> Forest:
    """Read a forest file."""
    file = given.file()
    return Forest(read_forest(file.path))


def points(given: Given) -> list[tuple[int, ...]]:
    """Read the deleted rows: the column ``row`` of each line, separated by blanks."""
    file = given.file()
    found = []
    try:
        with open_text_file(file.path, TABLE) as stream:
            reader = csv.reader(stream, skipinitialspace=True, strict=True)
            head = [name.strip() for name in next(reader, [])]
            for cells in reader:
                if cells and (len(cells) != len(head) or head.count("row") != 1):
                    raise CertificateError(
                        f"{file.path}, line {reader.line_num}: not a record; "
                        "expected a cell for each column, with one column "
                        "'row'"
                    )
                if cells:
                    found.append(_record(cells[head.index("row")], file, reader.line_num))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CertificateError(f"{file.path}: cannot read: {error}") from None
    if not found:
        raise CertificateError(f"{file.path}: does not name a row to delete")
    return found


def _record(cell: str, file: HeldFile, line: int) -> tuple[int, ...]:
    words = cell.split()
    if not words or not all(re.fullmatch("[0-9]{1,18}", word) for word in words):
        raise CertificateError(
            f"{file.path}, line {line}: {cell!r} is not a row number, or "
            "several separated by blanks"
        )
    return tuple(map(int, words))


def unlearn(given: Given) -> Forest:
    """Return the recorded forest after a deletion, proved equal to the retrained one."""
    whole, rows = _forest_and_record(given)
    anew = whole.trained_without(rows)
    hold_against(whole.exact(), read_changes(given.proof), anew)
    given.tell(
        "the result of a deletion is taken from the record of the program that deletes; each "
        "record was compared with a forest retrained here"
    )
    return Forest(anew)


def retrain(given: Given) -> Forest:
    """Retrain without the rows of a record."""
    whole, rows = _forest_and_record(given)
    return Forest(whole.trained_without(rows))


def caches_sound(given: Given) -> bool:
    """Retrain on the present rows, and compare every array with the file's."""
    whole = given.value_of_kind("forest", Forest, "forest")
    apart = first_apart(whole.exact(), whole.trained_without(()))
    if apart is not None:
        raise RejectedError(f"{whole.exact().path}: {apart}")
    return True


def _forest_and_record(given: Given) -> tuple[Forest, tuple[int, ...]]:
    """Return the forest and the record of rows of a call."""
    whole, record = (
        given.value_of_kind("forest", Forest, "forest"),
        given.value_of_kind("record", tuple, "record"),
    )
    if not all(type(row) is int for row in record):
        raise RejectedError("'record' contains something other than row numbers")
    exact = whole.exact()
    for _, places in exact.units if exact.cells is not None else ():
        leaving = np.isin(exact.names[places], record)
        if leaving.any() and not leaving.all():
            raise RejectedError("'record' names only a part of the rows that leave together")
    return whole, record


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
        for part in Tree.__dataclass_fields__:
            if not np.array_equal(getattr(a, part), getattr(b, part)):
                return f"tree {i}{_where(a, b, part)}: {part} differs after retraining"
    return None


def _where(a: Tree, b: Tree, part: str) -> str:
    """Return the node at which two trees differ, if arrays have one row per node."""
    one, two = getattr(a, part), getattr(b, part)
    if part in ("feature", "threshold", "counts") and one.shape == two.shape:
        apart = one != two
        first = apart.any(axis=1) if apart.ndim > 1 else apart
        return f", {path_to(b.feature, int(np.flatnonzero(first)[0]))}"
    return ""


def _same_answering(one: Answering, two: Answering) -> bool:
    if one.labels != two.labels or one.features != two.features:
        return False
    if one.rounds_inputs != two.rounds_inputs:
        return False
    leaf = one.feature < 0
    if not all(
        np.array_equal(getattr(one, name), getattr(two, name))
        for name in ("roots", "feature", "left", "right", "threshold")
    ):
        return False
    return np.array_equal(one.shares[leaf], two.shares[leaf])
