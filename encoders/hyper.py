"""Hyper-networks: one network whose weights are intervals over a set of members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from leaveout.encoders.interval import Interval
from leaveout.models import Stack

__all__ = ["HyperLayer", "HyperNetwork", "difference", "hyper_network"]


@dataclass(frozen=True, eq=False)
class HyperLayer:
    """One affine map with interval parameters.

    Attributes
    ----------
    weights : mapping of int to Interval, shape (outputs, inputs)
        By source, as in `leaveout.models.Layer`.
    bias : Interval, shape (outputs,)
    """

    weights: Mapping[int, Interval]
    bias: Interval


@dataclass(frozen=True, eq=False)
class HyperNetwork:
    """The smallest interval network that holds every member of a set (LUCID, Definition 5.1).

    Attributes
    ----------
    layers : tuple of HyperLayer
    members : int
        How many networks it abstracts; the parameters of one are points.
    """

    layers: tuple[HyperLayer, ...]
    members: int


def hyper_network(stack: Stack) -> HyperNetwork:
    """Return the hyper-network of all networks in ``stack``."""
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


def difference(hyper: HyperNetwork, network: Stack) -> tuple[HyperLayer, ...]:
    """Return intervals that hold member minus network for every parameter (LUCID, section 6.2)."""
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
