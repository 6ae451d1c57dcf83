"""Trees as libraries store them, made into `Nodes`: what is reachable, in preorder, checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Bools, Floats, Integers
from leaveout.errors import TreesError
from leaveout.kernel.numbers import Rejected, need
from leaveout.kernel.trees import Ensemble, Nodes

_DEEPEST = 10_000  # most questions on a path
_MOST_CELLS = 2**28  # most entries of the table of categories, and of the table of values


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree; node 0 is its root. The order of the others is free; see `Nodes`."""

    feature: Integers
    threshold: Floats
    missing_left: Bools
    set: Integers
    left: Integers  # children within the tree; those of leaves are not read
    right: Integers
    values: Floats  # shape (nodes,), what a leaf adds to ``score``, or (nodes, scores)
    score: int = 0


@dataclass(eq=False)
class Sets:
    """Sets of categories, collected while trees are read."""

    _members: list[tuple[NDArray[np.int64], bool]] = field(default_factory=list)
    _width: int = 0

    def add(self, members: Sequence[int] | NDArray[np.int64], *, left: bool = True) -> int:
        """Add a set whose members go left (or right, and all others left); return its row."""
        found = np.asarray(members, np.int64)
        expect((found >= 0) & (found < 2**31), "a category is not a number from 0 to 2147483647")
        self._members.append((found, left))
        self._width = max(self._width, int(found.max(initial=-1)) + 1)
        return len(self._members) - 1

    def table(self) -> Bools:
        """Return ``Nodes.sets``."""
        shape = (len(self._members), self._width + 1 if self._members else 0)
        need(shape[0] * shape[1] <= _MOST_CELLS, f"{shape[0]} questions about up to {shape[1]} "
             "categories are too many; number them 0, 1, ... and train again")  # fmt: skip
        found = np.zeros(shape, bool)
        for row, (members, left) in enumerate(self._members):
            found[row] = not left
            found[row, members] = left
        return found


def assemble(trees: Sequence[Tree], sets: Sets, scores: int, features: int) -> Nodes:
    """Return the checked nodes of trees."""
    need(len(trees) > 0, "has no trees; train at least one round")
    expect(0 < features < 2**31, f"has {features} features")
    orders = []
    for number, tree in enumerate(trees):
        with place(f"tree {number}"):
            orders.append(_preorder(tree))
    sizes = np.array([len(order) for order in orders])
    roots = np.concatenate(([0], np.cumsum(sizes)))
    parts: dict[str, NDArray[Any]] = {}
    for name in ("feature", "threshold", "missing_left", "set"):
        pieces = [getattr(tree, name)[at] for tree, at in zip(trees, orders, strict=True)]
        parts[name] = np.concatenate(pieces)
    leaf = parts["feature"] < 0
    children: tuple[list[Integers], list[Integers]] = ([], [])
    for tree, at, root in zip(trees, orders, roots, strict=False):
        row_of = np.zeros(len(tree.feature), np.int64)
        row_of[at] = np.arange(root, root + len(at))
        inner = tree.feature[at] >= 0
        for found, side in zip(children, (tree.left, tree.right), strict=True):
            found.append(row_of[np.where(inner, side[at], 0)])
    left, right = (np.concatenate(side) for side in children)
    left[leaf], right[leaf] = np.arange(leaf.sum()), 0
    nodes = Nodes(
        roots, parts["feature"].astype(np.int32), np.where(leaf, 0.0, parts["threshold"]),
        np.where(leaf, False, parts["missing_left"]),
        np.where(leaf, -1, parts["set"]).astype(np.int32), left, right, sets.table(),
        _values(trees, orders, scores),
    )  # fmt: skip
    nodes.check(features)
    return nodes


def chain_nodes(parts: Sequence[Nodes]) -> tuple[Integers, Integers, Integers]:
    """Return the roots and both children of trees that stand one after another."""
    nodes = np.cumsum([0, *(len(each.feature) for each in parts)])
    rows = np.cumsum([0, *(len(each.values) for each in parts)])
    roots, left, right = [np.zeros(1, np.int64)], list[Integers](), list[Integers]()
    for each, node, row in zip(parts, nodes, rows, strict=False):
        inner = each.feature >= 0
        roots.append(each.roots[1:] + node)
        left.append(each.left + np.where(inner, node, row))
        right.append(each.right + np.where(inner, node, 0))
    return np.concatenate(roots), np.concatenate(left), np.concatenate(right)


