"""What a forest is: a function of its settings, seed and rows. Trees of sets of rows, side by side.

A node is a function of its key, its level and its rows, so equal sets of rows under one key are
one node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .forest_file import Exact, Tree, share_of_trees
from .forest_splits import STEP, Data, Decision, Ints, Sets, bits_of, mix, word
from .numbers import Floats, need

_SHARE = np.uint64(0xE7037ED1A0B428DB)
_SIDES = np.array([0xD1B54A32D192ED03, 0xABC98388FB8FAC03], np.uint64)
_AT_ONCE = 2**14


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of several trees, parents first, level by level."""

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    counts: Ints
    levels: tuple[int, ...]  # where each level begins, and the end


@dataclass(frozen=True, eq=False)
class Listed:
    """What a forest file says besides of its nodes."""

    leaf: Ints  # shape (rows,): the node of each row
    row: Ints
    node: Ints  # shape (considered,): who considered a split
    turn: Ints
    attribute: Ints
    values: Floats
    counts: Ints


def _expand(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Return the numbers of several ranges, and the range of each."""
    size = end - start
    of = np.repeat(np.arange(len(size)), size)
    return np.arange(len(of)) - (np.cumsum(size) - size)[of] + start[of], of


def grow(
    data: Data, sets: Sets, link: Ints, out: Ints, listing: bool = False
) -> tuple[Nodes, Listed]:
    """Grow the tree of each set, and of each set without one of its rows.

    ``link`` names, for a set that is a part of another one with the same key, that other one, -1
    for none; ``out`` are places of rows, each to be left out alone. The roots come first: those of
    the sets, then those without a row. Where a split sends the rows of a part to the sides to
    which the whole's split sends them, its children are parts of the whole's children, and equal
    to these where they lack no row; else they are grown as any other sets.
    """
    table: list[tuple[Any, ...]] = []
    lists: tuple[list[Ints], ...] = ([], [], [], [], [], [])
    values: list[Floats] = []
    offset, level, levels = 0, 0, [0]
    while len(sets.key) or len(out):
        found, count = Decision(data, level, sets, out, listing), len(sets.key)
        rows, of, start, columns = sets.rows, sets.of, sets.start, data.columns
        goes = columns[found.feature[of], rows] > found.threshold[of]  # to the right
        inner = found.feature >= 0
        left, right = (np.full(len(found.feature), -1) for _ in range(2))
        # Parts of other sets: is their split as good as the whole's?
        whole = np.where(link < 0, np.arange(count), link)
        other = columns[found.feature[whole[of]], rows] > found.threshold[whole[of]]
        apart = np.bincount(of[goes != other], minlength=count) > 0
        alike = (link >= 0) & inner[:count] & inner[whole] & ~apart
        sizes = np.bincount(2 * of + goes, minlength=2 * count).reshape(count, 2)
        fresh = inner[:count, None] & ~(alike[:, None] & (sizes == sizes[whole]))
        child = np.where(fresh, np.cumsum(fresh).reshape(-1, 2) - 1, -1)
        child = np.where(inner[:count, None] & ~fresh, child[whole], child)
        mine = np.flatnonzero(fresh[of, goes.astype(np.int64)])
        to = child[of, goes.astype(np.int64)]
        # Sets without a row: either as the set itself, or two new sets.
        base, split = of[out], slice(count, None)
        other_feature = found.feature[split] != found.feature[base]
        other_threshold = found.threshold[split] != found.threshold[base]
        differs = np.flatnonzero(inner[split] & (other_feature | other_threshold))
        place, one = _expand(start[base[differs]], start[base[differs] + 1])
        one = differs[one]
        stays = place != out[one]
        place, one = place[stays], one[stays]
        right_side = columns[found.feature[split][one], rows[place]] > found.threshold[split][one]
        wrong = np.bincount(one[right_side != goes[place]], minlength=len(out)) > 0
        same = inner[split] & inner[base] & ~wrong
        anew = np.flatnonzero(inner[split] & ~same)
        number = np.full(len(out), -1)
        number[anew] = int(fresh.sum()) + 2 * np.arange(len(anew))
        again = number[one] >= 0
        # The next level.
        target = np.concatenate((to[mine], (number[one] + right_side)[again]))
        source = np.concatenate((mine, place[again]))
        order = np.argsort(target, kind="stable")
        moved = np.full(len(rows), -1)
        moved[mine] = np.argsort(order)[: len(mine)]
        parent, side = np.nonzero(fresh)
        parents = np.concatenate((parent, np.repeat(base[anew], 2)))
        sides = np.concatenate((side, np.tile([0, 1], len(anew))))
        links = np.where(alike[parent], child[whole[parent], side], -1)
        on = np.flatnonzero(same)
        after, following = offset + len(found.feature), len(parents)
        for s, kids in enumerate((left, right)):
            kids[:count] = np.where(inner[:count], after + child[:, s], -1)
            kids[split] = np.where(inner[split], after + child[base, s], -1)
            kids[count + anew] = after + number[anew] + s
            taken = on[goes[out[on]] == s]
            kids[count + taken] = after + following + np.searchsorted(on, taken)
        table.append((found.feature, found.threshold, left, right, found.counts))
        if listing:
            lists[0].append(offset + of[~inner[of]])
            lists[1].append(rows[~inner[of]])
            for node, *rest in found.considered:
                for to_list, part in zip(lists[2:], (offset + node, *rest), strict=True):
                    to_list.append(part)
            values += found.values
        out = moved[out[on]]
        key = mix(sets.key[parents] + _SIDES[sides])
        sets = Sets(rows[source[order]], target[order], key)
        link = np.concatenate((links, np.full(2 * len(anew), -1)))
        offset, level = after, level + 1
        levels.append(offset)
    feature, threshold, left, right, counts = (
        np.concatenate(part) for part in zip(*table, strict=True)
    )
    nodes = Nodes(feature, threshold, left, right, counts, tuple(levels))
    leaf, row, node, turn, attribute = (
        np.concatenate((np.zeros(0, np.int64), *part)) for part in lists[:5]
    )
    three = np.concatenate((np.zeros((0, 3 * data.labels), np.int64), *lists[5]))
    ends = np.concatenate((np.zeros((0, 2)), *values))
    return nodes, Listed(leaf, row, node, turn, attribute, ends, three)


def ranks(X: Floats, y: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Return the content of each row, a number, and its rank among rows of the same content."""
    _, content = np.unique(np.column_stack((X, y)), axis=0, return_inverse=True)
    content = content.reshape(-1).astype(np.int64)
    order = np.argsort(content, kind="stable")
    rank = np.empty(len(content), np.int64)
    rank[order] = np.arange(len(content)) - np.searchsorted(content[order], content[order])
    return content, rank


def _label_hash(label: Any) -> int:
    text = f"text {label}" if isinstance(label, str) else f"number {Fraction(label)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def holders(forest: Exact) -> Iterator[Ints]:
    """Yield the rows of each tree, ascending.

    A row is in the first ceil(q trees) trees by a hash of its values, its label and its rank among
    rows of the same content; so of copies those of the greatest ranks leave first.
    """
    settings, X, y = forest.settings, forest.X, forest.y
    share, everyone = share_of_trees(settings), np.arange(len(X))
    if share == settings.trees:
        yield from (everyone for _ in range(settings.trees))
        return
    hashed = mix(mix(mix(word(settings.seed) + STEP) ^ _SHARE) ^ np.array(
        [_label_hash(label) for label in forest.labels], np.uint64
    )[y])  # fmt: skip
    for column in X.T:
        hashed = mix((hashed ^ bits_of(column)) + STEP)
    own = mix(hashed + (ranks(X, y)[1] + 1).astype(np.uint64) * STEP)
    trees = np.arange(1, settings.trees + 1, dtype=np.uint64) * STEP
    held = np.zeros((settings.trees, len(X)), bool)
    for begin in range(0, len(X), 4096):
        first = np.argsort(mix(own[begin : begin + 4096, None] + trees), axis=1)[:, :share]
        held[first.T, begin + np.arange(len(first))] = True
    for each in held:
        yield np.flatnonzero(each)


def sets_of_trees(forest: Exact, most: int = _AT_ONCE) -> Iterator[tuple[int, Sets]]:
    """Yield the rows of a few trees at a time, with the number of the first tree."""
    begin, rows, size = 0, list[Ints](), 0
    for tree, held in enumerate((*holders(forest), None)):
        if rows and (held is None or size + len(held) > most):
            numbers = np.arange(begin + 1, begin + len(rows) + 1, dtype=np.uint64)
            key = mix(mix(word(forest.settings.seed) + STEP) + numbers * STEP)
            of = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
            yield begin, Sets(np.concatenate(rows), of, key)
            begin, rows, size = tree, [], 0
        if held is not None:
            rows.append(held)
            size += len(held)


def train(forest: Exact) -> Exact:
    """Return the forest of a forest's settings and rows, whatever its trees are."""
    data = Data(forest.settings, forest.X, forest.y, len(forest.classes))
    none, trees = np.zeros(0, np.int64), list[Tree]()
    for _, sets in sets_of_trees(forest):
        roots = len(sets.key)
        nodes, listed = grow(data, sets, np.full(roots, -1), none, listing=True)
        trees += _in_preorder(nodes, listed, roots)
    return replace(forest, trees=tuple(trees))


def _in_preorder(nodes: Nodes, listed: Listed, roots: int) -> Iterator[Tree]:
    """Yield trees as forest files have them."""
    inner = [
        a + np.flatnonzero(nodes.feature[a:b] >= 0)
        for a, b in zip(nodes.levels[:-1], nodes.levels[1:], strict=True)
    ]
    size, place = (np.full(len(nodes.feature), n) for n in (1, 0))
    tree = np.arange(len(nodes.feature))
    for at in reversed(inner):
        size[at] += size[nodes.left[at]] + size[nodes.right[at]]
    for at in inner:
        one, two = nodes.left[at], nodes.right[at]
        place[one], place[two] = place[at] + 1, place[at] + 1 + size[one]
        tree[one] = tree[two] = tree[at]
    number = np.where(nodes.feature < 0, -1, 1)
    left, right = (np.where(number < 0, -1, place[side]) for side in (nodes.left, nodes.right))
    for root in range(roots):
        own = np.flatnonzero(tree == root)
        own = own[np.argsort(place[own])]
        leaf = np.flatnonzero(tree[listed.leaf] == root)
        leaf = leaf[np.lexsort((listed.row[leaf], place[listed.leaf[leaf]]))]
        kept = np.flatnonzero(tree[listed.node] == root)
        order = listed.values[kept, 0], listed.turn[kept], place[listed.node[kept]]
        kept = kept[np.lexsort(order)]
        yield Tree(
            nodes.feature[own].astype(np.int32), nodes.threshold[own], left[own].astype(np.int32),
            right[own].astype(np.int32), nodes.counts[own].astype(np.int32),
            listed.row[leaf].astype(np.int32), place[listed.node[kept]].astype(np.int32),
            listed.attribute[kept].astype(np.int32), listed.values[kept],
            listed.counts[kept].astype(np.int32),
        )  # fmt: skip


def without(forest: Exact, rows: Sequence[int]) -> Exact:
    """Return a forest's rows without some of them, without trees; unused labels are dropped."""
    gone = np.array(rows, np.int64)
    need(len(np.unique(gone)) == len(gone), "a row is deleted twice")
    absent = gone[~np.isin(gone, forest.names)]
    need(not len(absent), f"{forest.path}: no row {absent[0] if len(absent) else 0} to delete")
    stays = ~np.isin(forest.names, gone)
    need(stays.any(), "no row is left, and a forest cannot be trained on none")
    present, y = np.unique(forest.y[stays], return_inverse=True)
    classes = forest.classes[present]
    if classes.dtype.kind == "U":
        classes = np.array(classes.tolist())  # as wide as the longest label left
    cells = None if forest.cells is None else np.array(forest.cells[stays].tolist())
    return replace(
        forest, classes=classes, names=forest.names[stays], X=forest.X[stays],
        y=y.reshape(-1).astype(np.int32), trees=(), cells=cells,
    )  # fmt: skip
