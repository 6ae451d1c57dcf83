"""Bound propagation for a network, a hyper-network, and their difference."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders.box import Box
from leaveout.encoders.interval import Interval, gamma
from leaveout.kernel.smooth import Kinds, by_kind, change_of, pair_ends
from leaveout.models import Members, Stack
from leaveout.models.graph import Layer
from leaveout.models.matrices import (
    Matrix,
    dense,
    ends,
    magnitude,
    positive,
    scale_columns,
    take_rows,
)


@dataclass(frozen=True, eq=False)
class HyperLayer:
    """One affine map with interval parameters, or a stack of such maps."""

    weights: Mapping[int, Interval]  # shape (outputs, inputs) or (m, outputs, inputs)
    bias: Interval  # shape (outputs,) or (m, outputs)
    kinds: Kinds | None = None  # as in `Layer`


@dataclass(frozen=True, eq=False)
class HyperNetwork:
    """The smallest interval network containing all members (LUCID, Definition 5.1)."""

    layers: tuple[HyperLayer, ...]
    members: int  # number of abstracted networks; a single one has parameters of width zero


def hyper_network(
    networks: Stack | Members, chosen: NDArray[np.int64] | None = None
) -> HyperNetwork:
    """Return the hyper-network of some networks, read a few at a time."""
    if isinstance(networks, Stack):
        return _hull(networks if chosen is None else networks.take(chosen))
    hulls = (_hull(stack) for _, stack in networks.chunks(chosen))
    # Minima and maxima do not round, so the chunks do not affect the result.
    return functools.reduce(_union, hulls)


def apart(stack: Stack) -> HyperNetwork:
    """Return each network of a stack as a hyper-network of its own, side by side."""
    layers = (
        HyperLayer(
            {s: Interval.point(dense(w)) for s, w in layer.weights.items()},
            Interval.point(layer.bias),
            layer.kinds,
        )
        for layer in stack.layers
    )
    return HyperNetwork(tuple(layers), 1)


def _hull(stack: Stack) -> HyperNetwork:
    return HyperNetwork(
        tuple(
            HyperLayer(
                {s: Interval(*ends(w)) for s, w in layer.weights.items()},
                Interval(layer.bias.min(axis=0), layer.bias.max(axis=0)),
                layer.kinds,
            )
            for layer in stack.layers
        ),
        len(stack),
    )


def _union(first: HyperNetwork, second: HyperNetwork) -> HyperNetwork:
    return HyperNetwork(
        tuple(
            HyperLayer(
                {s: _wider(w, other.weights[s]) for s, w in layer.weights.items()},
                _wider(layer.bias, other.bias),
                layer.kinds,
            )
            for layer, other in zip(first.layers, second.layers, strict=True)
        ),
        first.members + second.members,
    )


def _wider(first: Interval, second: Interval) -> Interval:
    return Interval(np.minimum(first.lower, second.lower), np.maximum(first.upper, second.upper))


def difference(hyper: HyperNetwork, network: Stack) -> tuple[HyperLayer, ...]:
    """Return intervals that contain member minus network (LUCID, section 6.2)."""
    return tuple(
        HyperLayer(
            {s: _minus(w, dense(layer.weights[s])[0]) for s, w in interval.weights.items()},
            _minus(interval.bias, layer.bias[0]),
        )
        for interval, layer in zip(hyper.layers, network.layers, strict=True)
    )


def _minus(interval: Interval, values: np.ndarray) -> Interval:
    # Equal numbers subtract exactly; padding would make equal networks look different.
    lower, upper = interval.lower - values, interval.upper - values
    return Interval(
        np.where(lower == 0, 0.0, np.nextafter(lower, -np.inf)),
        np.where(upper == 0, 0.0, np.nextafter(upper, np.inf)),
    )


@dataclass(frozen=True, eq=False)
class PairBounds:
    """Bounds of a network, a hyper-network and their difference, layer by layer."""

    network: tuple[Interval, ...]  # pre-activations of each layer
    hyper: tuple[Interval, ...]  # pre-activations of each layer
    before: tuple[Interval, ...]
    after: tuple[Interval, ...]


@np.errstate(over="ignore", invalid="ignore")
def network_bounds(network: Stack, box: Box, deadline: Deadline = NEVER) -> tuple[Interval, ...]:
    """Bound every layer's pre-activations backward, intersected with plain intervals.

    What is left once the deadline is over keeps its plain intervals.
    """
    behind = _Behind(network, box)
    for layer in network.layers:
        plain = Interval.point(layer.bias[0])
        for s, w in layer.weights.items():
            plain = plain.plus(behind.sources[s].through(w[0]))
        behind.add(_meet_backward(plain, layer, behind, deadline))
    return tuple(behind.pre)


_TOGETHER = 2**22
"""Most coefficients of rows that are pulled back at once, as far as the rows before them tell."""


def _meet_backward(plain: Interval, layer: Layer, behind: _Behind, deadline: Deadline) -> Interval:
    """Intersect a layer's plain intervals with backward bounds.

    Of a wide layer only those of neurons that may be on or off: others are linear already.
    """
    rows, network = np.arange(layer.width), behind.network
    if network.is_sparse and layer is not network.layers[-1]:
        rows = np.flatnonzero((plain.lower < 0) & (plain.upper > 0))
    widest = max(behind.box.dimension, *(each.width for each in network.layers))
    lower, upper = plain.lower.copy(), plain.upper.copy()
    start, chunk = 0, max(1, _TOGETHER // widest)
    while start < len(rows) and not deadline.over:
        part = rows[start : start + chunk]
        weights = {s: w[0][part] for s, w in layer.weights.items()}
        upper[part], most = behind.upper(weights, layer.bias[0][part])
        negated = {s: -w for s, w in weights.items()}
        lower[part] = -behind.upper(negated, -layer.bias[0][part])[0]
        start += len(part)
        # Rows of entries stay short: more of them cost no more memory, and far fewer passes.
        chunk = min(2 * chunk, max(1, _TOGETHER * len(part) // max(1, most)))
    return plain.meet(Interval(lower, upper))


def confidence_upper(network: Stack, box: Box, bounds: tuple[Interval, ...], label: int) -> float:
    """Return an upper bound of the confidence of ``label``, its smallest margin to any rival."""
    last = network.layers[-1]
    rivals = [c for c in range(network.labels) if c != label]
    rows = {}
    for s, w in last.weights.items():
        own = take_rows(w[0], np.arange(network.labels))
        rows[s] = own[label] - own[rivals]
    constant = last.bias[0][label] - last.bias[0][rivals]
    behind = _Behind(network, box)
    for each in bounds[:-1]:
        behind.add(each)
    return float(behind.upper(rows, constant)[0].min())


class _Behind:
    """The layers behind those that are bounded, replaced by linear bounds in earlier sources."""

    def __init__(self, network: Stack, box: Box) -> None:
        self.network, self.box = network, box
        self.pre: list[Interval] = []
        self.sources = [Interval(box.lower, box.upper)]
        self._relaxations: list[tuple[Floats, ...]] = []
        self._terms: list[Floats] = []  # the absolute terms of each layer's sums

    def add(self, pre: Interval) -> None:
        """Add the next layer with its pre-activations."""
        layer = self.network.layers[len(self.pre)]
        terms = np.abs(layer.bias[0])
        for s, w in layer.weights.items():
            terms = terms + magnitude(w[0]) @ self.sources[s].magnitude
        above, intercept, below = _relaxation(pre)
        lowest = _smooth_lines(pre, layer.kinds, above, intercept, below)
        self.pre.append(pre)
        self.sources.append(outputs_of(pre, layer.kinds))
        self._terms.append(terms + np.abs(pre.lower) + np.abs(intercept) + np.abs(lowest))
        self._relaxations.append((above, intercept, lowest, below))

    def upper(self, rows: Mapping[int, Matrix], constant: Floats) -> tuple[Floats, int]:
        """Bound ``sum over s of rows[s] @ h_s + constant`` from above over the box.

        Rounding is bounded by term sizes, counted twice, since the sizes are rounded themselves.
        The number is how many coefficients there were at most at once.
        """
        coefficients: dict[int, Matrix] = dict(rows)
        total, most = constant.copy(), 0
        error = gamma(4) * np.abs(constant)
        for s, row in rows.items():
            error += gamma(6) * (magnitude(row) @ self.sources[s].magnitude)
        for k in range(len(self.pre), 0, -1):
            if k not in coefficients:
                continue
            most = max(most, sum(each.size for each in coefficients.values()))
            row = coefficients.pop(k)
            above, intercept, lowest, below = self._relaxations[k - 1]
            through = scale_columns(row, above, below)
            layer = self.network.layers[k - 1]
            for s, w in layer.weights.items():
                step = through @ w[0]
                coefficients[s] = coefficients[s] + step if s in coefficients else step
            total = total + positive(row) @ intercept + through @ layer.bias[0]
            if lowest.any():
                total = total - positive(-row) @ lowest
            roundings = row.shape[1] + max(w.shape[2] for w in layer.weights.values())
            error += gamma(2 * roundings + 16) * (
                magnitude(row) @ self._terms[k - 1] + np.abs(total)
            )
        if 0 in coefficients:
            row = coefficients[0]
            most = max(most, row.size)
            total = total + self.box.greatest(row)
            error += gamma(2 * row.shape[1] + 8) * (
                magnitude(row) @ self.sources[0].magnitude + np.abs(total)
            )
        return np.asarray(total + error), most


def _relaxation(pre: Interval) -> tuple[Floats, Floats, Floats]:
    """Return each ReLU's linear bounds: upper slope and intercept, and lower slope."""
    lower, upper = pre.lower, pre.upper
    unstable = (lower < 0) & (upper > 0)
    gap = np.where(unstable, upper - lower, 1.0)
    above = np.where(unstable, upper / gap, (lower >= 0).astype(float))
    intercept = np.where(unstable, -above * lower, 0.0)
    below = np.where(unstable, (upper > -lower).astype(float), (lower >= 0).astype(float))
    return above, intercept, below


