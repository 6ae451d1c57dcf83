"""Attacks on claims over points: sampling, then the general search."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from leaveout.bab.attack.claim_field import ClaimField
from leaveout.bab.attack.counterexamples import ClaimReplayer, Found
from leaveout.bab.attack.multistart import attack
from leaveout.bab.attack.refine import better, refine, replay_exactly
from leaveout.bab.attack.slp import PROGRAM, ascend
from leaveout.bab.joint_claim import JointClaim
from leaveout.deadline import Deadline

Doubles = NDArray[np.float64]
Lanes = NDArray[np.int64]

_FEWEST, _SAMPLES = 64, 4000
_VALUES, _PRODUCTS = 2**22, 5e8
"""Values of samples in all lanes, and products to evaluate the networks there, at most."""

_REPLAYED = 64
"""Samples that are replayed at most."""

_STARTS = 12
_PROGRAMS = 25
"""Linear programs an ascent from a sample solves at most."""

_AGAIN = 2
"""Hints that are ascended from by linear programs where nothing else goes on."""


class Seeker:
    """An attack on one claim."""

    def __init__(self, claim: JointClaim, seed: int = 0) -> None:
        self.claim = claim
        self.rng = np.random.default_rng(seed)
        self.replay = ClaimReplayer(claim).replay
        self._sampled: tuple[Doubles, Lanes, Found | None] | None = None

    @cached_property
    def field(self) -> ClaimField:
        """The claim, laid out for the attack."""
        return ClaimField.of(self.claim, self.replay, self.rng)

    def first(self, deadline: Deadline, enough: float = float("inf")) -> Found | None:
        """Attack anywhere, in every case and with all members."""
        if self._sampled is None:
            with threadpool_limits(1, user_api="blas"):
                self._sampled = self._samples(deadline)
        starts, lanes, best = self._sampled
        if best is not None and best.value > enough:
            return best
        best = better(best, attack(self.field, self.rng, deadline=deadline, enough=enough))
        if best is None:
            chosen = slice(_STARTS)
            best = self._programs(starts[chosen], lanes[chosen], deadline)
        return best

    def follow(
        self, points: Doubles, lanes: Lanes, at_least: float, deadline: Deadline
    ) -> Found | None:
        """Attack from some points, most urgent first, each in its own lane."""
        best: Found | None = None
        for point, lane in zip(points, lanes.tolist(), strict=True):
            best = better(best, self.field.replay(point, lane))
        if best is None or best.value <= at_least:
            ascended = refine(self.field, points, lanes, at_least=at_least, deadline=deadline)
            best = better(best, ascended)
        if best is None or best.value <= at_least:
            again = slice(_AGAIN)
            best = better(best, self._programs(points[again], lanes[again], deadline))
        return best

    def lane(self, member: int, case: int) -> int:
        """Return the lane of a member and a case."""
        return member * self.claim.forms.cases + case

    def _samples(self, deadline: Deadline) -> tuple[Doubles, Lanes, Found | None]:
        """Return promising points, best first, their lanes, and the best one found."""
        box, field = self.claim.joint.box, self.field
        count = _PRODUCTS / (field.parameters * len(self.claim.joint.members))
        count = int(np.clip(min(count, _VALUES // field.lanes), _FEWEST, _SAMPLES))
        samples = box.sample(self.rng, count)
        corners = np.where(self.rng.random((count // 4, box.dimension)) < 0.5, box.lower, box.upper)
        middle = (box.lower + box.upper)[None] / 2
        points = np.concatenate([samples, box.nearest(corners), middle])
        every = self.rng.permutation(field.lanes)
        merit = field.score(points, every, deadline)
        # Some of the best of each lane, not all of one place.
        each = max(1, 4 * _STARTS // field.lanes)
        order = np.argsort(-merit, axis=1, kind="stable")[:, : 4 * each : 4]
        values = np.take_along_axis(merit, order, axis=1).ravel()
        top = np.argsort(-values, kind="stable")[: max(_REPLAYED, _STARTS)]
        top = top[values[top] > -np.inf]
        starts, lanes = points[order.ravel()[top]], np.repeat(every, order.shape[1])[top]
        best: Found | None = None
        for point, lane in zip(starts[:_REPLAYED], lanes[:_REPLAYED].tolist(), strict=True):
            best = better(best, field.replay(point, lane))
        return starts, lanes, best

    def _programs(self, starts: Doubles, lanes: Lanes, deadline: Deadline) -> Found | None:
        """Ascend from single points by linear programs with all goals and limits."""
        best: Found | None = None
        for start, lane in zip(starts, lanes.tolist(), strict=True):
            if deadline.over:
                break
            exact = self.field.exact(np.array([lane]), start[None])
            # Discrete features move freely, and are put right by who replays.
            problem = exact.everything(0)
            given = np.clip(start, problem.lower, problem.upper)[None, None]
            end = ascend(problem, given, PROGRAM, steps=_PROGRAMS, deadline=deadline)
            best = better(best, replay_exactly(self.field, exact, 0, end.points[0, 0], lane))
        return best
