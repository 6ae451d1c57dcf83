"""From inputs to answers: safe labels as they are, leaks drawn once and stored."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import GuardError
from leaveout.models.sharded.aggregation import draw_exponential, operating_system
from leaveout.verifier.guard.inputs import Glance, Point, key_of
from leaveout.verifier.guard.memory import FullError, Memory, SpentError, UnusableError
from leaveout.verifier.guard.subject import GuardSettings, Subject

_MOST_SEEDED = 32


def draw_noisy_label(label: int, labels: int, epsilon: float, chance: random.Random) -> int:
    """Draw a label: Pr[c] ~ exp(epsilon * u_c / 2), u = 1 for one label, else 0.

    LUCID, section 3.2: two networks' probabilities differ by a factor of at most exp(epsilon);
    epsilon 0 is uniform.
    """
    return draw_exponential([int(each == label) for each in range(labels)], epsilon, chance)


def randomness(seed: int | None) -> Callable[[bytes], random.Random]:
    """Return the random source per input: the operating system's, unless seeded.

    With a seed it depends on the input only, not on the order.
    """
    if seed is None:
        system = operating_system()
        return lambda _: system
    key = seed.to_bytes(_MOST_SEEDED, "big", signed=True)
    return lambda given: random.Random(hashlib.blake2b(given, key=key, digest_size=32).digest())


REFUSED = -1
"""Stands for a label where an input is refused."""


class Look(NamedTuple):
    """What is known of an input before any draw."""

    label: int  # the answer; or if one is to be drawn, what it is drawn with a preference for
    drawn: bool


class Answering:
    """Answers inputs for any subject with one memory; safe to share among threads."""

    def __init__(self, settings: GuardSettings, memory: Memory, *, moved: bool) -> None:
        self.memory, self.moved = memory, moved
        self.closed: GuardError | None = None
        self._settings = settings
        self._draws = randomness(settings.seed)
        self._close_if_spent()

    def move(self, inputs: str) -> None:
        """Continue with other inputs that may be noised; see `Memory.move`."""
        self.memory.move(inputs)
        self.moved = self.moved or self.memory.inputs != inputs

    def refuse_if_closed(self) -> None:
        """Raise on every input once some can no longer be answered."""
        if self.closed is not None:
            # Were only some inputs refused, it would tell which ones leak.
            raise type(self.closed)(str(self.closed))

    def look(self, subject: Subject, point: Point) -> Look:
        """Inspect an input without drawing."""
        inside = subject.domain.contains(point)
        seen = subject.leaks.glance(point) if inside else None
        look = self._at_once(seen)
        if look is not None:
            return look
        known = self._recall([point])[0]
        if known is not None:
            return Look(known, drawn=False)
        if seen is None:
            return Look(subject.leaks.label(point), drawn=True)
        leaks = not seen.is_clear and subject.leaks.leaks(point, seen)
        return Look(seen.label, drawn=leaks)

    def look_at(self, subject: Subject, points: NDArray[np.floating]) -> list[Look]:
        """Inspect inputs together, each as `look` would; errors give the index."""
        self.refuse_if_closed()
        inside = np.zeros(len(points), bool)
        for at, point in enumerate(points):
            try:
                inside[at] = subject.domain.contains(point)
            except GuardError as error:
                raise GuardError(f"input {at}: {error}") from None
        seen = dict(
            zip(np.flatnonzero(inside).tolist(), subject.leaks.glances(points[inside]), strict=True)
        )
        looks = [self._at_once(seen.get(at)) for at in range(len(points))]
        left = [at for at, look in enumerate(looks) if look is None]
        known = self._recall([points[at] for at in left]) if left else []
        asked = []
        for at, answer in zip(left, known, strict=True):
            if answer is not None:
                looks[at] = Look(answer, drawn=False)
            elif at not in seen:
                looks[at] = Look(subject.leaks.label(points[at]), drawn=True)
            elif seen[at].is_clear:
                looks[at] = Look(seen[at].label, drawn=False)
            else:
                asked.append(at)
        leaks = subject.leaks.leaks_at(points[asked], [seen[at] for at in asked])
        for at, leak in zip(asked, leaks.tolist(), strict=True):
            looks[at] = Look(seen[at].label, drawn=leak)
        return [look for look in looks if look is not None]

    def _at_once(self, seen: Glance | None) -> Look | None:
        """Return what needs neither memory nor members; None outside the box."""
        if seen is None:
            return Look(REFUSED, drawn=False) if self._settings.outside == "refuse" else None
        if seen.is_clear and not self.moved:
            return Look(seen.label, drawn=False)
        return None

    def give(
        self, subject: Subject, points: Sequence[Point] | NDArray[np.floating], looks: list[Look]
    ) -> NDArray[np.int64]:
        """Return answers; drawn ones are on disk by then."""
        found = np.asarray([look.label for look in looks], np.int64)
        drawn = [at for at, look in enumerate(looks) if look.drawn]
        if drawn:
            own = found[drawn].tolist()
            found[drawn] = self._draw_answers([points[at] for at in drawn], own, subject.labels)
        return found

    def _close_if_spent(self) -> None:
        """Close at the start if no further noised answer is affordable."""
        settings, account = self._settings, self.memory.account()
        try:
            account.afford(settings.epsilon, settings.cap, settings.remember, self.memory.path)
        except FullError as error:
            self.closed = error
        except SpentError as error:
            self.closed = error if settings.when_spent == "refuse" else None

    def _recall(self, points: Sequence[Point]) -> list[int | None]:
        """Return the remembered answers to points; None where there is none."""
        try:
            return self.memory.recall([key_of(point) for point in points])
        except UnusableError as error:
            self.closed = error
            raise

    def _draw_answers(self, points: list[Point], own: list[int], labels: int) -> list[int]:
        """Return noised answers, remembered or new, once they are on disk."""
        inputs = [key_of(point) for point in points]

        def draw(at: int, epsilon: float) -> int:
            return draw_noisy_label(own[at], labels, epsilon, self._draws(inputs[at]))

        settings = self._settings
        try:
            return self.memory.answer(
                inputs,
                draw,
                epsilon=settings.epsilon,
                cap=settings.cap,
                uniform=settings.when_spent == "uniform",
                remember=settings.remember,
            )
        except (SpentError, FullError, UnusableError) as error:
            self.closed = error
            raise