def constant(value: Floats) -> Tree:
    """Return a tree of one leaf."""
    zero = np.zeros(1, np.int64)
    none = np.full(1, -1, np.int64)
    return Tree(none, np.zeros(1), np.zeros(1, bool), none, zero, zero, value[None])


def expect(holds: Any, what: str) -> None:
    """Raise unless a file is intact in some respect."""
    need(holds, f"{what}; save it again")


@contextmanager
def place(where: str) -> Iterator[None]:
    """Say where it is that something is wrong."""
    try:
        yield
    except (TreesError, Rejected, LookupError, OverflowError, TypeError, ValueError) as error:
        raise TreesError(f"{where}: {' '.join(str(error).split())}") from None


def whole(text: str, name: str) -> int:
    """Return the whole number that a text is."""
    plain = text.isascii() and text.isdigit() and len(text) < 12
    expect(plain, f"{name} is {text[:40]!r}, not a whole number")
    return int(text)


def label_names(classes: Any, count: int) -> tuple[str, ...]:
    """Return the names of a fitted classifier's labels."""
    found = tuple(map(str, np.asarray(classes).tolist()))
    expect(len(found) == len(set(found)) == count,
           f"has {len(found)} labels, or two of the same name, but needs {count}")  # fmt: skip
    return found


def saturation_tie(ensemble: Ensemble, slope: float) -> float:
    """Return a distance of scores at which float64 sigmoids of ``slope`` times them differ.

    Where scores are at most M in magnitude, the derivative is at least exp(-slope M) slope / 4;
    16 units are more than the roundings of two sigmoids.
    """
    with np.errstate(over="ignore"):
        grown = np.exp(slope * ensemble.most.max() * 1.01)
        return float(min(2.0**-49 * 4 * grown / slope, 2.0**1000))


def float32_of(values: Iterable[float]) -> NDArray[np.float32]:
    """Return numbers as float32; those beyond its range are infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float64).astype(np.float32)


def before(thresholds: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the numbers just below, of the same type: ``x < t`` is ``x <= before(t)``."""
    with np.errstate(over="ignore"):
        return np.asarray(np.nextafter(thresholds, thresholds.dtype.type(-np.inf)))


def _preorder(tree: Tree) -> Integers:
    """Return the reachable nodes, each before its left subtree, and that before its right one."""
    size = len(tree.feature)
    parts = (tree.threshold, tree.missing_left, tree.set, tree.left, tree.right, tree.values)
    expect(size > 0 and all(len(part) == size for part in parts), "its arrays differ in length")
    inner, left, right = (tree.feature >= 0).tolist(), tree.left.tolist(), tree.right.tolist()
    order: list[int] = []
    waiting, level = [0], [0] * size
    while waiting and len(order) <= size:
        node = waiting.pop()
        order.append(node)
        if inner[node]:
            for child in (right[node], left[node]):
                if not 0 <= child < size:
                    raise Rejected(f"node {child} does not exist; save it again")
                level[child] = level[node] + 1
                waiting.append(child)
        if level[node] > _DEEPEST:
            raise Rejected(f"is more than {_DEEPEST} levels deep; train with less depth")
    expect(len(set(order)) == len(order), "a node has two parents")
    return np.array(order, np.int64)


def _values(trees: Sequence[Tree], orders: Sequence[Integers], scores: int) -> Floats:
    leaves = [at[tree.feature[at] < 0] for tree, at in zip(trees, orders, strict=True)]
    ends = np.cumsum([len(at) for at in leaves])
    need(int(ends[-1]) * scores <= _MOST_CELLS, f"{ends[-1]} leaves of {scores} are too many")
    found = np.zeros((int(ends[-1]), scores))
    for tree, at, end in zip(trees, leaves, ends, strict=True):
        if tree.values.ndim == 1:
            expect(0 <= tree.score < scores, f"score {tree.score} does not exist")
            found[end - len(at) : end, tree.score] = tree.values[at]
        else:
            found[end - len(at) : end] = tree.values[at]
    return found
