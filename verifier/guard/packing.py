"""Members in normal form, one row of numbers each, for compiled loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import Instance
from leaveout.models import Layer

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Packed:
    """N and the members, laid out for the kernels."""

    weights: NDArray[np.floating]  # shape (m, numbers of a member)
    biases: NDArray[np.floating]  # shape (m, numbers of a member)
    own_weights: Floats  # shape (numbers of a member,): of N
    own_biases: Floats  # shape (numbers of a member,): of N
    plan: NDArray[np.int64]  # shape (steps, 8): see `kernels.find_leak`
    values: int  # numbers that the input and all layers take

    @property
    def own(self) -> Floats:
        """All numbers of N, biases last, shape (numbers of a member,)."""
        return np.concatenate([self.own_weights, self.own_biases])

    def apart(self, chosen: NDArray[np.int64]) -> Floats:
        """Return chosen members minus N, shape (chosen, numbers of a member)."""
        weights = self.weights.shape[1]
        found = np.empty((len(chosen), weights + self.biases.shape[1]))
        np.subtract(self.weights[chosen], self.own_weights, out=found[:, :weights])
        np.subtract(self.biases[chosen], self.own_biases, out=found[:, weights:])
        return found


def pack(instance: Instance) -> Packed:
    """Lay out a network and its members."""
    layers = instance.network.stack.layers
    starts = [0, instance.network.inputs]
    for layer in layers:
        starts.append(starts[-1] + layer.width)
    plan = []
    weight = bias = 0
    for k, layer in enumerate(layers, start=1):
        sources = sorted(layer.weights)
        for place, source in enumerate(sources):
            inputs = starts[source + 1] - starts[source]
            last = place == len(sources) - 1
            plan.append(
                (weight, starts[source], inputs, starts[k], layer.width,
                 -1 if place else bias, last, k < len(layers))
            )  # fmt: skip
            weight += inputs * layer.width
        bias += layer.width
    count = len(instance.family)
    # Float32 as long as that is what the members are: nothing was folded into them.
    weights: NDArray[np.floating] = np.zeros((count, weight), np.float32)
    biases: NDArray[np.floating] = np.zeros((count, bias), np.float32)
    for chosen, stack in instance.members.chunks():
        flat = np.concatenate([_flat(layer) for layer in stack.layers], axis=1)
        shifts = np.concatenate([layer.bias for layer in stack.layers], axis=1)
        if weights.dtype == np.float32 and not (_is_single(flat) and _is_single(shifts)):
            weights, biases = weights.astype(np.float64), biases.astype(np.float64)
        weights[chosen], biases[chosen] = flat, shifts
    return Packed(
        weights,
        biases,
        np.concatenate([_flat(layer)[0] for layer in layers]),
        np.concatenate([layer.bias[0] for layer in layers]),
        np.asarray(plan, np.int64),
        starts[-1],
    )


def _flat(layer: Layer) -> Floats:
    return np.concatenate(
        [
            layer.weights[source].transpose(0, 2, 1).reshape(len(layer.bias), -1)
            for source in sorted(layer.weights)
        ],
        axis=1,
    )


def _is_single(values: Floats) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(values, values.astype(np.float32)))
