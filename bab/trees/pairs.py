"""Which leaves of two trees an input can reach together.

Two trees of one shape are walked side by side; where their questions differ, what goes left in
one and right in the other is followed as a box of its own, unless no input is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from leaveout.arrays import Floats, Integers
from leaveout.bab.trees.domain import Domain, Part, Questions
from leaveout.kernel.trees import Nodes

Box = dict[int, Part]

_LOOK = 4096
"""Steps between two looks at the clock."""


class OutOfTimeError(Exception):
    """The time is over before all leaves were reached."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two ensembles: its trees, the questions over a domain, and what leaves add.

    Attributes
    ----------
    nodes : Nodes
    questions : Questions
    values : ndarray of float64, shape (leaves, scores)
        In the scores that both have in common.
    base : ndarray of float64, shape (scores,)
    low, high : ndarray of float64, shape (nodes, scores)
        The ends of what the leaves below a node add.
    """

    nodes: Nodes
    questions: Questions
    values: Floats
    base: Floats
    low: Floats
    high: Floats

    @staticmethod
    def of(nodes: Nodes, questions: Questions, values: Floats, base: Floats) -> Side:
        """Return a side."""
        leaf = np.concatenate(([0], np.cumsum(nodes.feature < 0)))
        ends = list(range(1, len(nodes.feature) + 1))
        for at in range(len(ends) - 1, -1, -1):
            if questions.feature[at] >= 0:
                ends[at] = ends[questions.no[at]]
        # The leaves below a node are neighbours: between its own place and its end.
        places = np.stack((leaf[:-1], leaf[ends]), axis=1).ravel()
        padded = np.concatenate((values, values[-1:]))
        low, high = (each.reduceat(padded, places)[::2] for each in (np.minimum, np.maximum))
        return Side(nodes, questions, values, base, low, high)

    def root(self, tree: int) -> int:
        """Return a tree's first node."""
        return int(self.nodes.roots[tree])

    def shape(self, tree: int) -> bytes:
        """Return what two trees of one shape have in common: their features, in preorder."""
        first, last = self.nodes.roots[tree : tree + 2]
        return self.nodes.feature[first:last].tobytes()

    def question_key(self, tree: int) -> tuple[Any, ...]:
        """Return what two trees have in common that ask the same over the domain."""
        part = slice(*self.nodes.roots[tree : tree + 2].tolist())
        asked = self.questions
        return (
            self.shape(tree),
            *(tuple(each[part]) for each in (asked.last, asked.left, asked.missing_left)),
        )

    def exact_key(self, tree: int) -> tuple[Any, ...]:
        """Return what two trees have in common whose leaves are equal to four digits as well."""
        values = self.values[self.leaves(tree)]
        return self.question_key(tree), tuple(f"{each:.3e}" for each in values.ravel())

    def leaves(self, tree: int) -> slice:
        """Return the rows of values of a tree."""
        first, last = (int(each) for each in self.nodes.roots[tree : tree + 2])
        at = self.nodes.left[first:last][self.nodes.feature[first:last] < 0]
        return slice(int(at[0]), int(at[-1]) + 1)


