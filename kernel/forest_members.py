"""A forest beside its members, over a set of inputs: regions in which both are at one leaf a tree.

A leaf is a box of inputs, and so is every region in which a forest and a member each are at one
leaf: a cell, with two shares of labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import boxes
from .deletion import first_apart
from .forest_file import Answering, Exact, shares, walked_trees
from .forest_growth import Nodes, grow, ranks, sets_of_trees, train
from .forest_splits import Data, Flags, Ints, Sets
from .numbers import UNIT, Floats, need

Array = NDArray[Any]

_AT_ONCE, _MOST_ROWS = 2**19, 2**22


@dataclass(frozen=True, eq=False)
class Inputs(boxes.Inputs):
    """A set of inputs, to which boxes that trees make are narrowed."""

    def __post_init__(self) -> None:
        need(self.lower.shape == self.upper.shape and self.lower.ndim == 1, "a set of inputs")
        need((self.lower <= self.upper) & np.isfinite(self.upper - self.lower), "a set of inputs")
        seen: list[int] = []
        for columns, rows in self.tables:
            need(rows.ndim == 2 and rows.shape[1:] == columns.shape and len(rows) > 0, "rows")
            need((columns >= 0) & (columns < len(self.lower)), "listed features")
            need((rows >= self.lower[columns]) & (rows <= self.upper[columns]), "a row outside")
            seen += columns.tolist()
        need(len(set(seen)) == len(seen), "a feature is listed twice")

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """The box as low < x <= high."""
        return np.nextafter(self.lower, -np.inf), self.upper

    def contains(self, x: Floats) -> bool:
        """Return whether a point is one of these."""
        inside = bool(((x >= self.lower) & (x <= self.upper)).all())
        return inside and all((rows == x[at]).all(axis=1).any() for at, rows in self.tables)

    def narrow(self, low: Floats, high: Floats) -> tuple[Flags, Floats, Floats]:
        """Return which boxes hold an input, and the least boxes around the listed rows in them."""
        there: Flags = np.asarray((low < high).all(axis=1))
        low, high = low.copy(), high.copy()
        for at, rows in self.tables:
            step = max(1, 2**21 // rows.size)
            for begin in range(0, len(low), step):
                part = slice(begin, begin + step)
                one, two = low[part, None, at], high[part, None, at]
                inside = np.asarray(((one < rows) & (rows <= two)).all(axis=2))
                there[part] &= inside.any(axis=1)
                least = np.where(inside[:, :, None], rows, np.inf).min(axis=1)
                most = np.where(inside[:, :, None], rows, -np.inf).max(axis=1)
                low[part, at] = np.maximum(low[part, at], np.nextafter(least, -np.inf))
                high[part, at] = np.minimum(high[part, at], most)
        return there, low, high

    def at_listed_values(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Move ends of boxes down to the next listed value: no input lies in between."""
        low, high = low.copy(), high.copy()
        for columns, rows in self.tables:
            for k, at in enumerate(columns.tolist()):
                values = np.concatenate(([-np.inf], np.unique(rows[:, k])))
                for end in (low, high):
                    end[:, at] = values[np.searchsorted(values, end[:, at], side="right") - 1]
        return low, high


@dataclass(frozen=True, eq=False)
class Forests:
    """A forest and its members, as roots of nodes that they share."""

    feature: Ints  # shape (nodes,): -1 for a leaf
    threshold: Floats
    left: Ints
    right: Ints
    shares: Floats  # shape (nodes, labels)
    empty: Flags  # shape (nodes,): it holds no row, so its shares are of the labels left
    whole: Ints  # shape (trees,)
    others: Ints  # shape (members, trees)
    trees: tuple[int, int]  # numbers of trees that the sums are divided by
    remains: Floats | None = None  # shape (members, labels): shares of the labels left

    @property
    def padding(self) -> float:
        """More than rounding changes a sum of margins, for a factor of 0."""
        most = float(self.shares[self.feature < 0].max())
        return 8.0 * (max(self.trees) + 8) * most * UNIT


def _together(parts: Sequence[Nodes], totals: Ints, **more: Any) -> Forests:
    """Return nodes of several tables as one, each table's after the one before it."""
    starts = np.cumsum([0, *(len(part.feature) for part in parts)]).tolist()
    left, right, feature, threshold, counts = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("left", "right", "feature", "threshold", "counts")
    )
    offset = np.repeat(starts[:-1], np.diff(starts))
    return Forests(
        feature, threshold, left + offset, right + offset, shares(counts, totals),
        counts.sum(axis=1) == 0, **more,
    )  # fmt: skip


