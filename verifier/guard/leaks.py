"""Which inputs of networks leak: by the proved bound of their label, else by asking the members."""

from __future__ import annotations

import numpy as np

from leaveout.bab import Instance
from leaveout.verifier.guard.agreement import Crowd
from leaveout.verifier.guard.bounds import ProvedBounds
from leaveout.verifier.guard.findings import Glance, LeakFinder, Point

__all__ = ["LeakTest"]


class LeakTest(LeakFinder):
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

    def label(self, x: Point) -> int:
        """Return what N answers: the first label with the highest score."""
        scores: list[float] = self._runner.scores(x[None])[0].tolist()
        return scores.index(max(scores))

    def ask_all(self, x: Point) -> None:
        """Ask every member about one input, whatever is proved: the most work one is."""
        self._crowd.dissenter(x, self.label(x), np.arange(len(self._crowd)))

    def glance(self, x: Point) -> Glance:
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

    def leaks(self, x: Point, seen: Glance) -> bool:
        """Ask the members that what is proved leaves."""
        # Not ">=": a confidence that is no number leaves everybody to be asked.
        members = np.flatnonzero(~(self._upper[seen.label] < seen.confidence))
        return self._crowd.dissenter(x, seen.label, members) is not None
