"""N and sets of members as arrays, with their rounding costs.

Inputs are shifted by ``origin`` so that none is negative: then an interval of weights costs its
radius times the input, which is linear.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.models import Stack
from leaveout.verifier.checker.arithmetic import Arithmetic, gamma
from leaveout.verifier.checker.inputs import Inputs, Table, shifted_rows

_KEPT = 2**28
"""Bytes of cached differences of sets."""


@dataclass(frozen=True, eq=False)
class Net:
    """The network N."""

    inputs: int
    labels: int
    hidden: int
    starts: tuple[int, ...]
    sources: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[Floats, ...], ...]  # shape (outputs, width of the source)
    bias: Floats  # shape (hidden + labels,): for shifted inputs
    origin: Floats  # shape (inputs,): the shift
    lower: Floats  # shape (inputs,): the shifted region, rounded outwards
    upper: Floats  # shape (inputs,): the shifted region, rounded outwards
    tables: tuple[Table, ...]  # listed values, shifted
    rows: tuple[Table, ...]  # the same, for computations
    unit: float
    arithmetic: Arithmetic  # number type of weights, biases and rows

    @property
    def layers(self) -> int:
        """Number of affine maps."""
        return len(self.sources)

    def at(self, layer: int) -> slice:
        """Return the slice of a layer's outputs."""
        return slice(self.starts[layer], self.starts[layer + 1])


@dataclass(frozen=True, eq=False)
class Sets:
    """Differences member minus N of some sets of members, as centre and radius."""

    centre: tuple[tuple[Floats, ...], ...]  # shape (s, outputs, width of the source)
    radius: tuple[tuple[Floats, ...], ...]  # shape (s, outputs, width of the source)
    shift: Floats  # shape (s, hidden + labels)
    slack: Floats  # shape (s, hidden + labels)
    exact: NDArray[np.bool_]  # shape (s,): whether all radii and slacks are 0


def make_net(
    stack: Stack, inputs: Inputs, numbers: Arithmetic, origin: Floats | None = None
) -> Net:
    """Lay a network out."""
    widths = [layer.width for layer in stack.layers]
    starts = tuple(int(v) for v in np.concatenate([[0], np.cumsum(widths)]))
    sources = tuple(tuple(sorted(layer.weights)) for layer in stack.layers)
    weights = tuple(
        tuple(
            numbers.number(np.ascontiguousarray(layer.weights[s][0])) for s in sorted(layer.weights)
        )
        for layer in stack.layers
    )
    if origin is None:
        origin = np.minimum(inputs.lower, 0.0)
    outputs = starts[-1]
    tables = shifted_rows(inputs.tables, origin)
    rows = tables
    if numbers.exact:
        rows = tuple(
            Table(each.columns, numbers.number(each.values) - origin[each.columns])
            for each in inputs.tables
        )
    return Net(
        stack.inputs,
        widths[-1],
        starts[-2],
        starts,
        sources,
        weights,
        _biases(stack, origin, numbers),
        origin,
        np.maximum(np.nextafter(inputs.lower - origin, -np.inf), 0.0),
        np.nextafter(inputs.upper - origin, np.inf),
        tables,
        rows,
        gamma(12 * outputs + 4 * stack.inputs + 128),
        numbers,
    )


def _biases(stack: Stack, origin: Floats, numbers: Arithmetic) -> Floats:
    """Return biases of a network for shifted inputs, shape (outputs,)."""
    parts = []
    for layer in stack.layers:
        bias = numbers.number(layer.bias[0])
        if 0 in layer.weights and origin.any():
            bias = bias + numbers.number(layer.weights[0][0]) @ origin
        parts.append(bias)
    return np.concatenate(parts)


class Others(Protocol):
    """Networks of N's architecture."""

    def chunks(self, indices: Integers, /) -> Iterator[tuple[Integers, Stack]]:
        """Iterate over some networks, a few at a time, with their indices and stack."""
        ...