def members(forest: Exact) -> list[Forests]:
    """Return a forest, which its rows must give, beside those without each unit of them.

    Of copies of a row, those of the greatest ranks leave the trees.
    """
    apart = first_apart(forest, train(forest))
    need(apart is None, str(apart))
    units = [places for _, places in forest.units]
    need(len(units) > 1, "the forest has one row, and a forest cannot be trained on none")
    labels, trees = len(forest.classes), forest.settings.trees
    totals = np.bincount(forest.y, minlength=labels)
    left = np.array([totals - np.bincount(forest.y[each], minlength=labels) for each in units])
    remains = (left > 0) / (left > 0).sum(axis=1, keepdims=True)
    content, rank = ranks(forest.X, forest.y)
    copies = np.split(np.lexsort((rank, content)), np.cumsum(np.bincount(content))[:-1])
    gone: list[Ints] = []
    for places in units:
        what, many = np.unique(content[places], return_counts=True)
        gone.append(np.concatenate([copies[c][-n:] for c, n in zip(what, many, strict=True)]))
    data, found = Data(forest.settings, forest.X, forest.y, labels), []
    lone = len(units) == len(forest.X)
    step = len(units) if lone else max(1, _MOST_ROWS // (len(forest.X) * trees))
    for first in range(0, len(units), step):
        own, parts, size = gone[first : first + step], list[Nodes](), 0
        whole, others = np.full(trees, -1), np.full((len(own), trees), -1)
        for tree, base in sets_of_trees(forest, 2**14 if lone else _AT_ONCE // (1 + len(own))):
            some = slice(tree, tree + len(base.key))
            whole[some] = size + np.arange(len(base.key))
            after = size + len(base.key)
            if lone:
                row = np.concatenate(own)
                out = np.flatnonzero(np.isin(base.rows, row))
                parts.append(grow(data, base, np.full(len(base.key), -1), out)[0])
                root = np.full((len(base.key), len(forest.X)), -1)
                root[base.of[out], base.rows[out]] = after + np.arange(len(out))
                others[:, some] = root[:, row].T
            else:
                sets, link, member = _sets_without(base, own, len(forest.X))
                parts.append(grow(data, sets, link, np.zeros(0, np.int64))[0])
                others[member, tree + link[len(base.key) :]] = after + np.arange(len(member))
            size += len(parts[-1].feature)
        found.append(_together(
            parts, totals, whole=whole, others=np.where(others < 0, whole, others),
            trees=(trees, trees), remains=remains[first : first + step],
        ))  # fmt: skip
    return found


def _sets_without(base: Sets, gone: Sequence[Ints], rows: int) -> tuple[Sets, Ints, Ints]:
    """Return sets, and what is left of those that groups of rows are in; links; and the groups."""
    none = np.zeros(0, np.int64)
    kept, of, link, member = [base.rows], [base.of], [np.full(len(base.key), -1)], [none]
    size = len(base.key)
    for number, each in enumerate(gone):
        leaves = np.zeros(rows, bool)
        leaves[each] = True
        goes = leaves[base.rows]
        touched = np.unique(base.of[goes])
        at = np.flatnonzero(np.isin(base.of, touched) & ~goes)
        kept.append(base.rows[at])
        of.append(size + np.searchsorted(touched, base.of[at]))
        link.append(touched)
        member.append(np.full(len(touched), number))
        size += len(touched)
    links = np.concatenate(link)
    key = base.key[np.where(links < 0, np.arange(len(links)), links)]
    return Sets(np.concatenate(kept), np.concatenate(of), key), links, np.concatenate(member)


def every_label(one: Exact | Answering, other: Exact | Answering) -> list[Any]:
    """Return the labels of two forests, ascending."""
    alike = (one.classes.dtype.kind == "U") == (other.classes.dtype.kind == "U")
    need(alike, "the labels of one forest are numbers, those of the other strings")
    return sorted({*one.labels, *other.labels})


def pair(one: Exact | Answering, other: Exact | Answering) -> Forests:
    """Return a forest beside one other, with the labels of both.

    That with fewer trees gets trees that add nothing.
    """
    need(one.features == other.features, "they read different numbers of features")
    labels = every_label(one, other)
    sides = [walked_trees(each) for each in (one, other)]
    count = max(map(len, sides))
    roots, parts, size = np.full((2, count), -1), [], 0
    none = np.full(1, -1)
    for i, (forest, trees) in enumerate(zip((one, other), sides, strict=True)):
        columns = [labels.index(label) for label in forest.labels]
        nothing = none, np.zeros(1), none, none, np.zeros((1, len(columns)))
        for t in range(count):
            feature, threshold, left, right, share = trees[t] if t < len(trees) else nothing
            own = np.zeros((len(feature), len(labels)))
            own[:, columns] = share
            parts.append((feature.astype(np.int64), threshold, left + size, right + size, own))
            roots[i, t] = size
            size += len(feature)
    feature, threshold, left, right, own = (
        np.concatenate(each) for each in zip(*parts, strict=True)
    )
    empty, numbers = np.zeros(size, bool), (len(sides[0]), len(sides[1]))
    return Forests(
        feature, threshold, left, right, own, empty, roots[0], roots[1:], numbers
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Cells:
    """Boxes of inputs, tree by tree, in each of which a forest and a member are at one leaf."""

    tree: Ints
    low: Floats  # shape (cells, features): exclusive
    high: Floats  # shape (cells, features): inclusive
    one: Ints  # the forest's leaf
    other: Ints  # the member's leaf

    def take(self, which: Array) -> Cells:
        """Return some cells."""
        return Cells(
            self.tree[which], self.low[which], self.high[which], self.one[which], self.other[which]
        )

    def meet(self, low: Floats, high: Floats) -> Flags:
        """Return which cells each box meets: those that it overlaps in every feature."""
        found = np.ones((len(low), len(self.tree)), bool)
        for f in range(low.shape[1]):
            one, two = self.low[:, f], self.high[:, f]
            if not low[:, f].max() < two.min():
                found &= low[:, f, None] < two
            if not one.max() < high[:, f].min():
                found &= one < high[:, f, None]
        return found


def overlay(
    forests: Forests, inputs: Inputs, one: Ints, other: Ints, every: bool
) -> tuple[Ints, Cells]:
    """Return the cells of pairs of roots, and the pair of each.

    Both trees are walked down together: first along the splits of one, then of the other. Without
    ``every``, cells in which both are at the same leaf are left out where they are whole leaves.
    """
    feature, threshold = forests.feature, forests.threshold
    job, a, b = np.arange(len(one)), one, other
    low, high = (np.tile(end, (len(job), 1)) for end in inputs.ends)
    own, found = np.ones(len(job), bool), []
    while len(job):
        first, second = feature[a] >= 0, feature[b] >= 0
        done = ~first & ~second
        ends = np.flatnonzero(done & (every | (a != b) | ~own))
        found.append((job[ends], low[ends], high[ends], a[ends], b[ends]))
        on = np.flatnonzero(~done & (every | (a != b) | ~own))
        job, a, b, low, high, first = job[on], a[on], b[on], low[on], high[on], first[on]
        own = own[on] & first
        node = np.where(first, a, b)
        at, cut, line = feature[node], threshold[node], np.arange(len(on))
        both = first & (feature[b] == at) & (threshold[b] == cut)
        left, right = np.flatnonzero(low[line, at] < cut), np.flatnonzero(high[line, at] > cut)
        sides = []
        for fits, child, end in ((left, forests.left, high), (right, forests.right, low)):
            down = np.where(first, child[a], a), np.where(both | ~first, child[b], b)
            part = [each[fits] for each in (job, *down, low, high, own)]
            moved = np.minimum if end is high else np.maximum
            part[3 + (end is high)][np.arange(len(fits)), at[fits]] = moved(
                end[fits, at[fits]], cut[fits]
            )
            sides.append(part)
        job, a, b, low, high, own = (np.concatenate(each) for each in zip(*sides, strict=True))
    none = (np.zeros(0, np.int64), *(np.zeros((0, len(inputs.lower))),) * 2, *(one[:0],) * 2)
    number, low, high, a, b = (np.concatenate(each) for each in zip(none, *found, strict=True))
    low, high = inputs.at_listed_values(low, high)
    there = (low < high).all(axis=1)
    return number[there], Cells(number[there], low[there], high[there], a[there], b[there])


def cells_of_members(forests: Forests, inputs: Inputs) -> Iterator[Cells]:
    """Yield the cells of each member.

    They are the forest's own leaves, but for those that the member changes.
    """
    trees = len(forests.whole)
    _, base = overlay(forests, inputs, forests.whole, forests.whole, every=True)
    for begin in range(0, len(forests.others), 64):
        member, tree = np.nonzero(forests.others[begin : begin + 64] != forests.whole)
        job, cells = overlay(
            forests, inputs, forests.whole[tree], forests.others[begin + member, tree], every=False
        )
        cells = Cells(tree[job], cells.low, cells.high, cells.one, cells.other)
        for number in range(len(forests.others[begin : begin + 64])):
            new = cells.take(member[job] == number)
            old = base.take(~np.isin(base.one, new.one))
            joined = [
                np.concatenate((getattr(old, name), getattr(new, name)))
                for name in ("tree", "low", "high", "one", "other")
            ]
            order = np.argsort(joined[0], kind="stable")
            found = Cells(*joined).take(order)
            need(len(np.unique(found.tree)) == trees, "a tree without leaves")
            yield found
