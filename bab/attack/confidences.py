"""Confidences and gradients of many (point, network) pairs, by batched products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.smooth import Kinds
from leaveout.models import Stack
from leaveout.models.activations import activate, bend
from leaveout.models.matrices import Matrices, Sparse

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Nets:
    """Networks laid out for batched products."""

    weights: tuple[Mapping[int, Matrices], ...]  # shape (m, inputs, outputs)
    biases: tuple[Floats, ...]  # shape (m, 1, outputs)
    kinds: tuple[Kinds | None, ...]  # as in `leaveout.models.graph.Layer`

    @staticmethod
    def of(stack: Stack, dtype: type[np.floating[Any]] = np.float64) -> Nets:
        """Lay out a stack."""
        return Nets(
            tuple(
                {
                    s: w.transpose().astype(dtype)
                    if isinstance(w, Sparse)
                    else np.ascontiguousarray(w.transpose(0, 2, 1), dtype=dtype)
                    for s, w in layer.weights.items()
                }
                for layer in stack.layers
            ),
            tuple(layer.bias[:, None, :].astype(dtype) for layer in stack.layers),
            tuple(layer.kinds for layer in stack.layers),
        )

    def __len__(self) -> int:
        return len(self.biases[0])

    @property
    def dtype(self) -> np.dtype[np.floating[Any]]:
        """The type of the weights, and so of all that is computed."""
        return self.biases[0].dtype

    def take(self, chosen: NDArray[np.int64]) -> Nets:
        """Return some of the networks in the given order, with repetition."""
        return Nets(
            tuple({s: w[chosen] for s, w in layer.items()} for layer in self.weights),
            tuple(b[chosen] for b in self.biases),
            self.kinds,
        )

    def part(self, start: int, stop: int) -> Nets:
        """Return a range of the networks without copying."""
        return Nets(
            tuple({s: w[start:stop] for s, w in layer.items()} for layer in self.weights),
            tuple(b[start:stop] for b in self.biases),
            self.kinds,
        )

    def activations(self, points: Floats) -> list[Floats]:
        """Return the pre-activations of all layers at points, shape (m or 1, p, d)."""
        sources, values = [points], []
        for layer, bias, kinds in zip(self.weights, self.biases, self.kinds, strict=True):
            value = _affine(layer, bias, sources)
            values.append(value)
            sources.append(activate(value, kinds))
        return values


@dataclass(frozen=True, eq=False)
class Sloped:
    """Values and their gradients."""

    value: Floats  # shape (m, p)
    slope: Floats  # shape (m, p, d)


def margins(scores: Floats, label: int) -> Floats:
    """Return the score of ``label`` minus the best other one, over the last axis."""
    if scores.shape[-1] == 2:
        return np.asarray(scores[..., label] - scores[..., 1 - label])
    before = scores[..., :label].max(axis=-1, initial=-np.inf)
    after = scores[..., label + 1 :].max(axis=-1, initial=-np.inf)
    return np.asarray(scores[..., label] - np.maximum(before, after))


def evaluate(
    nets: Nets, points: Floats, label: int, widths: tuple[float, ...] | None = None
) -> Sloped:
    """Return each network's confidence in ``label`` and its gradient at its points."""
    passed = ForwardPass.through(nets, points, widths)
    last = 0.0 if widths is None else widths[-1]
    margin, top = _margin(passed.scores, label, last)
    return Sloped(margin, passed.slopes(top))


