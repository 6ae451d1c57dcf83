"""Members trained again on every training set a few changes away, by definitions of their own.

Rows are (point, label) with points of whole numbers or halves, so that distances are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, pairwise, product

__all__ = ["Row", "changed", "nearest_vote", "tree_vote"]

Point = tuple[float, ...]
Row = tuple[Point, int]


def plurality(labels: Sequence[int]) -> int:
    """Return the label there is most of, the smaller one on a tie; 0 of none."""
    return min(labels, key=lambda label: (-labels.count(label), label), default=0)


def nearest_vote(rows: Sequence[Row], x: Point, k: int) -> int:
    """Return what all rows vote that are as near as the k-th nearest."""
    near = [sum((a - b) ** 2 for a, b in zip(row, x, strict=True)) for row, _ in rows]
    reach = sorted(near)[min(k, len(rows)) - 1] if rows else 0
    return plurality(
        [label for distance, (_, label) in zip(near, rows, strict=True) if distance <= reach]
    )


def purity(labels: Sequence[int]) -> Fraction:
    """Return the size times the sum of squared shares: Gini's index is what is missing to it."""
    return _purity(tuple(sorted(labels)))


@cache
def _purity(labels: tuple[int, ...]) -> Fraction:
    return Fraction(sum(labels.count(each) for each in labels), max(1, len(labels)))


def tree_vote(rows: Sequence[Row], x: Point, depth: int, leaf: int) -> int:
    """Return what a tree of this depth votes, grown level by level as CART does."""
    labels = [label for _, label in rows]
    best, gain = None, purity(labels)
    for feature in range(len(x)) if depth else ():
        values = sorted({point[feature] for point, _ in rows})
        for low, high in pairwise(values):
            at = (low + high) / 2
            left = [label for point, label in rows if point[feature] <= at]
            right = [label for point, label in rows if point[feature] > at]
            if min(len(left), len(right)) >= leaf and purity(left) + purity(right) > gain:
                best, gain = (feature, at), purity(left) + purity(right)
    if best is None:
        return plurality(labels)
    feature, at = best
    same = [row for row in rows if (row[0][feature] <= at) == (x[feature] <= at)]
    return tree_vote(same, x, depth - 1, leaf)


def changed(
    rows: Sequence[Row], changes: int, against: str, places: Sequence[Point], labels: int
) -> Iterator[list[Row]]:
    """Yield every training set so many changes away.

    Parameters
    ----------
    rows : sequence of Row
    changes : int
    against : {"relabels", "removals", "insertions", "edits"}
        A relabelled row may get a label that no member knows, and so be left aside.
    places : sequence of Point
        Where rows are inserted.
    labels : int
    """
    if against == "relabels":
        for chosen in combinations(range(len(rows)), changes):
            for given in product([*range(labels), None], repeat=changes):
                new = dict(zip(chosen, given, strict=True))
                after = [(point, new.get(i, label)) for i, (point, label) in enumerate(rows)]
                yield [(point, label) for point, label in after if label is not None]
        return
    added = {"removals": [0], "insertions": [changes], "edits": range(changes + 1)}[against]
    for count in added:
        for out in combinations(range(len(rows)), changes - count):
            kept = [row for i, row in enumerate(rows) if i not in out]
            every = list(product(places, range(labels)))
            for new in combinations_with_replacement(every, count):
                yield [*kept, *new]