def find_pairs(
    one: Side,
    tree: int,
    other: Side,
    there: int,
    domain: Domain,
    is_late: Callable[[], bool],
    start: Box | None = None,
    *,
    coarse: bool = False,
) -> Iterator[tuple[int, int, Box]]:
    """Yield the leaves (as nodes) of two trees that some input reaches, with a box of such inputs.

    A pair can come several times, with boxes that have no input in common. ``coarse`` does not
    look below two nodes that inputs reach by going left in one tree and right in the other.
    """
    a, b = one.questions, other.questions
    waiting: list[tuple[int, int, Box]] = [(one.root(tree), other.root(there), start or {})]
    steps = 0
    while waiting:
        at, to, box = waiting.pop()
        steps += 1
        if steps % _LOOK == 0 and is_late():
            raise OutOfTimeError
        feature, second = a.feature[at], b.feature[to]
        if feature < 0 and second < 0:
            yield at, to, box
            continue
        # Both are asked at once where they ask of one feature, so that the walk stays side by side.
        asks = feature if feature >= 0 else second
        part = box.get(asks) or domain.part(asks)
        if feature != second:
            asked, node = (a, at) if feature >= 0 else (b, to)
            for half, child in _steps(asked, node, part):
                pair = (child, to) if feature >= 0 else (at, child)
                waiting.append((*pair, box | {asks: half}))
            continue
        is_same, stops = a.same(at, b, to), coarse and not part.categories
        for half, child in _steps(a, at, part):
            goes = child == a.yes[at]
            if is_same:
                waiting.append((child, b.yes[to] if goes else b.no[to], box | {asks: half}))
                continue
            for quarter, last in _steps(b, to, half):
                inside = box | {asks: quarter}
                if stops and goes != (last == b.yes[to]):
                    yield child, last, inside
                else:
                    waiting.append((child, last, inside))


def _steps(asked: Questions, at: int, part: Part) -> list[tuple[Part, int]]:
    """Return what of a part goes to which child, where anything does."""
    left, right = asked.split(at, part)
    found = [] if left.is_empty else [(left, asked.yes[at])]
    return found if right.is_empty else [*found, (right, asked.no[at])]


def are_same_questions(one: Side, tree: int, other: Side, there: int) -> bool:
    """Return whether two trees of one shape ask the same everywhere."""
    a, b = one.questions, other.questions
    first, second = one.root(tree), other.root(there)
    size = int(one.nodes.roots[tree + 1]) - first
    if a.last[first : first + size] != b.last[second : second + size]:
        return False
    return (
        a.missing_left[first : first + size] == b.missing_left[second : second + size]
        and a.left[first : first + size] == b.left[second : second + size]
        and one.shape(tree) == other.shape(there)
        and [each - first for each in a.no[first : first + size]]
        == [each - second for each in b.no[second : second + size]]
    )


def match_trees(one: Side, other: Side) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """Return pairs of trees, and the trees of either that are left over.

    First come those with equal questions and leaves, then equal questions, then equal features;
    those in the same place before others. Of equal numbers of trees, the rest are pairs in order.
    """
    rest = [list(range(len(side.nodes.roots) - 1)) for side in (one, other)]
    pairs: list[tuple[int, int]] = []
    for key in (Side.exact_key, Side.question_key, Side.shape):
        names = [
            {tree: key(side, tree) for tree in trees}
            for side, trees in zip((one, other), rest, strict=True)
        ]
        pairs += [(tree, tree) for tree, name in names[0].items() if names[1].get(tree) == name]
        gone = {tree for tree, there in pairs if tree == there}
        waiting: dict[Any, list[int]] = {}
        for tree in reversed(rest[1]):
            if tree not in gone:
                waiting.setdefault(names[1][tree], []).append(tree)
        for tree in rest[0]:
            if tree not in gone and waiting.get(names[0][tree]):
                pairs.append((tree, waiting[names[0][tree]].pop()))
        for which in (0, 1):
            matched = {pair[which] for pair in pairs}
            rest[which] = [tree for tree in rest[which] if tree not in matched]
    if len(rest[0]) == len(rest[1]):
        return sorted([*pairs, *zip(*rest, strict=True)]), [], []
    return sorted(pairs), rest[0], rest[1]


def reachable(side: Side, trees: list[int], domain: Domain, box: Box) -> list[Integers]:
    """Return the rows of values that inputs of a box reach in each of some trees."""
    asked = side.questions
    found = []
    for tree in trees:
        rows, waiting = [], [(side.root(tree), box)]
        while waiting:
            at, inside = waiting.pop()
            feature = asked.feature[at]
            if feature < 0:
                rows.append(asked.yes[at])
                continue
            part = inside.get(feature) or domain.part(feature)
            for half, child in _steps(asked, at, part):
                waiting.append((child, inside | {feature: half}))
        found.append(np.array(rows, np.int64))
    return found
