"""Scaling of every neuron to [-1, 1], so that absolute tolerances mean the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.bounds import PairBounds
from leaveout.encoders.box import Box
from leaveout.encoders.hyper_network import HyperLayer, HyperNetwork
from leaveout.encoders.interval import Interval
from leaveout.models import Layer, Stack

Floats = NDArray[np.float64]

NEGLIGIBLE = 2.0**-20
"""Share of a neuron's range below which what passes its ReLU gets a scale of its own."""


@dataclass(frozen=True, eq=False)
class ScaledPair:
    """A network, a hyper-network, their bounds and the box, all in scaled units."""

    network: Stack
    hyper: HyperNetwork
    bounds: PairBounds
    box: Box
    inner: tuple[Floats, ...]
    outer: tuple[Floats, ...]  # the same of the outputs of each source, the input first

    @property
    def largest(self) -> float:
        """The largest scaled weight of either network."""
        parts = [w for layer in self.network.layers for w in layer.weights.values()]
        parts += [w.magnitude for layer in self.hyper.layers for w in layer.weights.values()]
        return max(float(np.abs(part).max(initial=0.0)) for part in parts)


def scale_pair(network: Stack, hyper: HyperNetwork, bounds: PairBounds, box: Box) -> ScaledPair:
    """Scale each neuron of a pair by a power of two, without rounding.

    ReLUs commute with positive factors. A neuron of N and its match share a factor, so that their
    difference scales too.
    """
    inner: list[Floats] = []
    outer = [_powers(np.maximum(np.abs(box.lower), np.abs(box.upper)))]
    for own, other in zip(bounds.network, bounds.hyper, strict=True):
        size = np.maximum(own.magnitude, other.magnitude)
        if len(inner) == len(bounds.network) - 1:
            size = np.full_like(size, size.max(initial=0.0))
        factor = _powers(size)
        passing = np.maximum(np.maximum(own.upper, other.upper), 0.0)
        inner.append(factor)
        outer.append(np.where(passing < NEGLIGIBLE * factor, _powers(passing), factor))
    layers, hyper_layers = [], []
    for k, (layer, interval) in enumerate(zip(network.layers, hyper.layers, strict=True)):
        down = 1 / inner[k]
        ratio = {s: outer[s] * down[:, None] for s in layer.weights}
        layers.append(Layer({s: w * ratio[s] for s, w in layer.weights.items()}, layer.bias * down))
        weights = {s: _times(w, ratio[s]) for s, w in interval.weights.items()}
        hyper_layers.append(HyperLayer(weights, _times(interval.bias, down)))
    return ScaledPair(
        Stack(network.inputs, tuple(layers)),
        HyperNetwork(tuple(hyper_layers), hyper.members),
        PairBounds(
            _each(bounds.network, inner),
            _each(bounds.hyper, inner),
            _each(bounds.before, inner),
            _each(bounds.after, [*outer[1:-1], inner[-1]]),
        ),
        box.scale_by(outer[0]),
        tuple(inner),
        tuple(outer),
    )


def _each(intervals: tuple[Interval, ...], factors: list[Floats]) -> tuple[Interval, ...]:
    return tuple(_times(v, 1 / f) for v, f in zip(intervals, factors, strict=True))


def _powers(sizes: Floats) -> Floats:
    known = np.where(sizes > 0, sizes, 1.0)
    return np.asarray(2.0 ** np.clip(np.ceil(np.log2(known)), -300, 300))


def _times(interval: Interval, factor: Floats) -> Interval:
    return Interval(interval.lower * factor, interval.upper * factor)
