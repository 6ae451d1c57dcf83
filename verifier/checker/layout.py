"""N and sets of members as numbers, with what their rounding costs.

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

from leaveout.models import Stack
from leaveout.verifier.checker.choices import shifted_rows
from leaveout.verifier.checker.inputs import Inputs, Table
from leaveout.verifier.checker.rounding import gamma

__all__ = ["Net", "SetStore", "Sets", "difference", "make_net"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_KEPT = 2**28
"""Bytes of differences of sets kept at hand."""


@dataclass(frozen=True, eq=False)
class Net:
    """N.

    Attributes
    ----------
    inputs, labels, hidden : int
    starts : tuple of int
        Where the outputs of each layer start among all; the last entry is how many there are.
    sources : tuple of tuple of int
        What each layer reads: 0 the input, k the outputs of layer k - 1 after its ReLU.
    weights : tuple of tuple of ndarray, shape (outputs, width of the source)
    bias : ndarray of float64, shape (hidden + labels,)
        Of shifted inputs.
    origin, lower, upper : ndarray of float64, shape (inputs,)
        The shift, and the shifted region, rounded outwards.
    tables : tuple of Table
        Listed values, shifted.
    unit : float
        Charge, relative to the sums of absolute terms, for all rounding of one backward pass.
    """

    inputs: int
    labels: int
    hidden: int
    starts: tuple[int, ...]
    sources: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[Floats, ...], ...]
    bias: Floats
    origin: Floats
    lower: Floats
    upper: Floats
    tables: tuple[Table, ...]
    unit: float

    @property
    def layers(self) -> int:
        """Number of affine maps."""
        return len(self.sources)

    def at(self, layer: int) -> slice:
        """Where the outputs of a layer are."""
        return slice(self.starts[layer], self.starts[layer + 1])


@dataclass(frozen=True, eq=False)
class Sets:
    """Differences member minus N of some sets of members, as centre and radius.

    Attributes
    ----------
    centre, radius : tuple of tuple of ndarray, shape (s, outputs, width of the source)
    shift, slack : ndarray of float64, shape (s, hidden + labels)
    exact : ndarray of bool, shape (s,)
        Whether all radii and slacks are 0.
    """

    centre: tuple[tuple[Floats, ...], ...]
    radius: tuple[tuple[Floats, ...], ...]
    shift: Floats
    slack: Floats
    exact: NDArray[np.bool_]


def make_net(stack: Stack, inputs: Inputs, origin: Floats | None = None) -> Net:
    """Lay a network out.

    Parameters
    ----------
    stack : Stack
        Of one network.
    inputs : Inputs
    origin : ndarray of float64, shape (inputs,), optional
        No more than the lower bounds; by default those of them that are negative, else 0.
    """
    widths = [layer.width for layer in stack.layers]
    starts = tuple(int(v) for v in np.concatenate([[0], np.cumsum(widths)]))
    sources = tuple(tuple(sorted(layer.weights)) for layer in stack.layers)
    weights = tuple(
        tuple(np.ascontiguousarray(layer.weights[s][0]) for s in sorted(layer.weights))
        for layer in stack.layers
    )
    if origin is None:
        origin = np.minimum(inputs.lower, 0.0)
    outputs = starts[-1]
    return Net(
        stack.inputs,
        widths[-1],
        starts[-2],
        starts,
        sources,
        weights,
        _biases(stack, origin)[0],
        origin,
        np.maximum(np.nextafter(inputs.lower - origin, -np.inf), 0.0),
        np.nextafter(inputs.upper - origin, np.inf),
        shifted_rows(inputs.tables, origin),
        gamma(12 * outputs + 4 * stack.inputs + 128),
    )


def _biases(stack: Stack, origin: Floats) -> Floats:
    """Biases of each network of a stack for shifted inputs, shape (m, outputs)."""
    parts = []
    for layer in stack.layers:
        bias = layer.bias
        if 0 in layer.weights and origin.any():
            bias = bias + layer.weights[0] @ origin
        parts.append(bias)
    return np.concatenate(parts, axis=1)


class Others(Protocol):
    """Networks of N's architecture."""

    def chunks(self, indices: Integers, /) -> Iterator[tuple[Integers, Stack]]:
        """Go through some, a few at a time: which they are, and their stack."""
        ...


class SetStore:
    """Differences of sets of members, computed when asked for; the last ones are kept.

    Parameters
    ----------
    members : Others
    network : Stack
        N's.
    net : Net
    """

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
        """Return the differences of some sets, side by side.

        Parameters
        ----------
        keys : list of int
            A number for each set, by which it is kept.
        groups : list of ndarray of int64
            Their members.
        """
        found = [self._one(key, group) for key, group in zip(keys, groups, strict=True)]
        blocks = [len(layer) for layer in self._net.sources]
        firsts = np.concatenate([[0], np.cumsum(blocks)])

        def stacked(part: int) -> tuple[tuple[Floats, ...], ...]:
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
            stacked(0), stacked(1), np.stack([each[2] for each in found]), slack, np.array(exact)
        )

    def forget(self) -> None:
        """Let keys stand for other sets."""
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
        low: list[Floats] = []
        high: list[Floats] = []
        for _, stack in self._members.chunks(group):
            parts = _changes(self._network, stack, self._net.origin)
            below, above = [p.min(axis=0) for p in parts], [p.max(axis=0) for p in parts]
            if low:
                below = [np.minimum(a, b) for a, b in zip(low, below, strict=True)]
                above = [np.maximum(a, b) for a, b in zip(high, above, strict=True)]
            low, high = below, above
        centre = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
        radius = [np.maximum(b - c, c - a) for a, b, c in zip(low, high, centre, strict=True)]
        return centre[:-1], radius[:-1], centre[-1], radius[-1]


def difference(first: Stack, second: Stack, net: Net) -> Sets:
    """Return how one network differs from another, as the one set there is.

    Parameters
    ----------
    first, second : Stack
        Of one network each, and one architecture.
    net : Net
        Of the first.
    """
    parts = iter(_changes(first, second, net.origin))
    centre = tuple(tuple(next(parts) for _ in layer) for layer in net.sources)
    shift = next(parts)
    radius = tuple(tuple(np.zeros_like(each) for each in layer) for layer in centre)
    return Sets(centre, radius, shift, np.zeros_like(shift), np.ones(1, bool))


def _changes(network: Stack, stack: Stack, origin: Floats) -> list[Floats]:
    """Differences of all weights, a block at a time, and last of the biases."""
    parts: list[Floats] = []
    biases = []
    for own, layer in zip(network.layers, stack.layers, strict=True):
        bias = layer.bias - own.bias
        for s in sorted(layer.weights):
            change = layer.weights[s] - own.weights[s]
            # Of the difference, so that nothing cancels.
            if s == 0 and origin.any():
                bias = bias + change @ origin
            parts.append(change)
        biases.append(bias)
    return [*parts, np.concatenate(biases, axis=1)]
