"""Hulls of members' differences from the first network, for a tree in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.clusters import FEW, Tree
from leaveout.bab.native.layout import Layout, layout_of
from leaveout.bab.others import Others
from leaveout.models import Stack

Floats = NDArray[np.float64]
Members = NDArray[np.int64]

_KEPT = 2**28
"""Bytes of hulls of large sets that are kept, were all numbers in float64."""


@dataclass(frozen=True, eq=False)
class Difference:
    """Hull of the differences of one set of members."""

    centre: Floats  # shape (weights,)
    radius: Floats  # shape (weights,)
    shift: Floats  # shape (hidden + labels,): the same of biases
    slack: Floats  # shape (hidden + labels,): the same of biases
    exact: bool  # whether there is one difference only


@dataclass(frozen=True, eq=False)
class _Ends:
    """Least and greatest weights of a set of members, and shifted bias differences."""

    low: NDArray[np.floating]
    high: NDArray[np.floating]
    low_bias: Floats
    high_bias: Floats

    def union(self, other: _Ends) -> _Ends:
        return _Ends(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            np.minimum(self.low_bias, other.low_bias),
            np.maximum(self.high_bias, other.high_bias),
        )


class Hulls:
    """Member differences from the first network, by set.

    One pass reads each member for all large sets of the tree, whose hulls join those of their
    parts; other sets are read on request, several together.
    """

    def __init__(
        self,
        first: Stack,
        members: Others,
        origin: Floats,
        tree: Tree | None = None,
        most: int = _KEPT,
    ) -> None:
        layout = layout_of(first)
        self._layout, self._members, self._origin, self._tree = layout, members, origin, tree
        self._weights = layout.weights_of(first)[0]
        self._biases = layout.biases_of(first)[0]
        self._kept: dict[int, _Ends] = {}
        if tree is not None:
            self._keep(tree, most)

    @property
    def nbytes(self) -> int:
        """Bytes kept in memory."""
        return sum(
            end.nbytes
            for ends in self._kept.values()
            for end in (ends.low, ends.high, ends.low_bias, ends.high_bias)
        )

    def everyone(self) -> Difference:
        """Return the hull of all members."""
        return self.of([np.arange(len(self._members), dtype=np.int64)])[0]

    def of(self, groups: Sequence[Members]) -> list[Difference]:
        """Return the hulls of some non-empty sets."""
        found: dict[int, _Ends] = {}
        for i, group in enumerate(groups):
            ends = self._find_kept(group)
            if ends is not None:
                found[i] = ends
        others = [i for i in range(len(groups)) if i not in found]
        if others:
            sizes = [len(groups[i]) for i in others]
            starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
            for at, ends in self._read(np.concatenate([groups[i] for i in others]), starts):
                i = others[at]
                found[i] = found[i].union(ends) if i in found else ends
        return [self._difference(found[i]) for i in range(len(groups))]

    def _find_kept(self, group: Members) -> _Ends | None:
        """Return the kept ends of a large set, or None."""
        if self._tree is None or len(group) <= FEW:
            return None
        at = self._tree.find(group)
        return None if at is None else self._kept.get(at)

    def _keep(self, tree: Tree, most: int) -> None:
        """Read all members once, in tree order."""
        each = 16 * (len(self._weights) + len(self._biases))
        room, sizes = max(1, most // each), tree.sizes
        # A set is larger than its parts: with it, all that it is part of are kept.
        least = max(FEW, 0 if len(tree) <= room else int(np.sort(sizes)[-room - 1]))
        kept = sizes > least
        # Of everyone at any rate: all else rests on it.
        kept[0] = sizes[0] > FEW
        parents = np.full(len(tree), -1)
        inner = np.flatnonzero(kept)
        for side in (0, 1):
            parents[tree.parts[inner, side]] = inner
        read = np.flatnonzero(~kept & (parents >= 0))
        read = read[np.argsort(tree.starts[read])]
        if not len(read):
            return
        for at, ends in self._read(tree.order, tree.starts[read]):
            self._add(int(parents[read[at]]), ends)
        for at in inner[:0:-1].tolist():
            self._add(int(parents[at]), self._kept[at])

    def _add(self, at: int, ends: _Ends) -> None:
        before = self._kept.get(at)
        self._kept[at] = _narrow(ends if before is None else before.union(ends))

    def _read(self, everyone: Members, starts: Members) -> Iterator[tuple[int, _Ends]]:
        """Yield the ends of each range of members, some in parts."""
        layout, bounds, done = self._layout, np.append(starts, len(everyone)), 0
        for _, stack in self._members.chunks(everyone):
            stop = done + len(stack)
            first = int(np.searchsorted(bounds, done, side="right")) - 1
            last = int(np.searchsorted(bounds, stop, side="left"))
            cuts = np.maximum(bounds[first:last] - done, 0)
            weights, bias = layout.weights_of(stack), layout.biases_of(stack) - self._biases
            if self._origin.any():
                # The difference is shifted, not the two sides of it: rounding then is relative
                # to itself.
                bias = shift_biases(layout, weights - self._weights, bias, self._origin)
            parts: tuple[Floats, ...] = (weights, weights, bias, bias)
            if len(cuts) < len(weights):
                parts = (
                    np.minimum.reduceat(weights, cuts), np.maximum.reduceat(weights, cuts),
                    np.minimum.reduceat(bias, cuts), np.maximum.reduceat(bias, cuts),
                )  # fmt: skip
            for i in range(last - first):
                yield first + i, _Ends(*(part[i] for part in parts))
            done = stop

    def _difference(self, ends: _Ends) -> Difference:
        # Rounding is monotone: these are the least and the greatest of the rounded differences.
        low, high = ends.low - self._weights, ends.high - self._weights
        centre, shift = (low + high) / 2, (ends.low_bias + ends.high_bias) / 2
        radius = np.maximum(high - centre, centre - low)
        slack = np.maximum(ends.high_bias - shift, shift - ends.low_bias)
        return Difference(centre, radius, shift, slack, not (radius.any() or slack.any()))


def _narrow(ends: _Ends) -> _Ends:
    """Return the same numbers in float32 where they fit."""
    with np.errstate(over="ignore"):
        low, high = ends.low.astype(np.float32), ends.high.astype(np.float32)
    if (low == ends.low).all() and (high == ends.high).all():
        return _Ends(low, high, ends.low_bias, ends.high_bias)
    # A part of a chunk's result, which would keep all of it in memory.
    return _Ends(ends.low.copy(), ends.high.copy(), ends.low_bias.copy(), ends.high_bias.copy())


def shift_biases(layout: Layout, weights: Floats, bias: Floats, origin: Floats) -> Floats:
    """Return biases for inputs shifted by ``origin``; arguments may be stacks."""
    if not origin.any():
        return bias
    result = bias.copy()
    for b, (layer, _, _, _, source) in enumerate(layout.blocks):
        if source == 0:
            rows = slice(layout.starts[layer], layout.starts[layer + 1])
            result[..., rows] += layout.matrix(weights, b) @ origin
    return result
