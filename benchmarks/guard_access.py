"""Label-only access as the paper compares it: bare, noised, every member asked, a threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from leaveout.models import Family, Network, confidence
from leaveout.models.replay import with_parameters

__all__ = [
    "Access",
    "Asked",
    "Bare",
    "Mechanism",
    "NaiveNoise",
    "Session",
    "Stacked",
    "Threshold",
    "chance",
    "key_of",
]

Point = NDArray[np.float32]
Mask = NDArray[np.bool_]

_FEW = 256


class Access(Protocol):
    """Answers one input at a time."""

    def label(self, x: Point) -> int:
        """Answer an input of shape (d,)."""
        ...


def chance(epsilon: float, labels: int) -> float:
    """Return how likely the exponential mechanism is to answer N's label (section 3.3)."""
    return math.exp(epsilon / 2) / (math.exp(epsilon / 2) + labels - 1)


def key_of(x: Point) -> bytes:
    """Return what tells inputs apart; -0 and 0 are one number to a network."""
    return (x + np.float32(0)).tobytes()


class Session:
    """A network, or a member where parameters are given, in onnxruntime on one thread."""

    def __init__(self, network: Network, family: Family | None = None, member: int = 0) -> None:
        model = network.model
        if family is not None:
            own = {name: stack[0] for name, stack in family.take([member]).items()}
            model = with_parameters(model, own)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._input = self._session.get_inputs()[0].name
        # Named, not left to onnxruntime to list: no slower than a program made for speed.
        self._output = [self._session.get_outputs()[0].name]

    def scores(self, points: Point) -> NDArray[np.float32]:
        """Return the scores of points of shape (p, d)."""
        found: NDArray[np.float32] = self._session.run(self._output, {self._input: points})[0]
        return found

    def scores_of_many(self, points: Point) -> NDArray[np.float32]:
        """Return the same, computed a few points at a time: a session keeps the room it took."""
        parts = range(0, len(points), _FEW)
        return np.concatenate([self.scores(points[at : at + _FEW]) for at in parts])


class Bare:
    """No protection."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def label(self, x: Point) -> int:
        """Answer what scores most."""
        return int(self._session.scores(x[None])[0].argmax())


class Mechanism:
    """The exponential mechanism with a memory of what it answered."""

    def __init__(self, epsilon: float, labels: int, seed: int) -> None:
        self._own, self._labels = chance(epsilon, labels), labels
        self._random = np.random.default_rng(seed)
        self._answers: dict[bytes, int] = {}

    def remembered(self, x: Point) -> int | None:
        """Return what was answered before."""
        return self._answers.get(key_of(x))

    def draw(self, x: Point, label: int) -> int:
        """Draw an answer, and remember it."""
        answer = label
        if self._random.random() >= self._own:
            answer = (label + int(self._random.integers(1, self._labels))) % self._labels
        self._answers[key_of(x)] = answer
        return answer


class NaiveNoise:
    """Noise on every answer."""

    def __init__(self, session: Session, mechanism: Mechanism) -> None:
        self._session, self._mechanism = session, mechanism

    def label(self, x: Point) -> int:
        """Answer with noise."""
        known = self._mechanism.remembered(x)
        if known is not None:
            return known
        return self._mechanism.draw(x, int(self._session.scores(x[None])[0].argmax()))


class Threshold:
    """The paper's guard (Algorithm 2): noise where confidence is at most the bound of the label.

    Parameters
    ----------
    bounds : sequence of float
        A label each.
    lower, upper : ndarray of float64, shape (d,)
        The box that the bounds hold in; what is outside it is noised, too.
    """

    def __init__(
        self,
        session: Session,
        mechanism: Mechanism,
        bounds: Sequence[float],
        lower: NDArray[np.float64],
        upper: NDArray[np.float64],
    ) -> None:
        self._session, self._mechanism = session, mechanism
        self._bounds, self._lower, self._upper = bounds, lower, upper

    def label(self, x: Point) -> int:
        """Answer, with noise where the bound does not rule a leak out."""
        known = self._mechanism.remembered(x)
        if known is not None:
            return known
        scores = self._session.scores(x[None])[0]
        label = int(scores.argmax())
        margin = float(scores[label]) - float(np.delete(scores, label).max())
        inside = bool(((x >= self._lower) & (x <= self._upper)).all())
        if inside and margin > self._bounds[label]:
            return label
        return self._mechanism.draw(x, label)


class Asked:
    """The paper's exact baseline: every member is asked, each in a session of its own, in turn."""

    def __init__(self, session: Session, members: Sequence[Session], mechanism: Mechanism) -> None:
        self._session, self._members, self._mechanism = session, members, mechanism

    def label(self, x: Point) -> int:
        """Answer, with noise where a member answers otherwise or ties."""
        known = self._mechanism.remembered(x)
        if known is not None:
            return known
        batch = x[None]
        label = int(self._session.scores(batch)[0].argmax())
        scores = np.concatenate([member.scores(batch) for member in self._members])
        if (confidence(scores.astype(np.float64), label) > 0).all():
            return label
        return self._mechanism.draw(x, label)


class Stacked:
    """The same with all members in one batched float32 product a layer."""

    def __init__(self, session: Session, family: Family, mechanism: Mechanism) -> None:
        self._session, self._mechanism = session, mechanism
        parameters = family.parameters
        self._layers = [
            (
                np.ascontiguousarray(parameters[f"layers.{i}.weight"].transpose(0, 2, 1)),
                np.ascontiguousarray(parameters[f"layers.{i}.bias"][:, None, :]),
            )
            for i in range(len(parameters) // 2)
        ]

    def label(self, x: Point) -> int:
        """Answer, with noise where a member answers otherwise or ties."""
        known = self._mechanism.remembered(x)
        if known is not None:
            return known
        label = int(self._session.scores(x[None])[0].argmax())
        if (confidence(self.scores(x).astype(np.float64), label) > 0).all():
            return label
        return self._mechanism.draw(x, label)

    def scores(self, x: Point) -> NDArray[np.float32]:
        """Return the scores of all members, shape (m, labels)."""
        value = np.broadcast_to(x, (len(self._layers[0][0]), 1, len(x)))
        for i, (weight, bias) in enumerate(self._layers):
            value = (np.maximum(value, 0) if i else value) @ weight + bias
        return value[:, 0]
