"""Leaking inputs of networks, by their label's proved bound or by asking members."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leaveout.bab import Instance
from leaveout.verifier.guard.agreement import Crowd
from leaveout.verifier.guard.bounds import ProvedBounds
from leaveout.verifier.guard.findings import Glance, LeakFinder, Point
from leaveout.verifier.guard.margins import MarginBounds

_TOGETHER = 1024
"""Inputs whose scores are held at once."""

_ROUNDING = 1e-9
"""Relative error, far above it, of a score in float64."""


class LeakTest(LeakFinder):
    """Distinguishes leaks from other inputs of the box exactly."""

    def __init__(self, instance: Instance, bounds: ProvedBounds, *, local: bool = False) -> None:
        self._runner = instance.network.runner()
        self._network = instance.network.stack
        self._crowd = Crowd(instance)
        self._upper = bounds.upper
        self._thresholds: list[float] = bounds.thresholds.tolist()
        scale = float(max(each.magnitude.max() for each in instance.bounds))
        self._error = instance.network_error + _ROUNDING * (1.0 + scale)
        self._margins = (
            MarginBounds(self._crowd.packed_members, instance.box, bounds.upper, self._crowd.error)
            if local
            else None
        )
        if self._margins is not None:
            self._crowd.prepare(self._margins.differences.order)

    def label(self, x: Point) -> int:
        """Return N's answer: the first label with the highest score."""
        scores: list[float] = self._runner.scores(x[None])[0].tolist()
        return scores.index(max(scores))

    def ask_all(self, x: Point) -> None:
        """Bound and evaluate every member at an input: the most work any needs."""
        label = self.label(x)
        self._crowd.suspect(x, label)
        everyone = np.arange(len(self._crowd))
        if self._margins is not None:
            everyone = self._margins.open(x, label, np.inf, everyone=True)
        self._crowd.ask_all(x, label, everyone)

    def glance(self, x: Point) -> Glance:
        """Evaluate N alone."""
        scores: list[float] = self._runner.scores(x[None])[0].tolist()
        best = max(scores)
        label = scores.index(best)
        scores[label] = -np.inf
        confidence = best - max(scores)
        return Glance(label, confidence, confidence > self._thresholds[label])

    def leaks(self, x: Point, seen: Glance) -> bool:
        """Return whether an input leaks, asking the members left by the bounds."""
        if self._crowd.suspect(x, seen.label) is not None:
            return True
        # Not ">=": a confidence that is no number leaves everybody to be asked.
        members = (
            np.flatnonzero(~(self._upper[seen.label] < seen.confidence))
            if self._margins is None
            else self._margins.open(x, seen.label, seen.confidence)
        )
        return self._crowd.dissenter(x, seen.label, members) is not None

    def glances(self, points: NDArray[np.float32]) -> list[Glance]:
        """Evaluate N alone at several inputs, in float64 matrix products.

        Where float32 rounding could decide, N is evaluated as in `glance`, so answers do not depend
        on the batch; a confidence may be too low by the rounding.
        """
        seen: list[Glance] = []
        for start in range(0, len(points), _TOGETHER):
            part = points[start : start + _TOGETHER]
            scores = self._network.scores(part.astype(np.float64))[0]
            labels, rows = scores.argmax(axis=1), np.arange(len(part))
            best = scores[rows, labels]
            scores[rows, labels] = -np.inf
            margins = best - scores.max(axis=1)
            low, high = margins - self._error, margins + self._error
            known = np.asarray(self._thresholds)[labels]
            sure = (low > 0) & ((low > known) | (high <= known))
            found = zip(
                labels.tolist(), low.tolist(), (low > known).tolist(), sure.tolist(), strict=True
            )
            seen += [
                Glance(label, least, clear) if certain else self.glance(x)
                for x, (label, least, clear, certain) in zip(part, found, strict=True)
            ]
        return seen

    def leaks_at(self, points: NDArray[np.float32], seen: Sequence[Glance]) -> NDArray[np.bool_]:
        """See `LeakFinder.leaks_at`."""
        at = np.arange(len(points))
        found = np.zeros(len(points), bool)
        if self._margins is not None and len(points):
            labels = np.asarray([each.label for each in seen], np.int64)
            confidences = np.asarray([each.confidence for each in seen])
            at = np.flatnonzero(self._margins.open_inputs(points, labels, confidences))
        for each in at.tolist():
            found[each] = self.leaks(points[each], seen[each])
        return found
