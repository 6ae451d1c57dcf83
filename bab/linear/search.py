"""How confident a linear model can be where a member disagrees, and how far members can be apart.

Every member's bound comes from one multiplier (see `leaveout.kernel.design.leaks`). Those that
bound the answer are improved: first their multipliers, then, by refitting, their radii.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from leaveout.arrays import Bools, Floats, Integers
from leaveout.bab.linear.points import Points
from leaveout.bab.result import Progress, ProgressCallback, SearchResult, agree
from leaveout.bab.witness import Witness
from leaveout.deadline import Deadline
from leaveout.encoders import Box
from leaveout.kernel.design import Region
from leaveout.kernel.family import Family, Score
from leaveout.kernel.numbers import lengths
from leaveout.models.linear.family import centre, refine

_MORE = 1e-11  # by how much weights exceed a sum of 1, so that rounding does not take them below it


class Mean(NamedTuple):
    """The dual of a programme."""

    weights: Floats  # shape (labels,)
    t: Floats  # shape (1,): of the member's margin


@dataclass(frozen=True, eq=False)
class Programme:
    """What all members of a label's programmes share."""

    region: Region
    label: int
    labels: int
    margins: Floats  # shape (rivals, width): N's
    free: Integers  # columns that lie in an interval
    sums: Floats  # shape (lists, variables): the weights of a list's rows sum to 1

    @staticmethod
    def of(family: Family, region: Region, label: int) -> Programme:
        """Return the programmes of a label over a region."""
        labels = len(family.model.labels)
        rivals = [each for each in range(labels) if each != label]
        scores = [family.margin(label, rival).of(family.model.coefficients) for rival in rivals]
        free = np.flatnonzero(region.upper > region.lower)
        sizes = [len(each.rows) for each in region.listed]
        sums = np.zeros((len(sizes), 1 + len(free) + sum(sizes)))
        first = 1 + len(free)
        for k, size in enumerate(sizes):
            sums[k, first : first + size] = 1.0
            first += size
        return Programme(region, label, labels, np.stack(scores), free, sums)

    def mean(self, weights: Floats) -> Floats:
        """Return a mixture of N's margins, shape (width,)."""
        return np.asarray(np.delete(weights, self.label) @ self.margins)

    def solve(self, theirs: Floats, slack: float) -> Mean | None:
        """Return the best mean where a member's margin is at most a slack; None if none is told."""
        found = self._solve(theirs, slack)
        if found is None:
            return None
        dual = np.maximum(-found.ineqlin.marginals, 0.0)
        total = float(dual[:-1].sum())
        if not total > 0:
            return None
        weights = np.insert(dual[:-1] / total * (1.0 + _MORE), self.label, 0.0)
        return Mean(weights, dual[-1:] / total)

    def values(self, theirs: Floats, most: float) -> Floats | None:
        """Return column values of about the largest confidence where a margin is at most this."""
        found = self._solve(theirs, most)
        if found is None:
            return None
        values, first = self.region.lower.copy(), 1 + len(self.free)
        values[self.free] = found.x[1:first]
        for each in self.region.listed:
            values[each.at] = each.rows[np.argmax(found.x[first : first + len(each.rows)])]
            first += len(each.rows)
        return values

    def _solve(self, theirs: Floats, most: float) -> Any:
        """Solve the programme of a member; None if there is no solution."""
        if not np.isfinite(most):
            return None
        functions, fixed = self._of_variables(np.vstack([self.margins, theirs]))
        # The first variable is the confidence: at most each of N's margins.
        rows = np.hstack([np.ones((len(functions), 1)), -functions])
        rows[-1] = np.append(0.0, functions[-1])
        limits = np.append(fixed[:-1], most - fixed[-1])
        goal = np.zeros(rows.shape[1])
        goal[0] = -1.0
        region, listed = self.region, rows.shape[1] - 1 - len(self.free)
        ends = np.stack([region.lower[self.free], region.upper[self.free]], axis=1)
        bounds = np.vstack([[(-np.inf, np.inf)], ends, np.tile([0.0, 1.0], (listed, 1))])
        equal: Any = (self.sums, np.ones(len(self.sums))) if len(self.sums) else (None, None)
        solver: Any = linprog
        found = solver(goal, rows, limits, *equal, bounds=bounds, method="highs")
        return found if found.status == 0 else None

    def _of_variables(self, slopes: Floats) -> tuple[Floats, Floats]:
        """Return functions of design columns as functions of the programme's variables."""
        own, fixed = self.region.pull(slopes)
        inner = np.setdiff1d(np.arange(own.shape[1]), self.free)
        fixed = fixed + own[:, inner] @ self.region.lower[inner]
        listed = [own[:, each.at] @ each.rows.T for each in self.region.listed]
        return np.hstack([own[:, self.free], *listed]), fixed


