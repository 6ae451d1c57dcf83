"""Bound one case from above by exploring, from below by seeking; best first, at any time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.linear.gauge import Gauge
from leaveout.bab.linear.question import Question
from leaveout.bab.linear.seek import Found, Seeker
from leaveout.bab.linear.space import pair_space
from leaveout.bab.native.explorer import Explorer, Stand
from leaveout.bab.native.kernels import make_kernel
from leaveout.bab.native.nodes import Node, root_node
from leaveout.bab.native.race import Race

__all__ = ["LinearOptions", "LinearResult", "maximise"]

Floats = NDArray[np.float64]

_ROUND = 0.5

_SAME = 1e-9
"""Bounds so close are equal, also where both are about 0."""

_HINTS = 6
_SEEKING = 0.3
"""Share of the time that may go into following hints."""

_NOTHING = -1e300
"""No goal is below this: coefficients and scores are far smaller (`question_of`)."""

LinearProgress = Callable[[float, float, int, float], None]
"""Called with lower, upper, open nodes and seconds."""


@dataclass(frozen=True)
class LinearOptions:
    """How to search.

    Attributes
    ----------
    seconds : float or None
    gap : float
        Relative gap at which bounds count as closed.
    steps : int
        Of the dual ascent of one node.
    seed : int
    nodes : int or None
        Nodes after which a search ends, once the round they fall in is over; None for no limit.
        What so many prove does not depend on how fast the machine is.
    """

    seconds: float | None = None
    gap: float = 1e-3
    steps: int = 40
    seed: int = 0
    nodes: int | None = None


@dataclass(frozen=True, eq=False)
class LinearResult:
    """What is known of a case.

    Attributes
    ----------
    lower : float
        The least goal at a replayed counter-example; minus infinity if none was found.
    upper : float
        No counter-example has a larger least goal; minus infinity if there is none at all.
    found : Found or None
        The counter-example.
    closed : bool
        Whether the question is settled.
    reason : str or None
        Why not: ``time`` or ``numerical``.
    nodes : int
    seconds : float
    interrupted : bool
    """

    lower: float
    upper: float
    found: Found | None
    closed: bool
    reason: str | None
    nodes: int
    seconds: float
    interrupted: bool = False


def maximise(
    question: Question,
    options: LinearOptions,
    *,
    decide: float | None = None,
    known: float | None = None,
    progress: LinearProgress | None = None,
) -> LinearResult:
    """Bound the largest least goal over the counter-examples of a case.

    Parameters
    ----------
    question : Question
    options : LinearOptions
    decide : float, optional
        Only whether one has a goal of at least so much is asked: the search ends with the first,
        or when there is none.
    known : float, optional
        Goal of a counter-example to another case: lower ones do not matter.
    progress : callable, optional
    """
    return _Search(question, options, decide, known, progress).run()


class _Search:
    def __init__(
        self,
        question: Question,
        options: LinearOptions,
        decide: float | None,
        known: float | None,
        progress: LinearProgress | None,
    ) -> None:
        self.question, self.options, self.decide = question, options, decide
        self.known = -math.inf if known is None else known
        self.progress = progress
        self.started = time.perf_counter()
        self.deadline = math.inf if options.seconds is None else self.started + options.seconds
        self.seeker = Seeker(question, seed=options.seed)
        self.found: Found | None = None
        self.upper, self.met = math.inf, -math.inf
        self.seeking = 0.0
        self.interrupted = False
        self.space = space = pair_space(
            question.joint.first, question.joint.second, question.joint.box
        )
        self.forms = question.forms.over(space.numbers, space.origin, space.lower, space.upper)
        self.explorer = Explorer(
            space,
            None,
            make_kernel("cpu"),
            self.forms,
            steps=options.steps,
            seed=options.seed,
            gauge=Gauge(question, self.space),
        )
        # Tied phases cover every way to pass a difference for one form of it, not for several.
        self.may_tie = not question.joint.is_pair or int(self.forms.touching.sum()) <= 1
        self.explorer.brancher.ties = self.may_tie
        self.race = Race() if self.may_tie else None

    @property
    def lower(self) -> float:
        """Goal of the counter-example found here."""
        return self.found.value if self.found is not None else -math.inf

    @property
    def floor(self) -> float:
        """Goal of the best counter-example known anywhere."""
        return max(self.lower, self.known)

    @property
    def target(self) -> float:
        """Value that need not be bounded any further."""
        if self.decide is not None:
            # A value of exactly what is asked is a counter-example, or may be.
            return math.nextafter(self.decide, -math.inf)
        floor = self.floor
        if math.isinf(floor):
            return floor
        return floor + max(_SAME, self.options.gap * abs(floor)) * (1.0 - 1e-9)

    def run(self) -> LinearResult:
        try:
            self._search()
        except KeyboardInterrupt:
            self.interrupted = True
        closed, reason = self._verdict()
        return LinearResult(
            self.lower,
            math.inf if self._betrayed else self.upper,
            self.found,
            closed,
            reason,
            self.explorer.bounded,
            time.perf_counter() - self.started,
            self.interrupted,
        )

    def _search(self) -> None:
        # The root first: often it settles the question, and always it gives a bound.
        self.explorer.start([self._root()], self._cut())
        self._prove()
        self._tell()
        if not self._over():
            limit = min(self.deadline, time.perf_counter() + self._first_share())
            self._keep(self.seeker.first(limit))
            self._tell()
        if not np.isfinite(self.question.forms.errors).all():
            # Scores may overflow float32: nothing bounds them, in whatever part of the box.
            return
        while not self._over():
            seconds = min(_ROUND, max(0.0, self.deadline - time.perf_counter()))
            self._step(seconds)
            self._prove()
            self._follow()
            self._tell()

    def _tell(self) -> None:
        if self.progress is not None:
            passed = time.perf_counter() - self.started
            open_nodes = self.explorer.stand(self._cut()).open_nodes
            self.progress(self.lower, self.upper, open_nodes, passed)

    def _first_share(self) -> float:
        return 3.0 if self.options.seconds is None else 0.1 * self.options.seconds

    def _root(self) -> Node:
        return root_node(self.space, self.forms, np.zeros(1, np.int64), 0, self.explorer.name())

    def _cut(self) -> float:
        """Return what the explorer need not look at: nothing, without a counter-example."""
        return max(self.target, _NOTHING)

    def _step(self, seconds: float) -> Stand:
        if self.race is not None:
            return self.race.step(self.explorer, self._cut(), seconds)
        return self.explorer.step(self._cut(), seconds)

    def _prove(self) -> None:
        value = self.explorer.value
        self.met = max(self.met, self.target)
        self.upper = min(self.upper, max(value, self.met))

    def _follow(self) -> None:
        passed = time.perf_counter() - self.started
        if self._over() or self.seeking > _SEEKING * passed:
            return
        begun = time.perf_counter()
        nodes = self.explorer.urgent(_HINTS)
        if nodes:
            middles = np.stack([(node.lower + node.upper) / 2 for node in nodes])
            self._keep(self.seeker.climb(middles + self.space.origin, self.deadline))
        self.seeking += time.perf_counter() - begun

    def _keep(self, found: Found | None) -> None:
        if found is not None and found.value > self.lower:
            self.found = found

    def _settled(self) -> bool:
        if self.decide is not None:
            return self.lower >= self.decide or self.upper < self.decide
        if math.isinf(self.floor):
            return self.upper == -math.inf
        return self.upper - self.floor <= max(_SAME, self.options.gap * abs(self.floor))

    @property
    def _late(self) -> bool:
        nodes = self.options.nodes
        spent = nodes is not None and self.explorer.bounded >= nodes
        return spent or time.perf_counter() >= self.deadline

    def _over(self) -> bool:
        return self._late or self._settled() or not self.explorer.stand(self._cut()).worth_going_on

    @property
    def _betrayed(self) -> bool:
        """Whether a replayed counter-example exceeds a bound: then no bound is believed."""
        return self.lower > self.upper

    def _verdict(self) -> tuple[bool, str | None]:
        if self._betrayed and not (self.decide is not None and self.lower >= self.decide):
            return False, "numerical"
        if self._settled():
            return True, None
        if self.interrupted or self._late:
            return False, "time"
        return False, "numerical"
