"""Schedule of attacks: before bounding, from hints of bounding, and anywhere."""

from __future__ import annotations

import math
import time
from typing import Generic, TypeVar

from leaveout.bab.native.enclosure import Enclosure
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import Finding, Hint, Question
from leaveout.deadline import Deadline

W = TypeVar("W", bound=Finding)

_FIRST = 0.2
"""Share of a search's time that may go into an attack before anything else."""

_FOLLOWING = 0.25
"""Share of the time so far that may go into following hints."""

_START = 0.1
"""Seconds explored before a question that is bounded first is sought in anywhere."""

_SHARE = 0.5
"""Share of the time explored that seeking anywhere may take each time."""

_AGAIN = 3.0
"""Times as long is explored until it may take as much again."""


class Seeking(Generic[W]):
    """Division of a search's time between bounding and attacks, with the finds."""

    def __init__(
        self, question: Question[W], options: NativeOptions, known: Enclosure[W], deadline: Deadline
    ) -> None:
        self._question, self._options, self._known = question, options, known
        self._deadline, self._started = deadline, time.perf_counter()
        self.done = question.seeks_first
        self.explored = self._spent = 0.0
        self._next = _START

    @property
    def first_share(self) -> Deadline:
        """Deadline of an attack before anything else."""
        if self._options.seconds is None:
            return self._deadline
        return Deadline.after(_FIRST * self._options.seconds, self._started)

    def sample(self) -> None:
        """Examine samples alone, which takes no time."""
        self._known.keep(self._question.first(self._options, Deadline.after(0.0)))

    def attack(self, limit: Deadline) -> None:
        """Attack anywhere until a deadline, once."""
        self.done = True
        if not self._known.is_settled:
            self._anywhere(limit)

    def backing_off(self) -> bool:
        """Attack anywhere if due, each time for as long as was explored so far."""
        if self.done or self.explored < self._next:
            return False
        begun = time.perf_counter()
        limit = Deadline.after(min(_SHARE * self.explored, self._deadline.seconds_left))
        self._anywhere(limit)
        self.done = not limit.over
        self._next = _AGAIN * self.explored
        self._spent += time.perf_counter() - begun
        return True

    def follow(self, hints: list[Hint]) -> None:
        """Ascend from the explorers' highest bounds while that has had little time."""
        if self._spent <= _FOLLOWING * (self.explored + self._spent):
            self._ascend(hints, self._known.target)

    def follow_all(self, hints: list[Hint]) -> None:
        """Ascend from all hints without a limit: bounding has nothing left but rounding."""
        self._ascend(hints, self._known.lower)

    def _ascend(self, hints: list[Hint], above: float) -> None:
        begun = time.perf_counter()
        hints = [hint for hint in hints if hint.value > above]
        if hints:
            self._known.keep(self._question.follow(hints, self._known.lower, self._deadline))
        self._spent += time.perf_counter() - begun

    def _anywhere(self, limit: Deadline) -> None:
        asked = self._known.criterion
        # Of a decision any counter-example above the floor will do.
        enough = asked.floor if asked.decide else math.inf
        self._known.keep(self._question.first(self._options, limit, enough))
