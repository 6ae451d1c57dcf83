"""Networks over a region in the kernels' form: N, and sets of differences."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.clusters import Clusters
from leaveout.bab.forms import Forms
from leaveout.bab.native.hulls import Difference, Hulls, shift_biases
from leaveout.bab.native.kernels.interface import MemberSets, Numbers
from leaveout.bab.native.layout import Layout, layout_of
from leaveout.bab.native.listed_values import Listed
from leaveout.bab.others import Others
from leaveout.encoders import Box
from leaveout.encoders.interval import gamma
from leaveout.models import Stack

Floats = NDArray[np.float64]
Members = NDArray[np.int64]

_CACHED = 2**28
"""Bytes of differences of sets kept at hand."""


@dataclass(frozen=True, eq=False)
class Space:
    """A network and others of its architecture over a region, in the kernels' form.

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


def make_space(first: Stack, members: Others, box: Box, clusters: Clusters | None = None) -> Space:
    """Return networks over a region in the kernels' form."""
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
            w = layout.matrix(numbers.weights, b)
            e, r = layout.matrix(whole.centre, b), layout.matrix(whole.radius, b)
            size, size_d = h_high[at], np.maximum(np.abs(d_low[at]), np.abs(d_high[at]))
            if source == 0:
                size = size + np.abs(origin)
            changed = w + e
            rough[rows] += np.abs(w) @ size
            rough_d[rows] += (np.abs(e) + r) @ size + (np.abs(changed) + r) @ size_d
            low[rows] += np.maximum(w, 0) @ h_low[at] + np.minimum(w, 0) @ h_high[at]
            high[rows] += np.maximum(w, 0) @ h_high[at] + np.minimum(w, 0) @ h_low[at]
            spread = r @ (h_high[at] + size_d)
            low_d[rows] += np.maximum(e, 0) @ h_low[at] + np.minimum(e, 0) @ h_high[at] - spread
            low_d[rows] += np.maximum(changed, 0) @ d_low[at] + np.minimum(changed, 0) @ d_high[at]
            high_d[rows] += np.maximum(e, 0) @ h_high[at] + np.minimum(e, 0) @ h_low[at] + spread
            high_d[rows] += np.maximum(changed, 0) @ d_high[at] + np.minimum(changed, 0) @ d_low[at]
        pad, pad_d = unit * rough[rows], unit * rough_d[rows]
        low[rows] -= pad
        high[rows] += pad
        low_d[rows] -= pad_d
        high_d[rows] += pad_d
        if layer < layout.layers - 1:
            after = slice(layout.inputs + rows.start, layout.inputs + rows.stop)
            h_low[after], h_high[after] = np.maximum(low[rows], 0), np.maximum(high[rows], 0)
            d_low[after], d_high[after] = np.minimum(low_d[rows], 0), np.maximum(high_d[rows], 0)
            state[:, rows] = (
                low[rows],
                high[rows],
                np.maximum(high_d[rows], 0),
                np.maximum(-low_d[rows], 0),
                low_d[rows],
                high_d[rows],
            )
    assert len(rough) == outputs
    # Twice, because they are themselves rounded.
    return state, 2 * rough, 2 * rough_d