@dataclass(frozen=True, eq=False)
class Goal:
    """What is to be bounded: N's score where a member's is at most a level, or how they differ."""

    score: Score
    level: float | None = 0.0  # None: the absolute difference of N's score and the member's


class Found(NamedTuple):
    """An input at which a member certainly does what a goal speaks of."""

    x: Floats
    unit: int
    value: float  # N's score as it is served, or at least how far the member's is from it


def region_of(family: Family, box: Box) -> Region:
    """Return a set of inputs as the kernel reads it."""
    choices = [(each.columns, each.values) for each in box.choices]
    return Region.of(family.model.design, box.lower, box.upper, choices)


def leak_goals(family: Family, label: int) -> tuple[Goal, ...]:
    """Return what bounds a label's leaks: one goal a rival, in their order."""
    rivals = [each for each in range(len(family.model.labels)) if each != label]
    return tuple(Goal(family.margin(label, rival)) for rival in rivals)


_TOGETHER = 48  # members that are improved in a round, at most

_FEWEST = 4
_ROUND = 2**25  # numbers of rows that a round of refitting reads, or those of its fewest members
_STEPS = 44  # of a golden section search
_ALL = 2**22  # numbers of all members up to which every member's multiplier is improved in the end
_POINTS = 8  # members of a round for which inputs are looked for

_GOLDEN = (5.0**0.5 - 1.0) / 2.0
_FAR = 1e100
_SAME = 1e-9
_SAFE = 1e-9  # what another machine's rounding may change in a bound


