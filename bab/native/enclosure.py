"""Lower and upper bounds of a search's answer."""

from __future__ import annotations

import math
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.native.criterion import Criterion
from leaveout.bab.native.files.saved import Saved
from leaveout.bab.native.question import Finding
from leaveout.bab.result import Reason

Floats = NDArray[np.float64]

W = TypeVar("W", bound=Finding)

_CLOSED, _ENOUGH = 4.0, 2.0
"""How many times what float32 rounding hides still counts as closed, and ends a search."""


class Enclosure(Generic[W]):
    """The best counter-example found, and the bounds proved for all."""

    def __init__(self, criterion: Criterion, *, reported: bool) -> None:
        self.criterion, self._question, self._reported = criterion, criterion.question, reported
        self.witness: W | None = None
        self.contradicted = False
        self.proved, self.cut = math.inf, -math.inf
        self._most = self._question.most
        self.before = np.full(self._question.members, self._most)
        self._near: float | None = None

    @property
    def lower(self) -> float:
        """Value of the best counter-example, or the bound known without one."""
        return self.witness.value if self.witness else self.criterion.least

    @property
    def upper(self) -> float:
        """Upper bound of all counter-examples, as computed in float32."""
        before = math.inf if self._reported else float(self.before.max())
        return max(self.lower, min(self.proved, before))

    @property
    def rounding(self) -> float:
        """How far float32 evaluation may shift a bound."""
        return self._question.rounding if self._near is None else self._near

    @property
    def target(self) -> float:
        """The float32 value that needs no tighter bound."""
        return self.criterion.target(self.lower)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to find out."""
        rounding, cut = _ENOUGH * self.rounding, self.criterion.cut
        return self.criterion.is_met(self.witness, self.upper, rounding, at=cut)

    @property
    def is_exactly_settled(self) -> bool:
        """Whether nothing is left to find out, without allowance for rounding."""
        return self.criterion.is_met(self.witness, self.upper, 0.0, at=self.criterion.cut)

    def is_closed_by(self, upper: float) -> bool:
        """Return whether an upper bound answers the question."""
        rounding, floor = _CLOSED * self.rounding, self.criterion.floor
        return self.criterion.is_met(self.witness, upper, rounding, at=floor)

    def verdict(
        self, upper: float, stopped: tuple[Reason, str] | None
    ) -> tuple[bool, Reason | None, str]:
        """Return whether the question is settled, or else a reason and a sentence."""
        if self.contradicted:
            return (
                False,
                "numerical",
                "a replayed counter-example exceeds a bound; please report this",
            )
        if self.is_closed_by(upper):
            return True, None, ""
        if stopped is not None:
            return False, *stopped
        return False, "numerical", f"float32 rounding may move what is asked by {self.rounding:.2g}"

    def assume(self, before: Floats) -> None:
        """Adopt the bounds proved for each member before."""
        self.before = np.minimum(self.before, before)

    def recall(self, saved: Saved) -> None:
        """Adopt the bounds proved by a resumed search."""
        self.assume(saved.before)
        self.proved, self.cut = saved.proved, saved.cut

    def keep(self, found: W | None) -> None:
        """Record a counter-example."""
        if found is None:
            return
        if found.value > self.before[found.member]:
            # Something proved earlier is wrong; nothing of it is used any more.
            self.contradicted = True
            self.before[:] = self._most
            self.proved = math.inf
        if self.witness is None or found.value > self.witness.value:
            self.witness, self._near = found, self._question.rounding_near(found)

    def prove(self, value: float) -> None:
        """Record a bound that workers prove for all members, which holds from then on."""
        self.cut = max(self.cut, self.target)
        self.proved = min(self.proved, max(value, self.cut))

    def bounds(self, values: Floats) -> tuple[float, Floats]:
        """Return the upper bound of all members, and of each."""
        members = np.minimum(np.minimum(self.before, values), self.proved)
        members = np.maximum(members, self.criterion.least)
        if self.witness is not None and self.witness.value > members[self.witness.member]:
            self.contradicted = True
        if self.contradicted:
            members[:] = max(self._most, self.criterion.least)
        upper = max(self.lower, float(members.max()))
        if self._reported:
            # Workers may know more than they reported in time.
            upper = max(upper, min(self.proved, float(self.before.max())))
        return upper, members
