"""Hyper-networks: one network whose weights are intervals over a set of members."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.interval import Interval
from leaveout.models import Members, Stack


@dataclass(frozen=True, eq=False)
class HyperLayer:
    """One affine map with interval parameters."""

    weights: Mapping[int, Interval]  # shape (outputs, inputs)
    bias: Interval  # shape (outputs,)


@dataclass(frozen=True, eq=False)
class HyperNetwork:
    """The smallest interval network containing all members (LUCID, Definition 5.1)."""

    layers: tuple[HyperLayer, ...]
    members: int  # how many networks it abstracts; the parameters of one are points


def hyper_network(
    networks: Stack | Members, chosen: NDArray[np.int64] | None = None
) -> HyperNetwork:
    """Return the hyper-network of some networks, lowered a few at a time."""
    if isinstance(networks, Stack):
        return _hull(networks if chosen is None else networks.take(chosen))
    hulls = (_hull(stack) for _, stack in networks.chunks(chosen))
    # Minima and maxima round nothing, so it does not matter where the chunks begin.
    return functools.reduce(_union, hulls)


def _hull(stack: Stack) -> HyperNetwork:
    return HyperNetwork(
        tuple(
            HyperLayer(
                {s: Interval(w.min(axis=0), w.max(axis=0)) for s, w in layer.weights.items()},
                Interval(layer.bias.min(axis=0), layer.bias.max(axis=0)),
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
            {s: _minus(w, layer.weights[s][0]) for s, w in interval.weights.items()},
            _minus(interval.bias, layer.bias[0]),
        )
        for interval, layer in zip(hyper.layers, network.layers, strict=True)
    )


def _minus(interval: Interval, values: np.ndarray) -> Interval:
    # Equal numbers subtract exactly; a pad there would make equal networks look different.
    lower, upper = interval.lower - values, interval.upper - values
    return Interval(
        np.where(lower == 0, 0.0, np.nextafter(lower, -np.inf)),
        np.where(upper == 0, 0.0, np.nextafter(upper, np.inf)),
    )
