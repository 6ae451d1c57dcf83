"""Powers of two that bring every layer into [-1, 1], so that absolute tolerances mean the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.bounds import PairBounds
from leaveout.encoders.box import Box
from leaveout.encoders.hyper import HyperLayer, HyperNetwork
from leaveout.encoders.interval import Interval
from leaveout.models import Layer, Stack

__all__ = ["ScaledPair", "scaled"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScaledPair:
    """A network, a hyper-network, their bounds and the box, all in scaled units.

    Attributes
    ----------
    network : Stack
    hyper : HyperNetwork
    bounds : PairBounds
    box : Box
    factors : ndarray of float64, shape (layers + 1,)
        True value of source k = scaled value times ``factors[k]``.
    """

    network: Stack
    hyper: HyperNetwork
    bounds: PairBounds
    box: Box
    factors: Floats


def scaled(network: Stack, hyper: HyperNetwork, bounds: PairBounds, box: Box) -> ScaledPair:
    """Scale each layer of a pair by a power of two, which rounds nothing.

    A ReLU commutes with a positive factor, so the scaled pair computes the scaled values.
    """
    sizes = [np.maximum(np.abs(box.lower), np.abs(box.upper))]
    sizes += [
        np.maximum(n.magnitude, m.magnitude)
        for n, m in zip(bounds.network, bounds.hyper, strict=True)
    ]
    factors = np.asarray([_power(float(size.max(initial=0.0))) for size in sizes])

    def intervals(values: tuple[Interval, ...]) -> tuple[Interval, ...]:
        return tuple(_times(v, 1 / f) for v, f in zip(values, factors[1:], strict=True))

    layers, hyper_layers = [], []
    for k, (layer, interval) in enumerate(zip(network.layers, hyper.layers, strict=True), 1):
        ratio = {s: factors[s] / factors[k] for s in layer.weights}
        layers.append(
            Layer({s: w * ratio[s] for s, w in layer.weights.items()}, layer.bias / factors[k])
        )
        hyper_layers.append(
            HyperLayer(
                {s: _times(w, ratio[s]) for s, w in interval.weights.items()},
                _times(interval.bias, 1 / factors[k]),
            )
        )
    return ScaledPair(
        Stack(network.inputs, tuple(layers)),
        HyperNetwork(tuple(hyper_layers), hyper.members),
        PairBounds(
            intervals(bounds.network),
            intervals(bounds.hyper),
            intervals(bounds.before),
            intervals(bounds.after),
        ),
        Box(box.lower / factors[0], box.upper / factors[0]),
        factors,
    )


def _power(size: float) -> float:
    return float(2.0 ** np.clip(np.ceil(np.log2(size)), -300, 300)) if size > 0 else 1.0


def _times(interval: Interval, factor: float) -> Interval:
    return Interval(interval.lower * factor, interval.upper * factor)