@dataclass(frozen=True, eq=False)
class ForwardPass:
    """Networks evaluated at points, stored for computing slopes."""

    nets: Nets
    scores: Floats  # shape (m, p, scores)
    gates: list[Floats]  # slopes of the ReLUs of each hidden layer
    shape: tuple[int, ...]  # of the points

    @staticmethod
    def through(nets: Nets, points: Floats, widths: tuple[float, ...] | None = None) -> ForwardPass:
        """Evaluate networks; arguments as in `evaluate`."""
        shape = points.shape
        if len(nets) == 1:
            points = points.reshape(1, -1, shape[-1])
        last = len(nets.biases) - 1
        rounding = (0.0,) * (last + 1) if widths is None else widths
        sources, gates = [points], []
        for k in range(last):
            value = _affine(nets.weights[k], nets.biases[k], sources)
            gate, output = _relu(value, rounding[k])
            bend(value, nets.kinds[k], output, gate)
            gates.append(gate)
            sources.append(output)
        scores = _affine(nets.weights[last], nets.biases[last], sources)
        return ForwardPass(nets, scores.reshape(*shape[:-1], scores.shape[-1]), gates, shape)

    def slopes(self, top: Floats) -> Floats:
        """Return the slopes of linear functions of the scores, shape (m, p, d)."""
        last, weights = len(self.gates), self.nets.weights
        if len(self.nets) == 1:
            top = top.reshape(1, -1, top.shape[-1])
        # By source: 0 is the input, k the output of layer k.
        back: dict[int, Floats] = {last + 1: top}
        for k in range(last, -1, -1):
            if k + 1 not in back:
                continue
            down = back[k + 1] if k == last else back[k + 1] * self.gates[k]
            for s, w in weights[k].items():
                part = down @ w.transpose(0, 2, 1)
                back[s] = back[s] + part if s in back else part
        if 0 not in back:
            return np.zeros(self.shape, top.dtype)
        return np.asarray(back[0].reshape(self.shape))


def _affine(layer: Mapping[int, Matrices], bias: Floats, sources: list[Floats]) -> Floats:
    parts = [sources[s] @ w for s, w in layer.items()]
    if not parts:
        shape = np.broadcast_shapes(sources[0].shape[:-1], bias.shape[:-1])
        return np.broadcast_to(bias, (*shape, bias.shape[-1])).copy()
    value = parts[0]
    for part in parts[1:]:
        value += part
    value += bias
    return value


def _relu(value: Floats, width: float) -> tuple[Floats, Floats]:
    """Return slope and value of the ReLU, a parabola within ``width`` of 0."""
    if width == 0:
        gate = (value > 0).astype(value.dtype)
        return gate, value * gate
    gate = np.clip(value * (0.5 / width) + 0.5, 0, 1)
    return gate, gate * (value + width * (1 - gate))


def _margin(scores: Floats, label: int, width: float) -> tuple[Floats, Floats]:
    """Return the margin of ``label`` over its rivals, and its slope in the scores."""
    slope = np.zeros_like(scores)
    slope[..., label] = 1
    if scores.shape[-1] == 2:
        slope[..., 1 - label] = -1
        return margins(scores, label), slope
    rivals = scores.copy()
    rivals[..., label] = -np.inf
    best = rivals.max(axis=-1, keepdims=True)
    if width == 0:
        np.put_along_axis(slope, rivals.argmax(axis=-1)[..., None], -1, axis=-1)
    else:
        weight = np.exp((rivals - best) / width)
        total = weight.sum(axis=-1, keepdims=True)
        slope -= weight / total
        best = best + width * np.log(total)
    return np.asarray(scores[..., label] - best[..., 0]), slope


Doubles = NDArray[np.float64]

_NUMBERS = 2**22  # largest Jacobian of one layer that is held at once, in numbers


def jacobians(network: Stack, points: Doubles) -> tuple[Doubles, Doubles]:
    """Return the scores and Jacobians of one network at many points, shape (p, labels, inputs)."""
    labels = network.labels
    widest = max(points.shape[1], *(layer.width for layer in network.layers))
    chunk = max(1, _NUMBERS // (widest * labels))
    if len(points) > chunk:
        parts = [jacobians(network, points[i : i + chunk]) for i in range(0, len(points), chunk)]
        return np.concatenate([s for s, _ in parts]), np.concatenate([j for _, j in parts])
    count, values, gates = len(points), [points], list[Doubles]()
    for layer in network.layers:
        value = layer.bias[0] + sum(values[s] @ w[0].T for s, w in layer.weights.items())
        gates.append((value > 0).astype(np.float64))
        values.append(np.maximum(value, 0.0))
        bend(value, layer.kinds, values[-1], gates[-1])
    slopes = {len(gates): np.broadcast_to(np.eye(labels), (count, labels, labels))}
    for k in range(len(gates) - 1, -1, -1):
        down = slopes.pop(k + 1)
        if k < len(gates) - 1:
            down = down * gates[k][:, None]
        for s, w in network.layers[k].weights.items():
            part = (down.reshape(count * labels, -1) @ w[0]).reshape(count, labels, -1)
            slopes[s] = slopes[s] + part if s in slopes else part
    return np.asarray(value), slopes.get(0, np.zeros((count, labels, points.shape[1])))
