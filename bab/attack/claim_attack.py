"""Attacks on claims over points: sampling, then the general search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from leaveout.bab.attack.confidences import ForwardPass, Nets, Sloped, jacobians
from leaveout.bab.attack.counterexamples import ClaimReplayer, Found
from leaveout.bab.attack.field import Exact, View
from leaveout.bab.attack.multistart import SEEN, attack, better, refine, replay_exactly, sample_box
from leaveout.bab.attack.slp import (
    COARSE,
    FINE,
    KNAPSACK,
    PLAIN,
    PROGRAM,
    Model,
    Pass,
    Problem,
    Step,
    ascend,
    layer_sizes,
)
from leaveout.bab.forms import Forms
from leaveout.bab.joint_claim import JointClaim
from leaveout.deadline import Deadline
from leaveout.encoders import Box
from leaveout.models import Stack

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Rows:
    """The forms of m lanes, padded to equal number by ones that are neither goal nor limit."""

    inputs: Floats  # shape (m, k, d)
    scores: Floats  # shape (m, k, scores)
    change: Floats  # shape (m, k, scores)
    constant: Floats  # shape (m, k, 1)
    goal: NDArray[np.bool_]  # shape (m, k, 1)
    limit: NDArray[np.bool_]  # shape (m, k, 1)

    @staticmethod
    def of(forms: Forms, cases: NDArray[np.int64]) -> Rows:
        """Return the forms of some cases, one lane each."""
        rows, goal, limit = forms.rows_of_cases(cases)
        return Rows(
            forms.inputs[rows],
            forms.scores[rows],
            forms.change[rows],
            forms.constant[rows][..., None],
            goal[..., None],
            limit[..., None],
        )

    def values(self, points: Floats, scores: Floats, change: Floats | None) -> Floats:
        """Evaluate all forms at points of each lane, shape (m, k, p)."""
        values = self.inputs @ points.transpose(0, 2, 1) + self.scores @ scores.transpose(0, 2, 1)
        if change is not None:
            values += self.change @ change.transpose(0, 2, 1)
        return np.asarray(values + self.constant)


@dataclass(frozen=True, eq=False)
class FormPairs:
    """The least goal of each lane, and its most violated limit."""

    network: Nets  # the first network
    seconds: Nets | None  # the second one of each lane; None where there is none
    rows: Rows
    lower: Floats  # shape (m, p, d)
    upper: Floats  # shape (m, p, d)
    slack: Floats  # shape (m, 1): of each lane

    @property
    def slacks(self) -> tuple[Floats, ...]:
        """See `leaveout.bab.attack.slp.Problem`."""
        return (self.slack,) if self.rows.limit.any() else ()

    def at(self, points: Floats, widths: tuple[float, ...] | None) -> Model:
        """See `leaveout.bab.attack.slp.Problem`."""
        rows = self.rows
        own = ForwardPass.through(self.network, points, widths)
        other = None if self.seconds is None else ForwardPass.through(self.seconds, points, widths)
        values = rows.values(
            points, own.scores, None if other is None else other.scores - own.scores
        )
        width = 0.0 if widths is None else widths[-1]
        value, weights = _least(np.where(rows.goal, values, np.inf), width)
        goal = Sloped(value, self._slope(weights, own, other))
        if not self.slacks:
            return Model((goal,), ())
        some: NDArray[np.bool_] = np.asarray(rows.limit.any(axis=1))
        value, weights = _least(np.where(rows.limit, values, np.inf), 0.0)
        # Where a lane has none, one that is met anywhere.
        value, weights = np.where(some, value, 1.0), np.where(some[..., None], weights, 0.0)
        return Model((goal,), (Sloped(-value, -self._slope(weights, own, other)),))

    def _slope(self, weights: Floats, own: ForwardPass, other: ForwardPass | None) -> Floats:
        """Return the slopes of weighted sums of forms, weights (m, p, k)."""
        rows = self.rows
        top = weights @ rows.scores
        if other is None:
            return np.asarray(own.slopes(top) + weights @ rows.inputs)
        change = weights @ rows.change
        slope = own.slopes(top - change) + weights @ rows.inputs
        return np.asarray(slope + other.slopes(change))


def _least(values: Floats, width: float) -> tuple[Floats, Floats]:
    """Return the least value over k, and each one's share, (m, p, k).

    With a width the minimum is smoothed.
    """
    least = values.min(axis=1)
    if width == 0.0 or values.shape[1] == 1:
        shares = np.zeros_like(values)
        np.put_along_axis(shares, values.argmin(axis=1)[:, None], 1.0, axis=1)
        return least, shares.transpose(0, 2, 1)
    with np.errstate(invalid="ignore"):
        shares = np.exp((least[:, None] - values) / width)
    total = shares.sum(axis=1)
    return least - width * np.log(total), (shares / total[:, None]).transpose(0, 2, 1)


@dataclass(frozen=True, eq=False)
class WholeForms:
    """Every goal and every limit of one lane."""

    network: Stack  # the first network
    second: Stack | None  # of one network
    forms: Forms  # of all cases
    case: int
    lower: Floats  # shape (d,)
    upper: Floats  # shape (d,)
    slack: Floats  # shape (rows,): of the case's rows

    @property
    def slacks(self) -> tuple[float, ...]:
        """See `leaveout.bab.attack.slp.Problem`."""
        goal = self.forms.goal[self.forms.case(self.case)]
        return tuple(self.slack[~goal].tolist())

    def at(self, points: Floats, widths: tuple[float, ...] | None) -> Model:
        """See `leaveout.bab.attack.slp.Problem`; nothing is smoothed."""
        forms, rows = self.forms, self.forms.case(self.case)
        flat = points.reshape(-1, points.shape[-1]).astype(np.float64)
        scores, jacobian = jacobians(self.network, flat)
        change = np.zeros_like(scores)
        slopes = forms.inputs[rows] + forms.scores[rows] @ jacobian
        if self.second is not None:
            others, other_jacobian = jacobians(self.second, flat)
            change = others - scores
            slopes = slopes + forms.change[rows] @ (other_jacobian - jacobian)
        values = forms.values(flat, scores, change, rows)
        goals, limits = [], []
        for k, goal in enumerate(forms.goal[rows].tolist()):
            value = values[k].reshape(points.shape[:-1])
            slope = slopes[:, k].reshape(points.shape)
            if goal:
                goals.append(Sloped(value, slope))
            else:
                limits.append(Sloped(-value, -slope))
        return Model(tuple(goals), tuple(limits))


Lanes = NDArray[np.int64]

_LANE_PRODUCTS = 2**19  # most values of a layer, or of forms, that are computed at once
_HELD = 2**21  # most parameters of members that are lowered at once
_SLACKS = (1e-7, 1e-6, 1e-5)  # by how much ascents want conditions to hold, relative to their terms
_MISSED = 5.0  # what a unit that conditions miss counts against a start to ascend from

_SLOPES, _SECONDS = 32, 4
"""Points, and members, at which typical slopes are looked at."""

_JACOBIANS = 1e9  # products that may be spent on them
_STEEPEST = 1e6  # how far conditions are scaled at most

_PRODUCTS, _FEWEST_SEEN = 5e8, 16
"""Products to evaluate the networks at samples, and how many tell typical sizes, at least."""

_FEWEST_LANES, _MOST = 16, 2**24
"""Points that are scored at least, and values of all points and lanes at most."""


@dataclass(frozen=True, eq=False)
class ClaimField:
    """A `Field` of a claim's cases; lanes are all cases of each member in turn."""

    claim: JointClaim
    forms: Forms  # the question's, conditions scaled so that they are about as steep as goals
    replayer: Callable[[NDArray[np.float64], int, int], Found | None]
    network: Nets  # the first network
    seen: NDArray[np.float64]  # shape (p, d): points that tell typical sizes
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
        return ClaimField(claim, forms, replayer, network, sample_box(box, rng, SEEN), sides, terms)

    @cached_property
    def sizes(self) -> tuple[float, ...]:
        """Typical pre-activations of each layer."""
        few = int(np.clip(_PRODUCTS / self.parameters, _FEWEST_SEEN, SEEN))
        return layer_sizes(self.network, self.seen[:few])

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
class ClaimExact(Exact):
    """An `Exact` of some lanes."""

    field: ClaimField
    lanes: Lanes  # shape (m,)
    points: Floats  # shape (m, 1, d)

    @property
    def levels(self) -> int:
        return len(_SLACKS) + 1

    def problem(self) -> Problem:
        return self.field.forms_at(self.field.nets(self.lanes), self.points, 0)

    def whole(self, row: int, point: Floats) -> Problem | None:
        return self._whole(row, point, 0) if self._may_tie(row) else None

    def safer(self, row: int, point: Floats, level: int) -> tuple[Problem, Step]:
        if self._may_tie(row):
            return self._whole(row, point, level), PROGRAM
        nets = self.field.nets(self.lanes[row : row + 1])
        return self.field.forms_at(nets, point[None, None], level), KNAPSACK

    def whole_forms(self, row: int) -> WholeForms:
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


Doubles = NDArray[np.float64]

_FEWEST, _SAMPLES, _VALUES = 64, 4000, 2**22
"""Samples at least and at most, and their values in all lanes at most."""

_REPLAYED = 64  # samples that are replayed at most

_STARTS = 12
_PROGRAMS = 25  # linear programs an ascent from a sample solves at most
_AGAIN = 2  # hints that are ascended from by linear programs where nothing else goes on


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
            problem = exact.whole_forms(0)
            given = np.clip(start, problem.lower, problem.upper)[None, None]
            end = ascend(problem, given, PROGRAM, steps=_PROGRAMS, deadline=deadline)
            best = better(best, replay_exactly(self.field, exact, 0, end.points[0, 0], lane))
        return best