def outputs_of(pre: Interval, kinds: Kinds | None) -> Interval:
    """Return the interval of activations."""
    found = pre.relu()
    for curve, at in by_kind(kinds) if kinds is not None else ():
        low, high = curve.ends(pre.lower[..., at], pre.upper[..., at])
        found.lower[..., at], found.upper[..., at] = (
            low - curve.function.floor,
            high - curve.function.floor,
        )
    return found


def _smooth_lines(
    pre: Interval, kinds: Kinds | None, above: Floats, intercept: Floats, below: Floats
) -> Floats:
    """Write a tangent or the chord in place of a ReLU's lines; return the lower intercepts."""
    lowest = np.zeros_like(intercept)
    for curve, at in by_kind(kinds) if kinds is not None else ():
        low, high = pre.lower[at], pre.upper[at]
        middle, one = (low + high) / 2, np.ones(len(at))
        chord = (curve.at(high)[0] - curve.at(low)[0]) / np.maximum(high - low, 1e-9)
        best = np.full((2, len(at)), np.inf)
        for slope in (chord, curve.at(middle)[1]):
            for side, (sign, own, constant) in enumerate(
                ((1.0, above, intercept), (-1.0, below, lowest))
            ):
                top = curve.top(sign * one, sign * slope, low, high)
                better = top + sign * slope * middle < best[side]
                best[side] = np.where(better, top + sign * slope * middle, best[side])
                own[at] = np.where(better, slope, own[at])
                constant[at] = np.where(better, sign * top - curve.function.floor, constant[at])
    return lowest


