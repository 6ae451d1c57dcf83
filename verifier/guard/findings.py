"""Private facts about one input, and the interface that finds them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Point = NDArray[Any]
"""An input, shape (features,), of the numbers that the model reads: float32 or float64."""


class Finding(NamedTuple):
    """What is known of one input; only the label of a non-leak may be revealed."""

    label: int  # that the model answers
    leak: bool  # whether some member answers otherwise; of networks a tie counts
    tier: int  # 1: the model's own confidence tells; 2: members had to be looked at


class Glance(NamedTuple):
    """What the model alone says of one input."""

    label: int
    confidence: float
    is_clear: bool  # whether that alone shows that all members answer alike


class LeakFinder(ABC):
    """Distinguishes leaks from other inputs exactly; safe to share among threads."""

    @abstractmethod
    def label(self, x: Point) -> int:
        """Return the model's answer: the first label with the highest score."""

    @abstractmethod
    def glance(self, x: Point) -> Glance:
        """Evaluate the model alone."""

    @abstractmethod
    def leaks(self, x: Point, seen: Glance) -> bool:
        """Return whether an input leaks, asking the members a glance leaves."""

    @abstractmethod
    def ask_all(self, x: Point) -> None:
        """Do at least the most work any input needs, whatever is known of it."""

    def glances(self, points: NDArray[Any]) -> list[Glance]:
        """Evaluate the model alone at inputs, shape (n, features), as `glance`."""
        return [self.glance(x) for x in points]

    def leaks_at(self, points: NDArray[Any], seen: Sequence[Glance]) -> NDArray[np.bool_]:
        """Return which inputs leak, shape (n,), each as `leaks` would."""
        found = [self.leaks(x, each) for x, each in zip(points, seen, strict=True)]
        return np.asarray(found, bool)

    def find(self, x: Point) -> Finding:
        """Decide one input."""
        seen = self.glance(x)
        if seen.is_clear:
            return Finding(seen.label, leak=False, tier=1)
        return Finding(seen.label, leak=self.leaks(x, seen), tier=2)

    def find_all(self, points: NDArray[Any]) -> list[Finding]:
        """Decide inputs, shape (n, features)."""
        seen = self.glances(points)
        asked = [at for at, each in enumerate(seen) if not each.is_clear]
        leaks = np.zeros(len(points), bool)
        leaks[asked] = self.leaks_at(points[asked], [seen[at] for at in asked])
        return [
            Finding(each.label, leak=leak, tier=1 if each.is_clear else 2)
            for each, leak in zip(seen, leaks.tolist(), strict=True)
        ]
