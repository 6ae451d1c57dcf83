"""Networks over a region in the form that kernels use: N, and sets of differences."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.forms import Forms
from leaveout.bab.instance import FEW, LARGEST, Clusters, Others, Tree
from leaveout.bab.native.kernels.interface import Layout, MemberSets, Numbers, layout_of
from leaveout.encoders import Box, Choices
from leaveout.encoders.interval import gamma
from leaveout.kernel.smooth import by_kind, change_of, floors, pair_ends
from leaveout.models import Stack
from leaveout.models.matrices import positive

Members = NDArray[np.int64]

_KEPT = 2**28  # bytes of cached hulls of large sets, if all numbers were float64


@dataclass(frozen=True, eq=False)
class Difference:
    """Hull of the differences of one set of members."""

    centre: Floats  # centre, shape (weights,)
    radius: Floats  # radius, shape (weights,)
    shift: Floats  # shape (hidden + labels,): centre of the biases
    slack: Floats  # shape (hidden + labels,): radius of the biases
    exact: bool  # whether there is only one difference


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

    One pass reads each member for all large sets of the tree, whose hulls are joined from those of
    their parts; other sets are read on demand, several at once.
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
        """Return the cached ends of a large set, or None."""
        if self._tree is None or len(group) <= FEW:
            return None
        at = self._tree.find(group)
        return None if at is None else self._kept.get(at)

    def _keep(self, tree: Tree, most: int) -> None:
        """Read all members once, in tree order."""
        each = 16 * (len(self._weights) + len(self._biases))
        room, sizes = max(1, most // each), tree.sizes
        # A set is larger than its parts; if it is kept, so are all sets that contain it.
        least = max(FEW, 0 if len(tree) <= room else int(np.sort(sizes)[-room - 1]))
        kept = sizes > least
        # The set of all members is always kept: all others depend on it.
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
            if not layout.fits(stack):
                raise ValueError("a member's numbers are at other places than the network's")
            stop = done + len(stack)
            first = int(np.searchsorted(bounds, done, side="right")) - 1
            last = int(np.searchsorted(bounds, stop, side="left"))
            cuts = np.maximum(bounds[first:last] - done, 0)
            weights, bias = layout.weights_of(stack), layout.biases_of(stack) - self._biases
            if self._origin.any() or layout.kinds.any():
                # The difference is shifted rather than its two sides, so that rounding is relative
                # to it.
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
        # Rounding is monotone: these are the extremes of the rounded differences.
        low, high = ends.low - self._weights, ends.high - self._weights
        centre, shift = (low + high) / 2, (ends.low_bias + ends.high_bias) / 2
        radius = np.maximum(high - centre, centre - low)
        slack = np.maximum(ends.high_bias - shift, shift - ends.low_bias)
        return Difference(centre, radius, shift, slack, not (radius.any() or slack.any()))


def _narrow(ends: _Ends) -> _Ends:
    """Return the same numbers in float32 where that is exact."""
    with np.errstate(over="ignore"):
        low, high = ends.low.astype(np.float32), ends.high.astype(np.float32)
    if (low == ends.low).all() and (high == ends.high).all():
        return _Ends(low, high, ends.low_bias, ends.high_bias)
    # A view of a chunk's result would keep the whole chunk in memory.
    return _Ends(ends.low.copy(), ends.high.copy(), ends.low_bias.copy(), ends.high_bias.copy())


def shift_biases(layout: Layout, weights: Floats, bias: Floats, origin: Floats) -> Floats:
    """Return biases for inputs shifted by ``origin``; arguments can be stacks.

    Outputs of smooth neurons are shifted, too: none is negative.
    """
    shifts = np.concatenate([origin, -floors(layout.kinds)])
    if not shifts.any():
        return bias
    result = bias.copy()
    for b, (layer, start, width, _, _) in enumerate(layout.blocks):
        shift = shifts[start : start + width]
        if shift.any():
            rows = slice(layout.starts[layer], layout.starts[layer + 1])
            if not layout.is_sparse(b):
                result[..., rows] += layout.matrix(weights, b) @ shift
                continue
            for own, part in zip(np.atleast_2d(weights), np.atleast_2d(result), strict=True):
                part[rows] += layout.own_matrix(own, b) @ shift
    return result


@dataclass(frozen=True, eq=False)
class Listed:
    """Features restricted to listed values, shifted."""

    tables: tuple[Choices, ...]  # rows in shifted units, rounded once

    @classmethod
    def of(cls, box: Box, origin: Floats) -> Listed:
        """Shift the listed values of a box."""
        return cls(
            tuple(
                Choices(each.columns, each.values - origin[each.columns], exact=True)
                for each in box.choices
            )
        )

    def shrink(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Shrink shifted regions to the hulls of the rows in them."""
        empty: NDArray[np.bool_] = np.any(lower > upper, axis=1)
        lower, upper = lower.copy(), upper.copy()
        for table in self.tables:
            at = table.columns
            low, high, none = table.snap(lower[:, at], upper[:, at])
            lower[:, at] = np.maximum(lower[:, at], np.nextafter(low, -np.inf))
            upper[:, at] = np.minimum(upper[:, at], np.nextafter(high, np.inf))
            empty = empty | none
        return lower, upper, empty