@np.errstate(over="ignore", invalid="ignore")
def hyper_bounds(hyper: HyperNetwork, box: Box) -> tuple[Interval, ...]:
    """Bound a hyper-network's pre-activations by interval arithmetic alone."""
    sources = [Interval(box.lower, box.upper)]
    pre = []
    for layer in hyper.layers:
        value = layer.bias
        for s, w in layer.weights.items():
            value = value.plus(sources[s].apply(w))
        pre.append(value)
        sources.append(outputs_of(value, layer.kinds))
    return tuple(pre)


@np.errstate(over="ignore", invalid="ignore")
def pair_bounds(
    network: Stack, hyper: HyperNetwork, bounds: tuple[Interval, ...], box: Box
) -> PairBounds:
    """Bound a network, a hyper-network, and their difference.

    Difference intervals are LUCID's (section 6.2), with the exact ReLU difference hull; they also
    tighten the hyper-network's bounds.
    """
    delta = difference(hyper, network)
    inputs = Interval(box.lower, box.upper)
    members, after = [inputs], [Interval.zeros(box.dimension)]
    pre_members, pre_difference = [], []
    for k, layer in enumerate(hyper.layers):
        value, change = layer.bias, delta[k].bias
        for s, w in layer.weights.items():
            value = value.plus(members[s].apply(w))
            own = network.layers[k].weights[s][0]
            change = change.plus(after[s].through(own)).plus(members[s].apply(delta[k].weights[s]))
        value = value.meet(bounds[k].plus(change))
        pre_members.append(value)
        pre_difference.append(change)
        members.append(outputs_of(value, layer.kinds))
        after.append(output_difference(bounds[k], change, layer.kinds))
    return PairBounds(
        bounds,
        tuple(pre_members),
        tuple(pre_difference),
        (*after[1:-1], pre_difference[-1]),
    )


def output_difference(pre: Interval, change: Interval, kinds: Kinds | None) -> Interval:
    """Return the padded hull of the changes of activations."""
    found = relu_difference(pre, change)
    if kinds is None:
        return found
    sides = np.broadcast_arrays(pre.lower, pre.upper, change.lower, change.upper)
    rows = (each.reshape(-1, len(kinds)) for each in sides)
    least, most = change_of(pair_ends(kinds, *rows))
    lower, upper = (
        np.where(kinds > 0, each.reshape(own.shape), own)
        for each, own in ((least, found.lower), (most, found.upper))
    )
    return Interval(lower, upper)


def relu_difference(pre: Interval, change: Interval) -> Interval:
    """Return the padded hull of ``relu(z + d) - relu(z)``, z in ``pre``, d in ``change``.

    It grows with d; it grows with z if d >= 0, and shrinks with z if d < 0.
    """

    def value(z: Floats, d: Floats) -> Floats:
        return np.asarray(np.maximum(z + d, 0.0) - np.maximum(z, 0.0))

    upper = value(np.where(change.upper >= 0, pre.upper, pre.lower), change.upper)
    lower = value(np.where(change.lower >= 0, pre.lower, pre.upper), change.lower)
    # The hull never exceeds the change itself, so padding is cut off there.
    exact = Interval(np.minimum(change.lower, 0.0), np.maximum(change.upper, 0.0))
    pad = gamma(6) * (pre.magnitude + change.magnitude)
    quiet = (change.lower == 0) & (change.upper == 0)
    return Interval(lower, upper).widen(np.where(quiet, 0.0, pad)).meet(exact)