@dataclass(eq=False)
class Search:
    """Bounds of some goals over all members."""

    family: Family
    box: Box
    goals: tuple[Goal, ...]
    floor: float | None  # bounds are improved until this is decided; None: until they agree
    gap: float
    deadline: Deadline
    label: int = -1
    progress: ProgressCallback | None = None
    region: Region = field(init=False)
    t: Floats = field(init=False)  # shape (goals, units)
    weights: Floats | None = field(init=False)  # shape (goals, units, labels): see `Mixture`
    bounds: Floats = field(init=False)  # shape (goals, units)
    best: Found | None = None
    kept: dict[int, Found] = field(default_factory=dict)  # the best input of each member
    solved: int = 0
    interrupted: bool = False
    late: bool = False
    _seen: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._started = time.perf_counter()
        self.region = region_of(self.family, self.box)
        self._points = Points.of(self.family.model.design, self.box, self.region)
        shape = len(self.goals), len(self.family)
        self.t, self.bounds = np.zeros(shape), np.full(shape, np.inf)
        self._tuned = np.zeros(shape, bool)
        labels = len(self.family.model.labels)
        mixes = self.label >= 0 and labels > 2 and math.prod(shape) * labels <= _ALL
        self.weights = np.zeros((*shape, labels)) if mixes else None
        self._look_slack()
        for k, goal in enumerate(self.goals):
            if goal.level is not None:
                # Whatever the member does, N's score is no higher.
                none = np.zeros((1, self.region.design.width)), np.zeros(1), np.zeros(1)
                most = self.family.bounds(self.region, goal.score, *none, goal.level)
                self.bounds[k] = most[0]

    def run(self) -> None:
        """Improve the bounds until they agree, decide the floor, or time is over."""
        try:
            self.start(np.ones(self.t.shape))
            while not self.is_closed:
                if self.deadline.over:
                    self.late = True
                    break
                if not self._improve():
                    break
            if self.floor is None and self.t.size * self.region.design.width <= _ALL:
                self._tune_all()
        except KeyboardInterrupt:
            self.interrupted = True

    @property
    def upper(self) -> float:
        """The bound over all goals and members."""
        return float(self.bounds.max())

    @property
    def lower(self) -> float:
        """What an input reaches; minus infinity without one."""
        return -np.inf if self.best is None else self.best.value

    @property
    def is_closed(self) -> bool:
        """Whether nothing is left to improve."""
        upper = self.with_margin(self.upper)
        if self.floor is not None:
            return self.lower > self.floor or upper <= self.floor
        if self.label < 0:
            agreed = upper - self.lower <= max(_SAME, self.gap * abs(self.lower))
            return self.best is not None and agreed
        return agree(self.lower, upper, self.gap) and (self.best is not None or upper < 0)

    def with_margin(self, upper: float) -> float:
        """Return a bound that also holds as another machine computes it."""
        return upper + _SAFE * abs(upper) + _SAFE * 1e-3

    def _look_slack(self) -> None:
        self.slack = [self.family.slack_over(each.score, self.region) for each in self.goals]

    def start(self, t: Floats, weights: Floats | None = None) -> None:
        """Bound every member by some multipliers; 1 bounds how far it is from N."""
        for k, goal in enumerate(self.goals):
            for first, last in self.family.blocks():
                if self.deadline.over:
                    self.late = True
                    return
                apart = self.family.apart(goal.score, first, last)
                own = None if weights is None else weights[k, first:last]
                self._take(k, np.arange(first, last), apart, t[k, first:last], own)
                self.solved += last - first

    def _take(
        self, k: int, units: Integers, apart: Floats, t: Floats, weights: Floats | None = None
    ) -> Floats:
        """Bound some members with multipliers and keep what is better."""
        goal, slack = self.goals[k], self.slack[k][units]
        if goal.level is None:
            low, high = self.family.shifts(self.region, goal.score, apart, slack)
            found = np.maximum(-low, high)
        else:
            mixture = None if weights is None else (self.label, weights)
            found = self.family.bounds(
                self.region, goal.score, apart, slack, t, goal.level, mixture
            )
        found = np.where(np.isnan(found), np.inf, found)
        better = found < self.bounds[k, units]
        chosen = units[better]
        self.bounds[k, chosen], self.t[k, chosen] = found[better], t[better]
        if self.weights is not None:
            self.weights[k, chosen] = 0.0 if weights is None else weights[better]
        return found

    def _apart(self, score: Score, units: Integers) -> Floats:
        return np.concatenate([self.family.apart(score, u, u + 1) for u in units.tolist()])

    def _tune(self, k: int, units: Integers, apart: Floats) -> None:
        """Find the best multipliers of some members by a golden section search."""
        if self.goals[k].level is not None:
            # The bound is convex in t = s / (1 - s).
            low, high = np.zeros(len(units)), np.full(len(units), 1.0 - 1e-4)
            at = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
            values = [self._take(k, units, apart, s / (1.0 - s)) for s in at]
            for _ in range(_STEPS):
                left = values[0] < values[1]
                low, high = np.where(left, low, at[0]), np.where(left, at[1], high)
                at = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
                new = np.where(left, at[0], at[1])
                found = self._take(k, units, apart, new / (1.0 - new))
                values = [np.where(left, found, values[1]), np.where(left, values[0], found)]
        elif len(units):
            self._take(k, units, apart, np.ones(len(units)))
        self._tuned[k, units] = True
        self.solved += len(units)

    @cached_property
    def _programme(self) -> Programme:
        return Programme.of(self.family, self.region, self.label)

    def _mix(self, k: int, units: Integers, apart: Floats, aim: float) -> None:
        """Bound members by mixtures of margins, from a linear programme each."""
        score, left = self.goals[k].score, self.bounds[k, units] > aim
        own = score.of(self.family.model.coefficients)
        for unit, theirs in zip(units[left].tolist(), (own + apart)[left], strict=True):
            if self.deadline.over:
                return
            found = self._programme.solve(theirs, float(self.slack[k][unit]))
            if found is not None:
                here = np.array([unit])
                self._take(k, here, (theirs - own)[None], found.t, found.weights[None])

    def _tune_all(self) -> None:
        for k, goal in enumerate(self.goals):
            for first, last in self.family.blocks():
                if self.deadline.over:
                    return
                left = first + np.flatnonzero(~self._tuned[k, first:last])
                if len(left):
                    apart = self.family.apart(goal.score, first, last)
                    self._tune(k, left, apart[left - first])

    def _improve(self) -> bool:
        """Improve the members with the greatest bounds; return whether there were any."""
        aim = max(self.lower, -np.inf if self.floor is None else self.floor)
        worst = self.bounds.max(axis=0)
        rough = np.asarray(~self._tuned & (self.bounds > aim))
        units = _greatest(worst, np.asarray(rough.any(axis=0)), _TOGETHER)
        if not len(units):
            refined = self._refits
            wide = np.zeros(len(worst), bool)
            for k in range(len(self.goals)):
                # Whether the radius has a say in what is still open.
                say = np.maximum(self.t[k], 1.0) * self.slack[k]
                wide |= (self.bounds[k] > aim) & ~(say <= 0.05 * self.gap * np.abs(self.bounds[k]))
            most = _ROUND // (len(self.family.model.X) * self.region.design.width)
            most = min(max(most, _FEWEST), _TOGETHER)
            units = _greatest(worst, wide & ~refined, most)
            if not len(units):
                return self._look_closer(aim)
            self.family = refine(self.family, np.sort(units))
            self._look_slack()
            rough = self.bounds > aim
        for k, goal in enumerate(self.goals):
            own = units[rough[k, units]]
            if len(own):
                apart = self._apart(goal.score, own)
                self._tune(k, own, apart)
                if self.weights is not None:
                    self._mix(k, own, apart, aim)
        for unit in units[np.argsort(-self.bounds[:, units].max(axis=0))][:_POINTS].tolist():
            self._look_for_point(unit)
        self._report()
        return True

    def _look_closer(self, aim: float) -> bool:
        """Look for inputs where members are still open, each once."""
        worst = self.bounds.max(axis=0)
        new = np.array([unit not in self._seen for unit in range(len(worst))])
        units = _greatest(worst, (worst > aim) & new, _POINTS)
        for unit in units.tolist():
            self._look_for_point(unit)
        return len(units) > 0

    @property
    def _refits(self) -> Bools:
        found = np.ones(len(self.family), bool)
        for part in self.family.parts:
            own = np.zeros(len(found), bool)
            own[part.members.measured] = True
            found &= own
        return found

    def _look_for_point(self, unit: int) -> None:
        """Look for an input of a member's worst goal, and keep it if it is certain."""
        self._seen.add(unit)
        k = int(np.argmax(self.bounds[:, unit]))
        goal, slack = self.goals[k], float(self.slack[k][unit])
        if not np.isfinite(slack):
            return
        own = goal.score.of(self.family.model.coefficients)
        apart = self.family.apart(goal.score, unit, unit + 1)[0]
        best = own
        if self.weights is not None and self.weights[k, unit].any():
            best = self._programme.mean(self.weights[k, unit])
        if goal.level is None:
            for sign in (1.0, -1.0):
                x = self._points.point(self._points.best(sign * apart))
                found = abs(float((self.region.design(x[None]) @ apart)[0]))
                self._keep(Found(x, unit, found - slack))
            return
        # Some more room: the same member refitted again has another centre and radius.
        most = goal.level - 1.25 * slack
        most -= 1e-12 * abs(most)
        if self.weights is not None:
            values = self._programme.values(own + apart, most - 1e-9)
            near = None if values is None else self._points.near(values)
            if near is not None and self.region.design(near[None])[0] @ (own + apart) <= most:
                self._keep(Found(near, unit, self.value_at(near, k)))
        point = self._points.reach(best, own + apart, float(self.t[k, unit]), most)
        if point is not None:
            self._keep(Found(point, unit, self.value_at(point, k)))

    def replay(self, x: Floats, unit: int) -> float | None:
        """Return what a member certainly does at an input; None if it is not what is asked."""
        if not self.box.contains(x[None])[0]:
            return None
        rows, reached = self.region.design(x[None]), []
        for k, goal in enumerate(self.goals):
            slack = float(self.slack[k][unit])
            apart = float((rows @ self.family.apart(goal.score, unit, unit + 1)[0])[0])
            own = float((rows @ goal.score.of(self.family.model.coefficients))[0])
            if goal.level is None:
                reached.append(abs(apart) - slack)
            elif own + apart + slack < goal.level:
                reached.append(self.value_at(x, k))
        return max(reached, default=None)

    def value_at(self, x: Floats, k: int) -> float:
        """Return N's score of a goal as it is served: of a leak its confidence."""
        model = self.family.model
        if self.label < 0:
            return float(self.goals[k].score.of(model.raw_scores(x[None]).T)[0])
        return confidence(model.scores(x[None])[0], self.label)

    def _keep(self, found: Found) -> None:
        if not self.box.contains(found.x[None])[0] or (self.label >= 0 and not found.value > 0):
            return
        before = self.kept.get(found.unit)
        if before is None or found.value > before.value:
            self.kept[found.unit] = found
        if found.value > self.lower:
            self.best = found

    def _report(self) -> None:
        if self.progress is not None:
            lower = max(self.lower, 0.0)
            open_ones = int(np.count_nonzero(self.bounds.max(axis=0) > lower))
            seconds = time.perf_counter() - self._started
            self.progress(
                Progress(
                    self.label, lower, max(self.upper, lower), open_ones, self.solved, seconds,
                    self.deadline.limit,
                )
            )  # fmt: skip

    @property
    def seconds(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self._started

    def result(self) -> SearchResult[Found]:
        """Return what is known."""
        upper = self.with_margin(self.upper)
        reason = detail = None
        if not self.is_closed:
            reason, detail = "time", "it did not run long enough"
            if not self.late and not self.interrupted:
                reason = "numerical"
                detail = "the upper bound also covers mixtures of listed values, and rounding"
                lost = np.max([each > _FAR for each in self.slack], axis=0)
                if lost[self.bounds.max(axis=0).argmax()]:
                    count = int(np.count_nonzero(lost))
                    noun = "member" if count == 1 else "members"
                    detail = f"too little is known of {count:,} {noun}; a larger penalty helps"
        worst = self.bounds.max(axis=0)
        return SearchResult(
            label=self.label, lower=self.lower, upper=max(upper, self.lower), witness=self.best,
            closed=self.is_closed, reason=reason, detail=detail or "",  # type: ignore[arg-type]
            member_upper=worst + _SAFE * np.abs(worst) + _SAFE * 1e-3, solved=self.solved,
            seconds=self.seconds, interrupted=self.interrupted, leaks=tuple(self.kept.values()),
        )  # fmt: skip


def _greatest(values: Floats, allowed: Bools, most: int) -> Integers:
    places = np.flatnonzero(allowed)
    return places[np.argsort(-values[places], kind="stable")[:most]]


def confidence(scores: Floats, label: int) -> float:
    """Return the score of a label minus the best other."""
    return float(scores[label] - np.delete(scores, label).max())


def flips(family: Family, region: Region, x: Floats, unit: int, label: int) -> bool:
    """Return whether a member certainly answers another label than this."""
    for goal in leak_goals(family, label):
        slack = float(family.slack_over(goal.score, region)[unit])
        apart = family.apart(goal.score, unit, unit + 1)[0]
        theirs = goal.score.of(family.model.coefficients) + apart
        margin = float((family.model.design(x[None]) @ theirs)[0])
        if margin + slack < 0.0:
            return True
    return False


def witness_of(family: Family, found: Found, label: int) -> Witness:
    """Return a leak with the scores at its input; a member's are those of its centre."""
    model, x = family.model, found.x
    other = replace(model, coefficients=centre(family, found.unit))
    scores, theirs = model.scores(x[None])[0], other.scores(x[None])[0]
    row = int(model.unit_names[found.unit])
    return Witness(x, found.unit, row, label, confidence(scores, label), scores, theirs)


def dissenters(family: Family, x: Floats, labels: Integers) -> tuple[Family, list[Integers]]:
    """Return of each input the members that do not answer its label.

    Those whose answer the radius leaves open are refitted first; the family returned knows them.
    """
    rows = family.model.design(x)
    region = Region.of(family.model.design, x.min(axis=0), x.max(axis=0))
    apart: list[set[int]] = [set() for _ in x]
    pairs = []
    for label in np.unique(labels).tolist():
        every = np.flatnonzero(labels == label)
        for score in (goal.score for goal in leak_goals(family, label)):
            # No member is further from N than this, so many inputs need no further look.
            slack, blocks = family.slack_over(score, region), family.blocks()
            shifts = [family.shift_bounds(region, score, *each, slack)[0].min() for each in blocks]
            own = rows[every] @ score.of(family.model.coefficients)
            pairs.append((score, every[~(own + min(shifts) > 0.0)]))
    open_ones: set[int] = set()
    for here, places, margins, slack in _margins(family, rows, pairs, np.arange(len(family))):
        open_ones.update(here[(np.abs(margins) <= slack).any(axis=1)].tolist())
        _gather(apart, here, places, margins)
    units = np.array(sorted(open_ones), np.int64)
    if len(units):
        family = refine(family, units)
        apart = [each - open_ones for each in apart]
        for here, places, margins, _ in _margins(family, rows, pairs, units):
            _gather(apart, here, places, margins)
    return family, [np.array(sorted(each), np.int64) for each in apart]


_CELLS = 2**22


def _margins(
    family: Family, rows: Floats, pairs: list[tuple[Score, Integers]], units: Integers
) -> Iterator[tuple[Integers, Integers, Floats, Floats]]:
    """Yield members, inputs, the members' margins (members, inputs), and their slack."""
    sizes = np.abs(rows).max(axis=0)
    for score, places in pairs:
        own, folds = score.of(family.model.coefficients), list(family.folds(score))
        with np.errstate(invalid="ignore"):
            rest = family.slack(score, sizes, [0.0] * len(folds), 2 * len(sizes) + 96)
        reach = [lengths(rows[places] @ R) * (1.0 + 2.0**-30) for _, _, R in folds]
        for first, last in family.blocks():
            here = units[(units >= first) & (units < last)]
            if not len(here):
                continue
            step = max(1, _CELLS // len(here))
            apart = family.apart(score, first, last)[here - first]
            for begin in range(0, len(places), step):
                part = slice(begin, begin + step)
                slack = np.tile(rest[here][:, None], (1, len(places[part])))
                for (each, _, _), far in zip(folds, reach, strict=True):
                    slack += each.members.radius[here][:, None] * far[part]
                slack = np.where(np.isnan(slack), np.inf, slack)
                yield here, places[part], (own + apart) @ rows[places[part]].T, slack


def _gather(apart: list[set[int]], units: Integers, places: Integers, margins: Floats) -> None:
    for u, p in np.argwhere(margins <= 0.0).tolist():
        apart[int(places[p])].add(int(units[u]))
