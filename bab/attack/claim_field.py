"""Claims over points laid out for attacks; a lane is a combination of members and a case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.claim_slopes import FormPairs, Rows, WholeForms
from leaveout.bab.attack.confidences import Nets
from leaveout.bab.attack.counterexamples import Found
from leaveout.bab.attack.field import View
from leaveout.bab.attack.local_networks import jacobians
from leaveout.bab.attack.multistart import SEEN, sample_box
from leaveout.bab.attack.slp import KNAPSACK, PROGRAM, Problem, Step
from leaveout.bab.attack.smoothing import COARSE, FINE, PLAIN, Pass, layer_sizes
from leaveout.bab.forms import Forms
from leaveout.bab.joint_claim import JointClaim
from leaveout.deadline import Deadline
from leaveout.encoders import Box
from leaveout.models import Stack

Floats = NDArray[np.floating[Any]]
Lanes = NDArray[np.int64]

_LANE_PRODUCTS = 2**19
"""Most values of a layer, or of forms, that are computed at once."""

_HELD = 2**21
"""Most parameters of members that are lowered at once."""

_SLACKS = (1e-7, 1e-6, 1e-5)
"""By how much ascents want conditions to hold, relative to their terms."""

_MISSED = 5.0
"""What a unit that conditions miss counts against a start to ascend from."""

_SLOPES, _SECONDS = 32, 4
"""Points, and members, at which typical slopes are looked at."""

_JACOBIANS = 1e9
"""Products that may be spent on them."""

_STEEPEST = 1e6
"""How far conditions are scaled at most."""

_FEWEST_LANES, _MOST = 16, 2**24
"""Points that are scored at least, and values of all points and lanes at most."""


@dataclass(frozen=True, eq=False)
class ClaimField:
    """A `Field` of a claim's cases; lanes are all cases of each member in turn."""

    claim: JointClaim
    forms: Forms  # the question's, conditions scaled so that they are about as steep as goals
    replayer: Callable[[NDArray[np.float64], int, int], Found | None]
    network: Nets  # the first network
    sizes: tuple[float, ...]  # typical pre-activations of each layer
    sides: NDArray[np.float64]  # shape (2, cases, d)
    terms: NDArray[np.float64]  # shape (rows,)

    least = -np.inf

    @staticmethod
    def of(
        claim: JointClaim,
        replayer: Callable[[NDArray[np.float64], int, int], Found | None],
        rng: np.random.Generator,
    ) -> ClaimField:
        """Lay out a question, with typical sizes from random points."""
        joint = claim.joint
        forms = _balance_forms(claim, sample_box(joint.box, rng, _SLOPES))
        network, box = Nets.of(joint.first), joint.box
        sides = np.array(joint.regions).transpose(1, 0, 2)
        most = np.maximum(np.abs(box.lower), np.abs(box.upper))
        terms = np.abs(forms.constant) + np.abs(forms.inputs) @ most
        terms += np.abs(forms.scores).sum(axis=1) + np.abs(forms.change).sum(axis=1)
        sizes = layer_sizes(network, sample_box(box, rng, SEEN))
        return ClaimField(claim, forms, replayer, network, sizes, sides, terms)

    @property
    def box(self) -> Box:
        """The box of the joint input."""
        return self.claim.joint.box

    @property
    def cases(self) -> int:
        """The number of cases."""
        return self.forms.cases

    @property
    def lanes(self) -> int:
        """The number of lanes: one per case and member."""
        return self.cases * len(self.claim.joint.members)

    @property
    def lower(self) -> Floats:
        """The lower corner of the box."""
        return self.box.lower

    @property
    def upper(self) -> Floats:
        """The upper corner of the box."""
        return self.box.upper

    @cached_property
    def parameters(self) -> int:
        """The number of parameters per lane."""
        layers = self.claim.joint.first.layers
        return sum(y.bias.size + sum(w.size for w in y.weights.values()) for y in layers)

    def views(self, sample: Floats, seen: int, most: int) -> list[View]:
        """See `Field.views`: start anywhere."""
        # Networks are evaluated once for all cases.
        seen = min(seen * self.cases, _MOST // self.lanes)
        points = sample[: int(np.clip(seen, _FEWEST_LANES, most // 4))]

        def merit(lanes: Lanes, until: Deadline) -> Floats:
            return self.score(points, lanes, until, _MISSED)

        schedules: tuple[tuple[Pass, ...], ...] = (PLAIN, FINE, COARSE)
        return [View(points, merit, schedules)]

    def score(self, points: Floats, lanes: Lanes, until: Deadline, missed: float = 1e3) -> Floats:
        """See `Field.score`: the least goal minus a price on missed conditions."""
        joint, forms = self.claim.joint, self.forms
        merit = np.full((len(lanes), len(points)), -np.inf)
        places = np.asarray(points, np.float64)
        first = joint.first.scores(places)[0]
        alone = forms.values(places, first, np.zeros_like(first))
        members, cases = np.divmod(lanes, self.cases)
        own, since, which = np.unique(members, return_index=True, return_inverse=True)
        # Members in the order of their lanes, some at a time.
        order = np.argsort(since, kind="stable")
        widest = max(forms.width * self.cases, *(layer.width for layer in joint.first.layers))
        step = min(_LANE_PRODUCTS // (widest * len(points)), _HELD // self.parameters)
        step = max(1, step)
        for start in range(0, len(order), step):
            chosen = order[start : start + step]
            place = np.full(len(own), -1)
            place[chosen] = np.arange(len(chosen))
            part = np.flatnonzero(place[which] >= 0)
            index, goal, limit = forms.rows_of_cases(cases[part])
            values = alone[index]
            if joint.is_pair:
                seconds = Nets.of(joint.members.take(own[chosen]))
                change = seconds.activations(places[None])[-1] - first
                turned = change[place[which[part]]].transpose(0, 2, 1)
                values = values + forms.change[index] @ turned
            least = np.where(goal[..., None], values, np.inf).min(axis=1)
            below = np.where(limit[..., None], np.minimum(values, 0.0), 0.0).sum(axis=1)
            merit[part] = least + missed * below
            if until.over:
                break
        return merit

    def nets(self, lanes: Lanes) -> tuple[Lanes, Nets | None]:
        """Return the cases of lanes, and each one's second network."""
        members, cases = np.divmod(lanes, self.cases)
        joint = self.claim.joint
        return cases, Nets.of(joint.members.take(members)) if joint.is_pair else None

    def problem(self, nets: tuple[Lanes, Nets | None], points: Floats) -> FormPairs:
        """See `Field.problem`."""
        return self.forms_at(nets, points, 0)

    def relaxed_problem(self, nets: tuple[Lanes, Nets | None]) -> FormPairs:
        """See `Field.relaxed_problem`."""
        return self.forms_at(nets, None, 0)

    def forms_at(
        self, nets: tuple[Lanes, Nets | None], points: Floats | None, level: int
    ) -> FormPairs:
        """Return the problem; discrete features stay fixed where points are given."""
        cases, seconds = nets
        lower, upper = self.region(cases, points)
        slack = np.array([self.slack(case, level).max() for case in cases.tolist()])
        rows = Rows.of(self.forms, cases)
        return FormPairs(self.network, seconds, rows, lower, upper, slack[:, None])

    def region(self, cases: Lanes, points: Floats | None) -> tuple[Floats, Floats]:
        """Return where points of some lanes may go."""
        lower, upper = self.sides[:, cases][:, :, None]
        if points is not None and self.box.choices:
            held = self.box.around(points)
            lower, upper = np.maximum(lower, held[0]), np.minimum(upper, held[1])
        return lower, np.maximum(lower, upper)

    def slack(self, case: int, level: int) -> NDArray[np.float64]:
        """Return the slack wanted for each form of a case."""
        rows = self.forms.case(case)
        if level < len(_SLACKS):
            return _SLACKS[level] * self.terms[rows]
        errors = self.forms.errors[rows]
        return np.where(np.isfinite(errors), errors, 0.0) + _SLACKS[-1] * self.terms[rows]

    def nearest(self, points: Floats) -> Floats:
        """See `Field.nearest`."""
        return self.box.nearest(points.astype(np.float64))

    def exact(self, lanes: Lanes, points: Floats) -> ClaimExact:
        """See `Field.exact`."""
        return ClaimExact(self, lanes, points[:, None])

    def replay(self, point: Floats, lane: int) -> Found | None:
        """See `Field.replay`."""
        member, case = divmod(lane, self.cases)
        return self.replayer(np.asarray(point, np.float64), case, member)

    def second(self, member: int) -> Stack | None:
        """Return the second network with a member."""
        joint = self.claim.joint
        return joint.members.take(np.array([member], np.int64)) if joint.is_pair else None


@dataclass(frozen=True, eq=False)
class ClaimExact:
    """An `Exact` of some lanes."""

    field: ClaimField
    lanes: Lanes  # shape (m,)
    points: Floats  # shape (m, 1, d)

    @property
    def levels(self) -> int:
        """See `Exact.levels`."""
        return len(_SLACKS) + 1

    def problem(self) -> Problem:
        """See `Exact.problem`."""
        return self.field.forms_at(self.field.nets(self.lanes), self.points, 0)

    def whole(self, row: int, point: Floats) -> Problem | None:
        """See `Exact.whole`."""
        return self._whole(row, point, 0) if self._may_tie(row) else None

    def safer(self, row: int, point: Floats, level: int) -> tuple[Problem, Step]:
        """See `Exact.safer`."""
        if self._may_tie(row):
            return self._whole(row, point, level), PROGRAM
        nets = self.field.nets(self.lanes[row : row + 1])
        return self.field.forms_at(nets, point[None, None], level), KNAPSACK

    def everything(self, row: int) -> WholeForms:
        """Return a lane's goals and limits, with discrete features relaxed."""
        return self._whole(row, None, 0)

    def _may_tie(self, row: int) -> bool:
        """Return whether a lane has several goals or several limits."""
        forms = self.field.forms
        goal = forms.goal[forms.case(int(self.lanes[row]) % self.field.cases)]
        return int(goal.sum()) > 1 or int((~goal).sum()) > 1

    def _whole(self, row: int, point: Floats | None, level: int) -> WholeForms:
        field, joint = self.field, self.field.claim.joint
        member, case = divmod(int(self.lanes[row]), field.cases)
        given = None if point is None else point[None, None]
        lower, upper = (side[0, 0] for side in field.region(np.array([case]), given))
        second = field.second(member)
        slack = field.slack(case, level)
        return WholeForms(joint.first, second, field.forms, case, lower, upper, slack)


def _balance_forms(claim: JointClaim, points: NDArray[np.float64]) -> Forms:
    """Return forms with conditions scaled to be about as steep as the goals.

    Missed conditions are priced in units of goals: far steeper ones would dominate, far flatter
    ones be ignored.
    """
    forms, joint = claim.forms, claim.joint
    if forms.goal.all():
        return forms
    layers = joint.first.layers
    size = sum(w.size for layer in layers for w in layer.weights.values())
    few = int(np.clip(_JACOBIANS / (size * joint.box.dimension), 1, len(points)))
    points, sides = points[:few], joint.box.upper - joint.box.lower
    _, own = jacobians(joint.first, points)
    steep = np.zeros(len(forms.goal))
    count = len(joint.members)
    for member in range(0, count, -(-count // _SECONDS)):
        slopes = forms.inputs + forms.scores @ own
        if joint.is_pair:
            _, other = jacobians(joint.members.take(np.array([member], np.int64)), points)
            slopes = slopes + forms.change @ (other - own)
        steep += (np.abs(slopes) * sides).sum(axis=2).mean(axis=0)
    scale = np.ones(len(steep))
    for case in range(forms.cases):
        rows = forms.case(case)
        goal = forms.goal[rows]
        with np.errstate(all="ignore"):
            ratio = steep[rows][goal].mean() / steep[rows]
        usable = ~goal & np.isfinite(ratio) & (ratio > 0)
        scale[rows][usable] = np.clip(ratio[usable], 1 / _STEEPEST, _STEEPEST)
    column = scale[:, None]
    return replace(
        forms,
        inputs=forms.inputs * column,
        scores=forms.scores * column,
        change=forms.change * column,
        constant=forms.constant * scale,
        errors=forms.errors * scale,
    )