class SetStore:
    """Differences of sets of members, computed on demand; the last ones are cached."""

    def __init__(self, members: Others, network: Stack, net: Net) -> None:
        self._members = members
        self._network = network
        self._net = net
        self._known: OrderedDict[int, tuple[list[Floats], list[Floats], Floats, Floats]] = (
            OrderedDict()
        )
        size = sum(w.size for layer in net.weights for w in layer) + net.starts[-1]
        self._most = max(16, _KEPT // (16 * size))

    def sets(self, keys: list[int], groups: list[Integers]) -> Sets:
        """Return the differences of some sets, side by side."""
        found = [self._one(key, group) for key, group in zip(keys, groups, strict=True)]
        blocks = [len(layer) for layer in self._net.sources]
        firsts = np.concatenate([[0], np.cumsum(blocks)])

        def stack_part(part: int) -> tuple[tuple[Floats, ...], ...]:
            """Return one part of all sets, block by block."""
            return tuple(
                tuple(
                    np.stack([each[part][b] for each in found])
                    for b in range(int(firsts[k]), int(firsts[k + 1]))
                )
                for k in range(self._net.layers)
            )

        slack = np.stack([each[3] for each in found])
        exact = [not (each[3].any() or any(radius.any() for radius in each[1])) for each in found]
        return Sets(
            stack_part(0),
            stack_part(1),
            np.stack([each[2] for each in found]),
            slack,
            np.array(exact),
        )

    def forget(self) -> None:
        """Forget cached sets, so that keys can denote others."""
        self._known.clear()

    def _one(self, key: int, group: Integers) -> tuple[list[Floats], list[Floats], Floats, Floats]:
        known = self._known.get(key)
        if known is None:
            known = self._hull(group)
            self._known[key] = known
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return known

    def _hull(self, group: Integers) -> tuple[list[Floats], list[Floats], Floats, Floats]:
        numbers = self._net.arithmetic
        if len(group) == 1:
            ((_, stack),) = self._members.chunks(group)
            own = [each[0] for each in _changes(self._network, stack, self._net)]
            none = [np.zeros(each.shape) for each in own]
            return own[:-1], none[:-1], own[-1], none[-1]
        low: list[Floats] = []
        high: list[Floats] = []
        for _, stack in self._members.chunks(group):
            parts = _weights(stack)
            below, above = [p.min(axis=0) for p in parts], [p.max(axis=0) for p in parts]
            shifts = _shifts(self._network, stack, self._net)
            below.append(numbers.down(shifts).min(axis=0))
            above.append(numbers.up(shifts).max(axis=0))
            if low:
                below = [np.minimum(a, b) for a, b in zip(low, below, strict=True)]
                above = [np.maximum(a, b) for a, b in zip(high, above, strict=True)]
            low, high = below, above
        # Subtracting a number is monotone, also in float64.
        own = [each[0] for each in _weights(self._network)]
        least = [numbers.down(numbers.number(a) - w) for a, w in zip(low, own, strict=False)]
        most = [numbers.up(numbers.number(b) - w) for b, w in zip(high, own, strict=False)]
        centre = [(a + b) / 2 for a, b in zip([*least, low[-1]], [*most, high[-1]], strict=True)]
        radius = [
            numbers.up(np.maximum(numbers.number(b) - c, numbers.number(c) - a))
            for a, b, c in zip([*least, low[-1]], [*most, high[-1]], centre, strict=True)
        ]
        return centre[:-1], radius[:-1], centre[-1], radius[-1]


def difference(first: Stack, second: Stack, net: Net) -> Sets:
    """Return the difference of one network from another, as a single set."""
    parts = (each[:1] for each in _changes(first, second, net))
    centre = tuple(tuple(next(parts) for _ in layer) for layer in net.sources)
    shift = next(parts)
    radius = tuple(tuple(np.zeros(each.shape) for each in layer) for layer in centre)
    return Sets(centre, radius, shift, np.zeros(shift.shape), np.ones(1, bool))


def _weights(stack: Stack) -> list[Floats]:
    """Yield all weights by block, shape (m, outputs, width of the source) each."""
    return [layer.weights[s] for layer in stack.layers for s in sorted(layer.weights)]


def _changes(network: Stack, stack: Stack, net: Net) -> list[Floats]:
    """Yield differences of all weights by block, and finally of the biases."""
    numbers = net.arithmetic
    pairs = zip(_weights(stack), _weights(network), strict=True)
    parts = [numbers.number(each) - own for each, own in pairs]
    return [*parts, _shifts(network, stack, net)]


def _shifts(network: Stack, stack: Stack, net: Net) -> Floats:
    """Return differences of the biases for shifted inputs, shape (m, outputs)."""
    numbers, biases = net.arithmetic, []
    for own, layer in zip(network.layers, stack.layers, strict=True):
        bias = numbers.number(layer.bias) - own.bias
        if 0 in layer.weights and net.origin.any():
            # Of the difference, so that no large numbers cancel.
            bias = bias + (numbers.number(layer.weights[0]) - own.weights[0]) @ net.origin
        biases.append(bias)
    return np.concatenate(biases, axis=1)


@dataclass(frozen=True, eq=False)
class Start:
    """Bounds over the whole region."""

    state: Floats  # shape (6, hidden): as in `leaveout.verifier.checker.pairs.facts_of`
    terms: Floats  # shape (hidden + labels,): sums of absolute terms of each z and dz
    terms_d: Floats  # shape (hidden + labels,): sums of absolute terms of each z and dz


def start(net: Net, everyone: Sets) -> Start:
    """Propagate intervals of z, and of dz with ``dh`` anywhere between 0 and dz.

    So the bounds of dz hold whichever pairs are tied.
    """
    outputs, numbers = net.starts[-1], net.arithmetic
    terms, terms_d = np.zeros(outputs), np.zeros(outputs)
    state = np.zeros((6, net.hidden))
    low_h, high_h = [net.lower], [net.upper]
    low_dh, high_dh = [np.zeros(net.inputs)], [np.zeros(net.inputs)]
    for k in range(net.layers):
        at = net.at(k)
        shift = numbers.number(everyone.shift[0, at])
        slack = numbers.number(everyone.slack[0, at])
        low, high = net.bias[at].copy(), net.bias[at].copy()
        low_d, high_d = shift - slack, shift + slack
        own, own_d = np.abs(net.bias[at]), np.abs(shift) + slack
        for b, source in enumerate(net.sources[k]):
            w, c, r = net.weights[k][b], everyone.centre[k][b][0], everyone.radius[k][b][0]
            h0, h1, d0, d1 = low_h[source], high_h[source], low_dh[source], high_dh[source]
            c, r = numbers.number(c), numbers.number(r)
            size_d = np.maximum(np.abs(d0), np.abs(d1))
            size = h1 if source else numbers.number(h1) + np.abs(net.origin)
            changed = w + c
            own = own + np.abs(w) @ size
            own_d = own_d + (np.abs(c) + r) @ (size + size_d) + (np.abs(changed) + r) @ size_d
            low = low + np.maximum(w, 0) @ h0 + np.minimum(w, 0) @ h1
            high = high + np.maximum(w, 0) @ h1 + np.minimum(w, 0) @ h0
            spread = r @ (numbers.number(h1) + size_d)
            low_d = low_d + np.maximum(c, 0) @ h0 + np.minimum(c, 0) @ h1 - spread
            high_d = high_d + np.maximum(c, 0) @ h1 + np.minimum(c, 0) @ h0 + spread
            low_d = low_d + np.maximum(changed, 0) @ d0 + np.minimum(changed, 0) @ d1
            high_d = high_d + np.maximum(changed, 0) @ d1 + np.minimum(changed, 0) @ d0
        # Twice, for the rounding of the sums themselves.
        terms[at], terms_d[at] = 2 * numbers.up(own), 2 * numbers.up(own_d)
        low = numbers.down(low) - net.unit * terms[at]
        high = numbers.up(high) + net.unit * terms[at]
        low_d = numbers.down(low_d) - net.unit * terms_d[at]
        high_d = numbers.up(high_d) + net.unit * terms_d[at]
        if k < net.layers - 1:
            state[:, at] = (
                low, high, np.maximum(high_d, 0), np.maximum(-low_d, 0), low_d, high_d
            )  # fmt: skip
            low_h.append(np.maximum(low, 0))
            high_h.append(np.maximum(high, 0))
            low_dh.append(np.minimum(low_d, 0))
            high_dh.append(np.maximum(high_d, 0))
    return Start(state, terms, terms_d)
