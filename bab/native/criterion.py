"""The goal of a search, and when bounds reach it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from leaveout.bab.native.question import NOTHING, Finding, Question

_ROUNDED = 0.01
"""Largest relative gap that is put down to float32 evaluation and still called closed."""


@dataclass(frozen=True, eq=False)
class Criterion:
    """Condition on which the bounds of a question suffice."""

    question: Question[Any]
    floor: float  # counter-examples of at most this value do not matter
    decide: bool  # whether one above the floor is all that is asked for
    gap: float  # relative gap at which bounds agree
    room: float = 0.0

    @property
    def cut(self) -> float:
        """Bound below which nothing needs tightening, whatever else is found."""
        return max(self.floor - (self.room if self.decide else 0.0), NOTHING)

    @property
    def least(self) -> float:
        """Lower bound known without a counter-example.

        That none is below 0, say, is no answer where those of 0 are asked for.
        """
        return min(self.question.least, self.cut) if self.decide else self.question.least

    def target(self, lower: float) -> float:
        """Return the float32 value that needs no tighter bound."""
        if self.decide:
            return self.cut
        # A hair below, so that a bound by the target does agree with the lower one.
        enough = self.question.enough(lower, self.gap)
        return max(self.cut, enough - 1e-12 * abs(enough))

    def is_met(self, found: Finding | None, upper: float, rounding: float, *, at: float) -> bool:
        """Return whether nothing is left to find, or the bounds agree."""
        if upper <= max(at, self.least, NOTHING):
            return True
        if found is None:
            return False
        if self.decide:
            return found.value > self.floor
        if math.isinf(upper):
            return False
        enough = self.question.enough(found.value, self.gap)
        return upper <= enough or upper - found.value <= min(_ROUNDED * abs(upper), rounding)


def displayed_upper(upper: float) -> float:
    """Return an upper bound, or minus infinity if no counter-example exists at all."""
    return upper if upper > NOTHING else -math.inf
