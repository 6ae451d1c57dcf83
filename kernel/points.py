"""Claims over points: no case has a counter-example whose least goal is above the bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .boxes import Inputs, Table
from .cover import Asked, Space, Walk, at_everywhere, read_tree
from .float32 import FOLDED, Program, Region
from .joint import Joint, join
from .members import Members, errors_of, errors_of_any, errors_of_single, span
from .networks import HIGH, LOW, Flags, Integers, Layer, Net, P, Q, positive
from .numbers import UNIT, Floats, gamma, need
from .rows import CaseRows, Rows, add_exactly
from .values import Ask, question

Term = tuple[int, int, float]

_MOST = 1e200
"""Largest coefficient, so that products with float32 numbers stay far below float64's largest."""

_TINY = 1e-290  # error assumed for smaller quotients: float64 has no finer numbers there


@dataclass(frozen=True)
class Form:
    """``features + scores + constant >= 0``, or ``> 0`` if strict; no position repeats."""

    features: tuple[Term, ...]  # point, feature, coefficient
    scores: tuple[Term, ...]  # application, label, coefficient
    constant: float
    strict: bool = False

    def check(self, name: str, features: Sequence[int], scores: Sequence[int]) -> None:
        """Refuse a form that refers to something missing, given the sizes of what there is."""
        kinds = (("feature", self.features, features), ("score", self.scores, scores))
        for what, terms, sizes in kinds:
            there = all(0 <= of < len(sizes) and 0 <= at < sizes[of] for of, at, _ in terms)
            need(there, f"{name} refers to a {what} that does not exist")
            # Sums of factors would be rounded.
            once = len({term[:2] for term in terms}) == len(terms)
            need(once, f"{name} uses a {what} twice in one form")
        numbers = (self.constant, *(term[2] for term in (*self.features, *self.scores)))
        fine = all(abs(number) <= _MOST for number in numbers)
        need(fine, f"{name} has a number that is not finite, or exceeds {_MOST:g}")


@dataclass(frozen=True)
class Case:
    """One kind of counter-example: goals, conditions, and sides of boxes used as conditions."""

    goals: tuple[Form, ...]
    conditions: tuple[Form, ...]
    inside: tuple[tuple[int, int, int], ...]  # point, feature, side
    sums: tuple[tuple[int, int], ...]  # pairs of rows whose sum is also bounded
    near: bool  # whether the second of two points is stored as its difference from the first
    origin: tuple[float, ...]  # shift of the region


@dataclass(frozen=True, eq=False)
class Application:
    """A network, or any of some members of its architecture, at a point."""

    program: Program
    point: int
    box: Inputs  # of the point
    members: Members | None = None
    _known: list[tuple[Net, Floats]] = field(default_factory=list)

    @cached_property
    def layers(self) -> list[Layer]:
        """The network's layers."""
        self.program.check()
        return self.program.layers()

    def whole(self, forms: Floats, ask: Ask) -> Floats:
        """Bound the rounding of forms, shape (r, labels), over all inputs, shape (r,)."""
        net, state = self._everywhere(ask)
        low, high = state[:, LOW], state[:, HIGH]
        least, most = low - state[:, Q], high + state[:, P]
        above, below = positive(self.box.upper)[None], positive(-self.box.lower)[None]
        parts = [[each[:, at] for at in net.at[:-1]] for each in (low, high, least, most)]
        if self.members is None:
            own = self.over(Region(above, below, *parts[:2]), forms, [])
            return np.asarray(own[0])
        return errors_of_any(self.members, Region(above, below, *parts[2:]), forms)

    def _everywhere(self, ask: Ask) -> tuple[Net, Floats]:
        """Bound hidden layers, and any member's difference from them, over all inputs."""
        if not self._known:
            parts = [(self.layers, 0, None), (self.layers, 0, self.members)]
            joint = join(parts, [self.program.inputs], near=False)
            net = Net(joint.first, joint.others, self.box, np.minimum(self.box.lower, 0.0))
            self._known.append((net, at_everywhere(net, ask)))
        return self._known[0]

    def over(self, region: Region, forms: Floats, members: Sequence[Integers]) -> Floats:
        """Bound the rounding of forms in some nodes, shape (n, r); of members only single ones."""
        if self.members is None:
            return errors_of(self.program, np.zeros(len(region.above), np.int64), region, forms)
        return errors_of_single(self.members, members, region, forms)


