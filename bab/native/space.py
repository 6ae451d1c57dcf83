"""A question as the kernels read it: N's numbers, and the differences of sets of members."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.forms import Forms
from leaveout.bab.native.kernels.interface import MemberSets, Numbers
from leaveout.bab.native.layout import Layout, layout_of
from leaveout.bab.native.listed_values import Listed
from leaveout.encoders import Box
from leaveout.encoders.interval import gamma
from leaveout.models import Stack

__all__ = ["Others", "Space", "make_space"]

Floats = NDArray[np.float64]
Members = NDArray[np.int64]

_CACHED = 2**28
"""Bytes of differences of sets kept at hand."""


class Others(Protocol):
    """Networks of the first one's architecture, some at a time."""

    def __len__(self) -> int: ...

    def chunks(self, indices: Members) -> Iterator[tuple[Members, Stack]]:
        """Go through some of them, a few at a time: which they are, and their stack."""
        ...


@dataclass(frozen=True, eq=False)
class Difference:
    """Hull of the differences of one set of members."""

    centre: Floats
    radius: Floats
    shift: Floats
    slack: Floats
    exact: bool


@dataclass(frozen=True, eq=False)
class Space:
    """A network and others of its architecture over a region, in the kernels' form.

    Inputs are shifted by ``origin`` so that none is negative, as interval weights need.

    Attributes
    ----------
    first : Stack
    members : Others
    numbers : Numbers
    origin : ndarray of float64, shape (inputs,)
        The kernels' input is x minus this: the lower bound where it is negative, else 0.
    box : Box
    lower, upper : ndarray of float64, shape (inputs,)
        The whole region, shifted.
    root : ndarray of float64, shape (6, hidden)
        State of a node that covers everything: interval arithmetic.
    """

    first: Stack
    members: Others
    numbers: Numbers
    origin: Floats
    box: Box
    lower: Floats
    upper: Floats
    root: Floats
    _cache: OrderedDict[bytes, Difference]

    @property
    def layout(self) -> Layout:
        """The flat layout."""
        return self.numbers.layout

    @cached_property
    def listed(self) -> Listed:
        """Inputs that take listed values only, shifted."""
        return Listed.of(self.box, self.origin)

    @property
    def count(self) -> int:
        """Number of members."""
        return len(self.members)

    def read(self, asked: Forms) -> Forms:
        """Return the same forms, or a hair larger ones, as the kernels read them: shifted."""
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
        found = [self._difference(group) for group in groups]
        return MemberSets(
            np.stack([each.centre for each in found]),
            np.stack([each.radius for each in found]),
            np.stack([each.shift for each in found]),
            np.stack([each.slack for each in found]),
            np.array([each.exact for each in found]),
        )

    def _difference(self, group: Members) -> Difference:
        key = group.tobytes()
        known = self._cache.get(key)
        if known is None:
            known = _hull(self.first, self.members, self.numbers, self.origin, group)
            self._cache[key] = known
            each = 16 * (len(known.centre) + len(known.shift))
            while len(self._cache) > max(64, _CACHED // each):
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(key)
        return known


def make_space(first: Stack, members: Others, box: Box) -> Space:
    """Bring networks into the kernels' form.

    Parameters
    ----------
    first : Stack
        Of one network.
    members : Others
    box : Box
    """
    layout = layout_of(first)
    origin = np.minimum(box.lower, 0.0)
    weights = layout.weights_of(first)[0]
    bias = shifted(layout, weights, layout.biases_of(first)[0], origin)
    most = np.nextafter(box.upper - origin, np.inf)
    least = np.maximum(np.nextafter(box.lower - origin, -np.inf), 0.0)
    bare = Numbers(layout, weights, bias, bias, bias, 0.0)
    everyone = np.arange(len(members), dtype=np.int64)
    whole = _hull(first, members, bare, origin, everyone)
    unit = gamma(8 * (layout.inputs + 2 * len(bias)) + 256)
    root, rough, rough_difference = propagate(layout, bare, whole, origin, least, most, unit)
    numbers = Numbers(layout, weights, bias, rough, rough_difference, unit)
    return Space(first, members, numbers, origin, box, least, most, root, OrderedDict())


def shifted(layout: Layout, weights: Floats, bias: Floats, origin: Floats) -> Floats:
    """Biases for inputs shifted by ``origin``; ``weights`` and ``bias`` may be stacks."""
    if not origin.any():
        return bias
    result = bias.copy()
    for b, (layer, _, _, _, source) in enumerate(layout.blocks):
        if source == 0:
            rows = slice(layout.starts[layer], layout.starts[layer + 1])
            result[..., rows] += layout.matrix(weights, b) @ origin
    return result


def _hull(
    first: Stack, members: Others, numbers: Numbers, origin: Floats, group: Members
) -> Difference:
    layout = numbers.layout
    own = layout.biases_of(first)[0]
    low = high = low_bias = high_bias = None
    for _, stack in members.chunks(group):
        weights = layout.weights_of(stack)
        change = weights - numbers.weights
        # The difference is shifted, not the two sides of it: rounding then is relative to itself.
        bias = shifted(layout, change, layout.biases_of(stack) - own, origin)
        below, above, below_bias, above_bias = (
            change.min(axis=0), change.max(axis=0), bias.min(axis=0), bias.max(axis=0)
        )  # fmt: skip
        if low is None or high is None or low_bias is None or high_bias is None:
            low, high, low_bias, high_bias = below, above, below_bias, above_bias
        else:
            low, high = np.minimum(low, below), np.maximum(high, above)
            low_bias, high_bias = (
                np.minimum(low_bias, below_bias), np.maximum(high_bias, above_bias)
            )  # fmt: skip
    assert low is not None and high is not None
    assert low_bias is not None and high_bias is not None
    centre, shift = (low + high) / 2, (low_bias + high_bias) / 2
    radius = np.maximum(high - centre, centre - low)
    slack = np.maximum(high_bias - shift, shift - low_bias)
    return Difference(centre, radius, shift, slack, not (radius.any() or slack.any()))


def propagate(
    layout: Layout,
    numbers: Numbers,
    whole: Difference,
    origin: Floats,
    lower: Floats,
    upper: Floats,
    unit: float,
) -> tuple[Floats, Floats, Floats]:
    """Interval bounds of all pairs over the region, and the sums of absolute terms behind them."""
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
