"""Which inputs leak: by the proved bound of their label, else by asking the members it leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import Instance
from leaveout.verifier.guard.agreement import Crowd
from leaveout.verifier.guard.bounds import ProvedBounds

__all__ = ["Finding", "Glance", "LeakTest"]


class Finding(NamedTuple):
    """What is known of one input. It is private: only its label may be given away, if no leak.

    Attributes
    ----------
    label : int
        That N answers.
    leak : bool
        Whether some member answers otherwise, or ties.
    tier : {1, 2}
        1: the proved bound of the label tells; 2: members had to be asked.
    """

    label: int
    leak: bool
    tier: int


class Glance(NamedTuple):
    """What N says of one input. It is private.

    Attributes
    ----------
    label : int
    confidence : float
    is_clear : bool
        Whether the proved bound alone shows that all members answer alike.
    """

    label: int
    confidence: float
    is_clear: bool


class LeakTest:
    """Tells leaks from other inputs of the box, exactly.

    Parameters
    ----------
    instance : Instance
    bounds : ProvedBounds
        Of this very instance.
    """

    def __init__(self, instance: Instance, bounds: ProvedBounds) -> None:
        self._runner = instance.network.runner()
        self._crowd = Crowd(instance)
        self._upper = bounds.upper
        self._thresholds: list[float] = bounds.thresholds.tolist()

    def network_label(self, x: NDArray[np.float32]) -> int:
        """Return what N answers: the first label with the highest score."""
        scores: list[float] = self._runner.scores(x[None])[0].tolist()
        return scores.index(max(scores))

    def ask_all(self, x: NDArray[np.float32]) -> None:
        """Ask every member about one input, whatever is proved: the most work one is."""
        self._crowd.dissenter(x, self.network_label(x), np.arange(len(self._crowd)))

    def glance(self, x: NDArray[np.float32]) -> Glance:
        """Ask N alone.

        Parameters
        ----------
        x : ndarray of float32, shape (d,)
            In the box.
        """
        scores: list[float] = self._runner.scores(x[None])[0].tolist()
        best = max(scores)
        label = scores.index(best)
        scores[label] = -np.inf
        confidence = best - max(scores)
        return Glance(label, confidence, confidence > self._thresholds[label])

    def leaks(self, x: NDArray[np.float32], seen: Glance) -> bool:
        """Ask the members that what is proved leaves."""
        # Not ">=": a confidence that is no number leaves everybody to be asked.
        members = np.flatnonzero(~(self._upper[seen.label] < seen.confidence))
        return self._crowd.dissenter(x, seen.label, members) is not None

    def find(self, x: NDArray[np.float32]) -> Finding:
        """Decide one input; see `glance`."""
        seen = self.glance(x)
        if seen.is_clear:
            return Finding(seen.label, leak=False, tier=1)
        return Finding(seen.label, leak=self.leaks(x, seen), tier=2)