@dataclass(frozen=True, eq=False)
class Points:
    """A claim over points."""

    applications: tuple[Application, ...]
    boxes: tuple[Inputs, ...]  # by point
    cases: tuple[Case, ...]
    upper: float
    decides: bool  # whether there is no counter-example at all
    reals: bool  # whether it is about exact arithmetic

    def check(self, ask: Ask, report: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Prove it; count the leaves."""
        fine = all(map(len, (self.applications, self.boxes, self.cases)))
        need(fine, "it has no points, no networks or no cases")
        below = not self.decides or self.upper < 0
        need(below, "to rule out counter-examples, the bound must be below 0")
        several = sum(each.members is not None for each in self.applications)
        need(several <= 1, "members are applied more than once, which cannot be checked")
        for i, case in enumerate(self.cases):
            self._hold(f"case {i}", case)
        spaces = list(self._spaces(ask))
        counts = [_count(case) for case in self.cases]
        tree = read_tree(
            question(ask, "tree", {}), spaces[0].net, counts, spaces[0].ties, self.members
        )
        done = 0
        for space in spaces:
            walk = Walk(space, tree, self.upper, ask)
            walk.run(lambda now, before=done: report(before + now, len(tree.parent)))  # type: ignore[misc]
            done += walk.done
        return sum(not len(each) for each in tree.children)

    @property
    def members(self) -> int:
        """The number of members it covers; 1 if it covers no whole family."""
        return max([1, *(len(a.members) for a in self.applications if a.members is not None)])

    @property
    def hidden_width(self) -> int:
        """The number of hidden neurons of the joint network."""
        return sum(layer.bias.shape[1] for layer in self._joint(False).first[:-1])

    def _joint(self, near: bool) -> Joint:
        parts = [(each.layers, each.point, each.members) for each in self.applications]
        return join(parts, [len(each.lower) for each in self.boxes], near=near)

    def _ties(self, joint: Joint) -> Flags:
        """Say in which cases phases may be tied: a vertex is chosen for a single form."""
        moved = [
            [
                any(c and joint.places[a].second for a, _, c in form.scores)
                for form in (*case.goals, *case.conditions)
            ]
            for case in self.cases
        ]
        bent = any(layer.kinds.any() for layer in joint.first)
        return np.array([not joint.is_pair or (sum(own) <= 1 and not bent) for own in moved])

    def _spaces(self, ask: Ask) -> Iterator[Space]:
        """Return the cases by region; those over the same region are together."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for i, case in enumerate(self.cases):
            ends = self._apart(case) if case.near else None
            key = (case.origin, None if ends is None else tuple(e.tobytes() for e in ends))
            alike.setdefault(key, []).append(i)
        for numbers in alike.values():
            yield self._space(numbers, ask)

    def _space(self, numbers: list[int], ask: Ask) -> Space:
        cases = [self.cases[i] for i in numbers]
        joint, box, origin = (
            self._joint(cases[0].near),
            self._box(cases[0]),
            np.array(cases[0].origin),
        )
        fine = origin.shape == (joint.width,) and (np.abs(origin) <= _MOST).all()
        need(fine, f"case {numbers[0]} has an origin of the wrong size, or one that is not finite")
        net = Net(joint.first, joint.others, box, origin)
        rows, forms = [], []
        for number, case in zip(numbers, cases, strict=True):
            own, scores = self._rows(case, joint, ask)
            need(np.isfinite(own.errors), f"case {number}: scores may overflow float32")
            rows.append(own)
            forms.append(scores)
        errors = _FormErrors(self, net, joint, tuple(forms), max(map(_count, cases))).over
        ties = self._ties(joint)
        return Space(net, joint.is_pair, ties, Rows(rows, net), np.array(numbers), errors)

    @property
    def share(self) -> float:
        """The share of float32 errors that applies: folding rounds in float64."""
        return FOLDED if self.reals else 1.0

    def _box(self, case: Case) -> Inputs:
        """Return the region of the joint input; for two near points that of (x, y - x)."""
        lower, upper = [each.lower for each in self.boxes], [each.upper for each in self.boxes]
        tables, begin = [], 0
        for p, each in enumerate(self.boxes):
            # Listed values of a second point do not restrict its difference from the first.
            own = () if case.near and p == 1 else each.tables
            tables += [Table(table.columns + begin, table.values) for table in own]
            begin += len(each.lower)
        if case.near:
            lower[1], upper[1] = self._apart(case)
        return Inputs(np.concatenate(lower), np.concatenate(upper), tuple(tables))

    def _apart(self, case: Case) -> tuple[Floats, Floats]:
        """Bound y - x: by the boxes, and by single conditions on one feature of both."""
        first, second = self.boxes
        low = np.nextafter(second.lower - first.upper, -math.inf)
        high = np.nextafter(second.upper - first.lower, math.inf)
        # A goal is also a condition if the claim is that there is no counter-example at all.
        for form in (*case.conditions, *(case.goals if self.decides else ())):
            if form.scores or len(form.features) != 2:
                continue
            (p, i, a), (q, j, b) = sorted(form.features)
            if (p, q) != (0, 1) or i != j or a != -b or b == 0:
                continue
            # b (y - x) + constant >= 0
            bound = -form.constant / b
            room = 8 * UNIT * abs(bound)
            if form.constant != 0.0 and abs(bound) < _TINY:
                room = _TINY
            if b > 0:
                low[i] = max(float(low[i]), bound - room)
            else:
                high[i] = min(float(high[i]), bound + room)
        need(low <= high, "no two points are as close as a case requires")
        return low, high

    def _rows(self, case: Case, joint: Joint, ask: Ask) -> tuple[CaseRows, tuple[Floats, ...]]:
        """Return the rows of a case, and their coefficients for each application."""
        forms, count = [*case.goals, *case.conditions], _count(case)
        inputs, constant = np.zeros((count, joint.width)), np.zeros(count)
        own = [np.zeros((count, each.layers[-1].bias.shape[1])) for each in self.applications]

        def add(k: int, point: int, feature: int, coefficient: float) -> None:
            for at in (joint.spots[point].own, joint.spots[point].base):
                if at is not None:
                    inputs[k, at.start + feature] += coefficient

        for k, form in enumerate(forms):
            constant[k] = form.constant
            for p, i, c in form.features:
                add(k, p, i, c)
            for a, j, c in form.scores:
                own[a][k, j] = c
        for k, (p, i, side) in enumerate(case.inside, len(forms)):
            ends = self.boxes[p].upper if side else self.boxes[p].lower
            add(k, p, i, -1.0 if side else 1.0)
            constant[k] = float(ends[i]) if side else -float(ends[i])
        shape = (count, joint.first[-1].bias.shape[1])
        scores, change, slip = (np.zeros(shape) for _ in range(3))
        errors = np.zeros(count)
        for each, place, part in zip(self.applications, joint.places, own, strict=True):
            at = slice(place.start, place.start + part.shape[1])
            scores[:, at], slipped = add_exactly(scores[:, at], part)
            slip[:, at] += slipped
            if place.second:
                change[:, at] += part
            some = part.any(axis=1)
            if some.any():
                errors[some] += self.share * each.whole(part[some], ask)
        errors *= 1.0 + gamma(8)
        sums = np.array(case.sums, np.int64).reshape(-1, 2)
        goal = np.arange(count) < len(case.goals)
        return CaseRows(inputs, scores, change, constant, errors, goal, sums, slip), tuple(own)

    def _hold(self, name: str, case: Case) -> None:
        """Refuse a case that refers to something missing, or whose numbers prove nothing."""
        need(len(case.goals) > 0, f"{name} has no goal")
        widths = [len(each.lower) for each in self.boxes]
        labels = [each.layers[-1].bias.shape[1] for each in self.applications]
        for form in (*case.goals, *case.conditions):
            form.check(name, widths, labels)
        count = _count(case)
        fine = all(0 <= k < count and 0 <= o < count for k, o in case.sums)
        need(fine, f"{name} adds up rows that do not exist")
        for p, i, side in case.inside:
            fine = 0 <= p < len(widths) and 0 <= i < widths[p] and side in {0, 1}
            need(fine, f"{name} uses a bound of a box that does not exist")
        fine = not case.near or (len(widths) == 2 and widths[0] == widths[1])
        need(fine, f"{name} requires points to be close that are not two points of the same size")


def _count(case: Case) -> int:
    return len(case.goals) + len(case.conditions) + len(case.inside)


@dataclass(frozen=True, eq=False)
class _FormErrors:
    """Rounding of a claim's forms over regions of the joint input."""

    points: Points
    net: Net
    joint: Joint
    forms: tuple[tuple[Floats, ...], ...]  # by case and application, shape (r, labels)
    rows: int

    def over(self, asked: Asked) -> Floats:
        """Return the errors of each node's rows; 0 beyond those of its case."""
        pad = 4 * UNIT * (np.abs(asked.upper) + np.abs(self.net.origin))
        low, high = asked.lower + self.net.origin - pad, asked.upper + self.net.origin + pad
        found = np.zeros((len(asked.case), self.rows))
        for case in np.unique(asked.case).tolist():
            nodes = np.flatnonzero(asked.case == case)
            members = [asked.members[i] for i in nodes]
            for a, forms in enumerate(self.forms[case]):
                some = np.flatnonzero(forms.any(axis=1))
                if len(some):
                    here = self._region(a, low[nodes], high[nodes], asked.state[nodes])
                    own = self.points.applications[a].over(here, forms[some], members)
                    found[np.ix_(nodes, some)] += self.points.share * own
        return found * (1.0 + gamma(8))

    def _region(self, a: int, low: Floats, high: Floats, state: Floats) -> Region:
        """Return what is known of an application from what is known of the joint network."""
        place, application = self.joint.places[a], self.points.applications[a]
        spot, box = self.joint.spots[application.point], application.box
        least, most = low[:, spot.own], high[:, spot.own]
        if spot.base is not None:
            room = 4 * UNIT * (np.abs(low) + np.abs(high))
            pad = room[:, spot.own] + room[:, spot.base]
            least, most = least + low[:, spot.base] - pad, most + high[:, spot.base] + pad
        least, most = np.clip(least, box.lower, box.upper), np.clip(most, box.lower, box.upper)
        # Differences are within the band, whichever pairs are tied.
        z_low, z_high = span(state, member=place.second)
        parts: tuple[list[Floats], list[Floats]] = ([], [])
        for at, before, layer in zip(self.net.at, place.hidden, application.layers, strict=False):
            own = slice(at.start + before, at.start + before + layer.bias.shape[1])
            parts[0].append(z_low[:, own])
            parts[1].append(z_high[:, own])
        return Region(positive(most), positive(-least), *parts)
