"""Do all members answer an input alike? Decided as onnxruntime would, mostly without asking it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import Instance
from leaveout.encoders import Box, Interval, rounding_error
from leaveout.models import Layer, confidence
from leaveout.verifier.guard.kernels import find_leak

__all__ = ["Crowd"]

_SUSPECTS = 8
"""Members that disagreed last, which are asked first: few members leak in many places."""

_BLOCK = 32
"""Inputs whose scores of many members are held at once."""

_ROUNDING = 1e-9
"""Relative error, far above it, of a sum in float64; what float32 loses is 1e8 times as much."""

_SPARE = 1e-6
"""Share added to what float32 may lose, for what float64 loses."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Packed:
    """The members, laid out for the kernel.

    Attributes
    ----------
    weights, biases : ndarray, shape (m, numbers of a member)
        As float32 where that is what they are, which halves what has to be read.
    plan : ndarray of int64, shape (steps, 8)
    values : int
        Numbers that the input and all layers take.
    """

    weights: NDArray[np.floating]
    biases: NDArray[np.floating]
    plan: NDArray[np.int64]
    values: int


class Crowd:
    """All members of a family, to be asked whether they agree about one input.

    Answers are those of onnxruntime in float32: a member whose exact margin is within what float32
    may round off is replayed.

    Parameters
    ----------
    instance : Instance
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._packed = _pack(instance)
        self._labels = instance.labels
        self._evaluation = instance.others.evaluation()
        scale = float(instance.pair.hyper[-1].magnitude.max())
        self._margin = instance.member_error * (1.0 + _SPARE) + _ROUNDING * (1.0 + scale)
        self._suspects: dict[int, tuple[int, ...]] = {}
        self._loading = Lock()

    def __len__(self) -> int:
        return len(self._instance.family)

    def dissenter(
        self, x: NDArray[np.float32], label: int, members: NDArray[np.int64]
    ) -> int | None:
        """Return a member that does not answer an input with a label, or ties; None if all do.

        Parameters
        ----------
        x : ndarray of float32, shape (d,)
            In the box.
        label : int
        members : ndarray of int64
            Those to ask.
        """
        suspects = self._suspects.get(label, ())
        if suspects:
            found, _ = self._asked(x, label, np.asarray(suspects, np.int64))
            if found >= 0:
                return found
        found, close = self._asked(x, label, members)
        if found < 0:
            return next(self._close_dissenters(x, label, close), None)
        self._suspects[label] = (found, *suspects)[:_SUSPECTS]
        return found

    def dissenters(
        self, x: NDArray[np.float32], labels: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Return, of each input, all members that do not answer it with its label, or tie.

        All are evaluated, in products of matrices; those close to a tie are decided as ever.

        Parameters
        ----------
        x : ndarray of float32, shape (n, d)
            In the box.
        labels : ndarray of int64, shape (n,)
        """
        points = x.astype(np.float64)
        apart: list[list[int]] = [[] for _ in points]
        for chosen, stack in self._instance.members.chunks():
            for start in range(0, len(points), _BLOCK):
                own = labels[start : start + _BLOCK]
                margin = _margins(stack.scores(points[start : start + _BLOCK]), own)
                sure = margin < -self._margin
                # Not "<=": what is no number is close, too.
                close = ~(sure | (margin > self._margin))
                for at in np.flatnonzero(sure.any(axis=0) | close.any(axis=0)).tolist():
                    here = start + at
                    undecided = chosen[close[:, at]]
                    apart[here] += chosen[sure[:, at]].tolist()
                    apart[here] += self._close_dissenters(x[here], int(own[at]), undecided)
        return [np.sort(np.asarray(each, np.int64)) for each in apart]

    def _asked(
        self, x: NDArray[np.float32], label: int, members: NDArray[np.int64]
    ) -> tuple[int, NDArray[np.int64]]:
        """Return the first member that disagrees for sure, or -1, and those that are close."""
        packed = self._packed
        close = np.empty(len(members), np.int64)
        room = np.empty(packed.values)
        found, undecided = find_leak(
            packed.weights, packed.biases, packed.plan, self._labels, room,
            x, label, members, self._margin, close,
        )  # fmt: skip
        return int(found), close[:undecided]

    def _close_dissenters(
        self, x: NDArray[np.float32], label: int, members: NDArray[np.int64]
    ) -> Iterator[int]:
        """Decide members that are close to a tie: by a bound at this very input, then by replay.

        Those that answer otherwise come, the surest first.
        """
        if not len(members):
            return
        stack = self._instance.members.take(members)
        activations = stack.activations(x[None].astype(np.float64))
        margin = confidence(activations[-1][:, 0], label)
        rounding = self._rounding(x, activations)
        for at in np.argsort(margin, kind="stable").tolist():
            member = int(members[at])
            if margin[at] > rounding:
                return
            if margin[at] < -rounding:
                yield member
                continue
            with self._loading:
                runner = self._instance.others.runner(member)
            scores = runner.scores(x[None])[0].astype(np.float64)
            if not float(confidence(scores, label)) > 0:
                yield member

    def _rounding(self, x: NDArray[np.float32], activations: list[Floats]) -> float:
        """Bound what float32 may do to a margin of these members at this input."""
        bounds = []
        for layer in activations:
            padding = _ROUNDING * (1.0 + np.abs(layer).max())
            low, high = layer.min(axis=(0, 1)) - padding, layer.max(axis=(0, 1)) + padding
            bounds.append(Interval(low, high))
        at = x.astype(np.float64)
        local = rounding_error(
            self._instance.others.evaluation(), bounds, Box(at, at)
        ).of_confidence()
        scale = max(float(np.abs(layer).max()) for layer in activations)
        return min(local * (1.0 + _SPARE) + _ROUNDING * (1.0 + scale), self._margin)


def _margins(scores: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return confidences of a label a point, shape (m, p), of scores of shape (m, p, labels)."""
    points = np.arange(len(labels))
    own = scores[:, points, labels]
    rest = scores.copy()
    rest[:, points, labels] = -np.inf
    return np.asarray(own - rest.max(axis=2))


def _pack(instance: Instance) -> _Packed:
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
    kind = np.float32 if _single(instance) else np.float64
    weights: NDArray[np.floating] = np.empty((count, weight), kind)
    biases: NDArray[np.floating] = np.empty((count, bias), kind)
    for chosen, stack in instance.members.chunks():
        weights[chosen] = np.concatenate([_flat(layer) for layer in stack.layers], axis=1)
        biases[chosen] = np.concatenate([layer.bias for layer in stack.layers], axis=1)
    return _Packed(weights, biases, np.asarray(plan, np.int64), starts[-1])


def _flat(layer: Layer) -> Floats:
    return np.concatenate(
        [
            layer.weights[source].transpose(0, 2, 1).reshape(len(layer.bias), -1)
            for source in sorted(layer.weights)
        ],
        axis=1,
    )


def _single(instance: Instance) -> bool:
    """Whether the members in normal form are float32 numbers: nothing was folded into them."""
    return all(
        _is_single(layer.bias) and all(map(_is_single, layer.weights.values()))
        for _, stack in instance.members.chunks()
        for layer in stack.layers
    )


def _is_single(values: Floats) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(values, values.astype(np.float32)))
