"""What a search is asked for, and when its bounds are an answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from leaveout.bab.native.quest import Finding, Quest

__all__ = ["Criterion", "shown"]

_BOUNDLESS = -1e300
"""No goal is below this: coefficients and scores are far smaller."""

_BLURRED = 0.01
"""Largest relative gap that is put down to float32 evaluation and still called closed."""


@dataclass(frozen=True, eq=False)
class Criterion:
    """Says when the bounds of a question suffice.

    Attributes
    ----------
    quest : Quest
    floor : float
        Counter-examples of at most this value do not matter.
    decide : bool
        Whether one above the floor is all that is asked for.
    gap : float
        Relative gap at which bounds agree.
    """

    quest: Quest[Any]
    floor: float
    decide: bool
    gap: float

    def target(self, lower: float) -> float:
        """Return the value, as computed in float32, that need not be bounded any further."""
        if self.decide:
            return max(self.floor, _BOUNDLESS)
        # A hair below, so that a bound by the target does agree with the lower one.
        enough = self.quest.enough(lower, self.gap)
        return max(self.floor, enough - 1e-12 * abs(enough), _BOUNDLESS)

    def is_met(self, found: Finding | None, upper: float, blur: float) -> bool:
        """Whether the question is answered: nothing is left to find, or the bounds agree.

        Parameters
        ----------
        found : Finding or None
            The best counter-example.
        upper : float
        blur : float
            Bounds so close agree: what float32 evaluation may shift them by.
        """
        if upper <= max(self.floor, self.quest.least, _BOUNDLESS):
            return True
        if found is None:
            return False
        if self.decide:
            return found.value > self.floor
        if math.isinf(upper):
            return False
        enough = self.quest.enough(found.value, self.gap)
        return upper <= enough or upper - found.value <= min(_BLURRED * abs(upper), blur)


def shown(upper: float) -> float:
    """Return an upper bound; minus infinity where it says that there is nothing at all."""
    return upper if upper > _BOUNDLESS else -math.inf
