"""A deterministic tree of the members that keeps similar networks together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.models import Stack


class Others(Protocol):
    """Networks with the first one's architecture, a few at a time."""

    def __len__(self) -> int: ...

    def chunks(self, indices: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Stack]]:
        """Iterate over some networks, a few at a time, with their indices and stack."""
        ...


Rows = NDArray[np.int64]

FEW = 16
"""Sets of at most so many members are not clustered: they are taken apart at once."""

_SKETCH = 32
_POWER = 8
_LLOYD = 6


@dataclass(frozen=True, eq=False)
class Tree:
    """Sets of members, each the union of two others except the smallest."""

    order: Rows  # shape (members,): all members; those of one set stand together
    starts: Rows  # shape (sets,)
    ends: Rows  # shape (sets,)
    parts: Rows  # shape (sets, 2)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Rows:
        """The number of members in each set."""
        return self.ends - self.starts

    def members(self, at: int) -> Rows:
        """Return the members of a set, in ascending order."""
        return np.sort(self.order[self.starts[at] : self.ends[at]])

    def find(self, members: Rows) -> int | None:
        """Return the set with exactly these ascending members, or None."""
        if not len(members):
            return None
        at = self._sets_by_key.get((int(members[0]), len(members)))
        found = at is not None and np.array_equal(self.members(at), members)
        return at if found else None

    @cached_property
    def _sets_by_key(self) -> dict[tuple[int, int], int]:
        """Return sets by first member and size, which are unique for a tree."""
        least = [int(self.order[a:b].min()) for a, b in zip(self.starts, self.ends, strict=True)]
        return {name: at for at, name in enumerate(zip(least, self.sizes.tolist(), strict=True))}


class Clusters:
    """Two-means on a random sketch of the members' parameters."""

    def __init__(self, sketch: Floats, tree: Tree | None = None) -> None:
        self._sketch = sketch
        self.tree = tree_of(sketch) if tree is None else tree

    def split(self, group: Rows) -> tuple[Rows, Rows]:
        """Split a set of at least two members into two non-empty sets."""
        at = self.tree.find(group)
        if at is not None and self.tree.parts[at, 0] >= 0:
            one, two = self.tree.parts[at].tolist()
            return self.tree.members(one), self.tree.members(two)
        side = _side(self._sketch[group])
        return group[side], group[~side]


def tree_of(sketch: Floats) -> Tree:
    """Split all members in two repeatedly, until no set has more than `FEW`."""
    order = np.arange(len(sketch), dtype=np.int64)
    starts, ends, parts = [0], [len(sketch)], [(-1, -1)]
    at = 0
    while at < len(starts):
        start, end = starts[at], ends[at]
        if end - start > FEW:
            group = order[start:end]
            side = _side(sketch[group])
            order[start:end] = np.concatenate([group[side], group[~side]])
            middle = start + int(side.sum())
            parts[at] = (len(starts), len(starts) + 1)
            starts += [start, middle]
            ends += [middle, end]
            parts += [(-1, -1), (-1, -1)]
        at += 1
    return Tree(order, *(np.asarray(each, np.int64) for each in (starts, ends, parts)))


def _side(rows: Floats) -> NDArray[np.bool_]:
    """Return which of at least two rows are in the first of two non-empty clusters."""
    rows = rows - rows.mean(axis=0)
    direction = np.linspace(1.0, 2.0, rows.shape[1])
    for _ in range(_POWER):
        direction = rows.T @ (rows @ direction)
        size = float(np.linalg.norm(direction))
        if size == 0.0:
            break
        direction = direction / size
    side = rows @ direction > 0.0
    for _ in range(_LLOYD):
        if side.all() or not side.any():
            break
        one, two = rows[side].mean(axis=0), rows[~side].mean(axis=0)
        side = ((rows - one) ** 2).sum(axis=1) < ((rows - two) ** 2).sum(axis=1)
    if side.all() or not side.any():
        side = np.arange(len(rows)) < len(rows) // 2
    return np.asarray(side)


def make_clusters(first: Stack, members: Others) -> Clusters:
    """Sketch all members' parameters minus the first network's, a few at a time."""
    rng, own, count = np.random.default_rng(0), _flat(first), len(members)
    columns = rng.standard_normal((own.shape[1], min(_SKETCH, own.shape[1])))
    sketch = np.empty((count, columns.shape[1]))
    for chosen, taken in members.chunks(np.arange(count, dtype=np.int64)):
        sketch[chosen] = (_flat(taken) - own) @ columns
    return Clusters(sketch)


def _flat(stack: Stack) -> Floats:
    """Return all weights, then all biases of each network, shape (m, numbers)."""
    weights = [
        w.reshape(len(stack), -1)
        for layer in stack.layers
        for _, w in sorted(layer.weights.items())
    ]
    return np.concatenate([*weights, *(layer.bias for layer in stack.layers)], axis=1)
