"""Members of large families: at every distance from N, and a few that leak barely or not quite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray

from leaveout.models import Network
from leaveout.models.replay import session

__all__ = ["Fed", "Maker", "margins"]

Points = NDArray[np.float32]
Values = dict[str, NDArray[np.float32]]

_STEP = 2.0**-8
"""How far a parameter is moved to see what a margin makes of it."""

_LOST = 0.4999 / 127
"""What a number may be, a unit of the largest of its layer, and be lost in a byte."""

_ASIDE = [*(n * 2.0**-24 for n in range(-4, 5)), -1e-6, 1e-6, -1e-4, -1e-2]
"""How far, relatively, a member is put beside a tie."""


class Fed:
    """A network in onnxruntime that is given its parameters with its inputs.

    Its kernels may be others than those of a network whose parameters are constants, so that what
    it rounds off is not the same.

    Parameters
    ----------
    network : Network
    """

    def __init__(self, network: Network) -> None:
        model, graph = onnx.ModelProto(), network.graph
        model.CopyFrom(network.model)
        for name, value in network.parameters.items():
            kind = onnx.TensorProto.FLOAT
            model.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, value.shape))
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "points"
        del model.graph.output[:]
        given = onnx.helper.make_tensor_value_info(graph.score_tensor, onnx.TensorProto.FLOAT, None)
        model.graph.output.append(given)
        self._session = session(model, network.source)
        self._input, self._output = model.graph.input[0].name, [graph.score_tensor]
        self._shape, self._number = graph.input_shape, bool(graph.number)

    def scores(self, parameters: Values, points: Points) -> NDArray[np.float64]:
        """Scores of a network with these parameters, shape (points, labels)."""
        given = {self._input: points.reshape(-1, *self._shape), **parameters}
        found = self._session.run(self._output, given)[0].reshape(len(points), -1).astype(float)
        return np.concatenate([np.zeros_like(found), found], axis=1) if self._number else found


def margins(scores: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """How far the label of each point is ahead of all others, shape (points,)."""
    at = np.arange(len(scores))
    own, rest = scores[at, labels], scores.copy()
    rest[at, labels] = -np.inf
    return np.asarray(own - rest.max(axis=1))


@dataclass(frozen=True, eq=False)
class Maker:
    """Makes members of N, each of its own random numbers.

    Attributes
    ----------
    own : mapping of str to ndarray of float32
        N's parameters.
    fed : Fed
    focal : ndarray of float32, shape (n, d)
        Inputs at which most members agree with N and a few barely do or do not.
    labels : ndarray of int64, shape (n,)
        N's there.
    reach : float
        About how far members are from N.
    """

    own: Mapping[str, NDArray[np.float32]]
    fed: Fed
    focal: Points
    labels: NDArray[np.int64]
    reach: float

    def around(self, rng: np.random.Generator) -> Values:
        """Draw a member somewhere about N that agrees with it at all focal inputs."""
        if rng.random() < 0.05:
            return dict(self.own)
        way = {n: rng.normal(size=value.shape) for n, value in self.own.items()}
        step = self.reach * 10.0 ** rng.uniform(*([-1, 0] if rng.random() < 0.9 else [-6, 0]))
        found = self._moved(way, step)
        for turn in range(30):
            if self._agreement(found).min() > 0:
                break
            step *= -1.0 if turn % 2 == 0 else 0.7
            found = self._moved(way, step)
        return found

    def barely(self, rng: np.random.Generator) -> Values:
        """Make a member that ties with N's label at a focal input, or as good as does."""
        at = int(rng.integers(len(self.focal)))
        way = _WAYS[rng.integers(len(_WAYS))](self, rng, at)

        def agrees(step: float) -> bool:
            return bool(self._agreement(self._moved(way, step))[at] > 0)

        low, high = 0.0, 1e-6
        while agrees(high):
            low, high = high, 2.0 * high
            if high > 1e3:
                return self.around(rng)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if agrees(middle) else (low, middle)
        return self._moved(way, high * (1.0 + _ASIDE[rng.integers(len(_ASIDE))]))

    def steepest(self, at: int) -> dict[str, NDArray[np.float64]]:
        """Slopes of N's margin at a focal input in all parameters, about."""
        found, own = {}, self._agreement(dict(self.own))[at]
        for name, value in self.own.items():
            slope = np.zeros(value.shape)
            for place in np.ndindex(value.shape):
                moved = value.copy()
                moved[place] += np.float32(_STEP)
                slope[place] = self._agreement({**self.own, name: moved})[at] - own
            found[name] = slope / _STEP
        return found

    def _agreement(self, parameters: Values) -> NDArray[np.float64]:
        return margins(self.fed.scores(parameters, self.focal), self.labels)

    def _moved(self, way: Mapping[str, NDArray[np.float64]], step: float) -> Values:
        found = {}
        for name, value in self.own.items():
            moved = step * way[name]
            if (value > 0).all():
                # Such as deviations, by which others are divided.
                moved = value * np.clip(moved, -0.5, 0.5)
            found[name] = np.asarray(value + moved, np.float32)
        return found


Way = dict[str, NDArray[np.float64]]


def _anywhere(maker: Maker, rng: np.random.Generator, at: int) -> Way:
    return {n: rng.normal(size=value.shape) for n, value in maker.own.items()}


def _last(maker: Maker, rng: np.random.Generator, at: int) -> Way:
    """Change the last parameters alone, such as the last biases."""
    way = {n: np.zeros(value.shape) for n, value in maker.own.items()}
    name = list(way)[-1]
    way[name] = -np.sign(maker.steepest(at)[name])
    return way


def _down(maker: Maker, rng: np.random.Generator, at: int) -> Way:
    """Change everything the way that costs most."""
    return {name: -slope for name, slope in maker.steepest(at).items()}


def _lost(maker: Maker, rng: np.random.Generator, at: int) -> Way:
    """Change one number that matters least a lot, and all others by what a byte then loses."""
    way, even = {}, bool(rng.random() < 0.5)
    for name, slope in maker.steepest(at).items():
        most = np.abs(slope).max()
        share = np.sign(slope) if even else slope / most if most > 0 else np.zeros(slope.shape)
        way[name] = -_LOST * share
        # Downwards: a label behind stays there, and a neuron that is off is off.
        way[name].flat[np.abs(slope).argmin()] = -1.0
    return way


def _grown(maker: Maker, rng: np.random.Generator, at: int) -> Way:
    """Enlarge the last layer, and change what comes before by what a byte loses of it."""
    way, names = _lost(maker, rng, at), list(maker.own)
    last = max(place for place, name in enumerate(names) if maker.own[name].ndim == 2)
    return way | {name: maker.own[name].astype(float) for name in names[last:]}


_WAYS: list[Callable[[Maker, np.random.Generator, int], Way]] = [
    _anywhere,
    _last,
    _down,
    _lost,
    _grown,
]
