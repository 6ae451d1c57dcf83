"""Trees of boxes that prove a bound, recorded for a certificate after the search."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forests.search import Question
from leaveout.bab.forests.search_kernels import begin, bound, narrow
from leaveout.bab.forests.tree_answers import Longs, Trees, borrow, copy_into, work_on
from leaveout.compiling import kernel

_LEVELS = 4  # open splits of a tree that the bound follows, as in the last rounds of the search
_PADDING = 3.0
"""Multiple of the search's padding added to bounds here, so that a program that sums in another
order stays below."""
_PART = 64  # members per work item of a thread
_FULL, _DEEP, _LEAK = -1, -2, -3


class NotProvedError(Exception):
    """A bound that cannot be recorded; the message says why."""


@dataclass(frozen=True, eq=False)
class BoxTrees:
    """Trees of boxes, one per member, in preorder, concatenated."""

    size: NDArray[np.int32]  # shape (members,): number of nodes
    feature: NDArray[np.int32]  # shape (nodes,): feature that a box is split on; -1 for a leaf
    value: NDArray[np.float64]  # shape (inner nodes,): inputs up to this value go left


def margin_of(question: Question) -> float:
    """Return how far a recorded bound must be above the searched one."""
    return (_PADDING + 1.0) * question.padding()


def record_boxes(
    question: Question, label: int, upper: float, *, most: int, threads: int = 1
) -> BoxTrees:
    """Split the input set, per member, until no box may contain a leak above a bound."""
    trees, padding = question.trees(label), _PADDING * question.padding()
    parts = [
        np.arange(first, min(first + _PART, question.members))
        for first in range(0, question.members, _PART)
    ]

    def run(members: NDArray[np.int64]) -> BoxTrees:
        return _join_trees(list(_each(question, trees, members, upper, padding, most)))

    with ThreadPoolExecutor(threads) as pool:
        found = _join_trees(list(pool.map(run, parts)))
    if len(found.feature) > most:
        raise NotProvedError(_too_many(most))
    return found


def _each(
    question: Question, trees: Trees, members: NDArray[np.int64], upper: float, padding: float,
    most: int,
) -> Iterator[BoxTrees]:  # fmt: skip
    """Yield the tree of each member."""
    cells = question.overlay.cells
    work = work_on(trees, question.listed_rows)
    levels, size = 64, 4096
    for member in members.tolist():
        while True:
            feature, cut = np.empty(size, np.int32), np.empty(size, np.int32)
            box = np.empty((levels, 2, question.features), np.int32)
            at = np.empty((levels, 2, len(trees.roots) - 1), np.int32)
            used = _record(
                work.words, cells.most, member, upper, padding, _LEVELS, box, at, feature, cut
            )
            if used == _LEAK:
                raise NotProvedError("the bound found is invalid")
            if used == _FULL and size > most:
                raise NotProvedError(_too_many(most))
            size, levels = size * (1 + 3 * (used == _FULL)), levels * (1 + (used == _DEEP))
            if used > 0:
                break
        inner = feature[:used] >= 0
        of = feature[:used][inner]
        value = cells.values[cells.start[of] + cut[:used][inner]]
        yield BoxTrees(np.array([used], np.int32), feature[:used].copy(), value)


def _too_many(most: int) -> str:
    return f"its proof needs more than {most:,} boxes"


def _join_trees(parts: list[BoxTrees]) -> BoxTrees:
    return BoxTrees(
        np.concatenate([each.size for each in parts]),
        np.concatenate([each.feature for each in parts]),
        np.concatenate([each.value for each in parts]),
    )


@kernel
def _record(
    work: Longs, most: NDArray[np.int32], member: int, upper: float, padding: float,
    depth: int, box: NDArray[np.int32], at: NDArray[np.int32], feature: NDArray[np.int32],
    cut: NDArray[np.int32],
) -> int:  # fmt: skip
    """Record a tree in preorder, a box a level; return its size, or why there is none."""
    trees, listed, room = borrow(work)
    side = np.zeros(len(box), np.int64)
    chosen = np.zeros((len(box), 2), np.int32)
    begin(trees, member, room)
    for f in range(len(most)):
        box[0, 0, f], box[0, 1, f] = 0, most[f]
    for t in range(at.shape[2]):
        at[0, 0, t] = at[0, 1, t] = trees.roots[t]
    level, used, holds = 0, 0, True
    while True:
        if used == len(feature):
            return _FULL
        is_leaf = True
        if holds:
            found, exact = bound(trees, box[level], at[level], chosen[level], depth, padding, room)
            is_leaf = found <= upper
            if exact and not is_leaf:
                return _LEAK
        feature[used], cut[used] = -1, 0
        if is_leaf:
            while level > 0 and side[level - 1] == 1:
                level -= 1
            if level == 0:
                return used + 1
            level -= 1
            side[level] = 1
        else:
            if level + 1 == len(box):
                return _DEEP
            feature[used], cut[used] = chosen[level, 0], chosen[level, 1]
            side[level] = 0
        used += 1
        copy_into(box[level + 1], box[level])
        copy_into(at[level + 1], at[level])
        f, k = chosen[level, 0], chosen[level, 1]
        if side[level] == 0:
            box[level + 1, 1, f] = k
        else:
            box[level + 1, 0, f] = k + 1
        level += 1
        holds = narrow(listed, box[level], f)