_CACHED = 2**28  # bytes of cached differences of sets


@dataclass(frozen=True, eq=False)
class Space:
    """A network and others of its architecture over a region, in the form that kernels use.

    Inputs are shifted by ``origin`` so that none is negative, as interval weights require.
    """

    members: Others
    numbers: Numbers
    origin: Floats
    box: Box
    lower: Floats
    upper: Floats
    root: Floats
    hulls: Hulls
    _cache: OrderedDict[bytes, Difference]
    bounded: bool = False  # whether linear bounds of all neurons are known over the region

    @property
    def overflows(self) -> bool:
        """Whether bounds may leave float64's range, where comparisons mean nothing."""
        return not np.abs(self.root).max(initial=0.0) < LARGEST

    @property
    def layout(self) -> Layout:
        """The flat layout."""
        return self.numbers.layout

    @cached_property
    def listed_values(self) -> Listed:
        """Return the features restricted to listed values, shifted."""
        return Listed.of(self.box, self.origin)

    @property
    def count(self) -> int:
        """Number of members."""
        return len(self.members)

    def read(self, asked: Forms) -> Forms:
        """Return the forms in the kernels' coordinates, equal or slightly larger."""
        numbers, origin = self.numbers, self.origin
        size = np.abs(asked.constant) + np.abs(asked.inputs) @ np.abs(origin)
        room = 4 * (len(origin) + 1) * np.finfo(float).eps * size
        top = slice(self.layout.hidden, None)
        sizes = size + np.abs(asked.inputs) @ np.maximum(np.abs(self.lower), np.abs(self.upper))
        sizes += np.abs(asked.scores) @ numbers.rough[top]
        sizes += np.abs(asked.change) @ numbers.rough_difference[top]
        constant = asked.constant + asked.inputs @ origin + room
        return replace(asked, constant=constant, sizes=sizes)

    def sets(self, groups: list[Members]) -> MemberSets:
        """Return the differences of some sets of members, side by side."""
        found = self._differences(groups)
        return MemberSets(
            np.stack([each.centre for each in found]),
            np.stack([each.radius for each in found]),
            np.stack([each.shift for each in found]),
            np.stack([each.slack for each in found]),
            np.array([each.exact for each in found]),
        )

    def _differences(self, groups: list[Members]) -> list[Difference]:
        """Return the hulls of some sets, computing missing ones together."""
        cache, keys = self._cache, [group.tobytes() for group in groups]
        found = {key: cache[key] for key in keys if key in cache}
        for key in found:
            cache.move_to_end(key)
        missing = {key: group for key, group in zip(keys, groups, strict=True) if key not in found}
        for key, hull in zip(missing, self.hulls.of(list(missing.values())), strict=True):
            found[key] = cache[key] = hull
        each = 16 * len(self.numbers.weights) + 16 * len(self.numbers.bias)
        while len(cache) > max(64, _CACHED // each):
            cache.popitem(last=False)
        return [found[key] for key in keys]


@np.errstate(over="ignore", invalid="ignore")
def make_space(first: Stack, members: Others, box: Box, clusters: Clusters | None = None) -> Space:
    """Return networks over a region in the form that kernels use."""
    layout = layout_of(first)
    origin = np.minimum(box.lower, 0.0)
    weights = layout.weights_of(first)[0]
    bias = shift_biases(layout, weights, layout.biases_of(first)[0], origin)
    most = np.nextafter(box.upper - origin, np.inf)
    least = np.maximum(np.nextafter(box.lower - origin, -np.inf), 0.0)
    bare = Numbers(layout, weights, bias, bias, bias, 0.0)
    hulls = Hulls(first, members, origin, None if clusters is None else clusters.tree)
    whole = hulls.everyone()
    unit = gamma(8 * (layout.inputs + 2 * len(bias)) + 256)
    root, rough, rough_difference = propagate(layout, bare, whole, origin, least, most, unit)
    numbers = Numbers(layout, weights, bias, rough, rough_difference, unit)
    return Space(members, numbers, origin, box, least, most, root, hulls, OrderedDict())


def propagate(
    layout: Layout,
    numbers: Numbers,
    whole: Difference,
    origin: Floats,
    lower: Floats,
    upper: Floats,
    unit: float,
) -> tuple[Floats, Floats, Floats]:
    """Return interval bounds of all pairs, and sums of absolute terms behind them."""
    outputs = len(numbers.bias)
    rough = np.abs(numbers.bias)
    rough_d = np.abs(whole.shift) + whole.slack
    low, high = numbers.bias.copy(), numbers.bias.copy()
    low_d, high_d = whole.shift - whole.slack, whole.shift + whole.slack
    h_low = np.concatenate([lower, np.zeros(layout.hidden)])
    h_high = np.concatenate([upper, np.zeros(layout.hidden)])
    d_low, d_high = np.zeros(len(h_low)), np.zeros(len(h_low))
    state = np.zeros((6, layout.hidden))
    for layer in range(layout.layers):
        rows = slice(layout.starts[layer], layout.starts[layer + 1])
        for b, (k, start, width, _, source) in enumerate(layout.blocks):
            if k != layer:
                continue
            at = slice(start, start + width)
            w = layout.own_matrix(numbers.weights, b)
            e, r = layout.own_matrix(whole.centre, b), layout.own_matrix(whole.radius, b)
            w_up, w_down, e_up, e_down = positive(w), positive(-w), positive(e), positive(-e)
            size, size_d = h_high[at], np.maximum(np.abs(d_low[at]), np.abs(d_high[at]))
            if source == 0:
                size = size + np.abs(origin)
            elif layout.kinds.any():
                size = size + floors(layout.kinds[start - layout.inputs :][:width])
            changed = w + e
            up, down = positive(changed), positive(-changed)
            rough[rows] += (w_up + w_down) @ size
            rough_d[rows] += (e_up + e_down + r) @ size + (up + down + r) @ size_d
            low[rows] += w_up @ h_low[at] - w_down @ h_high[at]
            high[rows] += w_up @ h_high[at] - w_down @ h_low[at]
            spread = r @ (h_high[at] + size_d)
            low_d[rows] += e_up @ h_low[at] - e_down @ h_high[at] - spread
            low_d[rows] += up @ d_low[at] - down @ d_high[at]
            high_d[rows] += e_up @ h_high[at] - e_down @ h_low[at] + spread
            high_d[rows] += up @ d_high[at] - down @ d_low[at]
        pad, pad_d = unit * rough[rows], unit * rough_d[rows]
        low[rows] -= pad
        high[rows] += pad
        low_d[rows] -= pad_d
        high_d[rows] += pad_d
        if layer < layout.layers - 1:
            after = slice(layout.inputs + rows.start, layout.inputs + rows.stop)
            h_low[after], h_high[after] = np.maximum(low[rows], 0), np.maximum(high[rows], 0)
            d_low[after], d_high[after] = np.minimum(low_d[rows], 0), np.maximum(high_d[rows], 0)
            ends = pair_ends(
                layout.kinds[rows], *(e[None, rows] for e in (low, high, low_d, high_d))
            )
            changes = change_of(ends)
            for curve, bent in by_kind(layout.kinds[rows]):
                own = after.start + bent
                h_low[own], h_high[own] = curve.ends(ends[0, 0, bent], ends[0, 1, bent])
                d_low[own], d_high[own] = (each[0, bent] for each in changes)
            state[:, rows] = (
                low[rows],
                high[rows],
                np.maximum(high_d[rows], 0),
                np.maximum(-low_d[rows], 0),
                low_d[rows],
                high_d[rows],
            )
    assert len(rough) == outputs
    # Twice, because the bounds themselves are rounded.
    return state, 2 * rough, 2 * rough_d
