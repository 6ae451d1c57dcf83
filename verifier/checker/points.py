"""Claims over points: their files, read again, and their cases."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers
from leaveout.models import Members, Stack
from leaveout.models.graph import Graph
from leaveout.verifier.checker.arithmetic import UNIT, Arithmetic, gamma
from leaveout.verifier.checker.envelope import member_bounds, whole_bounds
from leaveout.verifier.checker.errors import CertificateError, RejectedError
from leaveout.verifier.checker.evaluation import largest_program
from leaveout.verifier.checker.inputs import Inputs, Table, read_box
from leaveout.verifier.checker.joint import Joint, Part, join_parts
from leaveout.verifier.checker.layout import Net, Sets, SetStore, Start, difference, make_net, start
from leaveout.verifier.checker.manifest import CasePart, ClaimPart, FormPart
from leaveout.verifier.checker.margins import MarginProgram, Region, margin_program
from leaveout.verifier.checker.readers import Reader, Shelf
from leaveout.verifier.checker.spaces import Asked, CaseRows, Space, add_sums, stacked_rows
from leaveout.verifier.checker.tree_shape import Shape

_TOGETHER = 64
"""Nodes of single members processed at once."""


class Applied(Protocol):
    """A network, or members, applied to a point."""

    @property
    def point(self) -> int:
        """The index of the point."""
        ...

    @property
    def inputs(self) -> Inputs:
        """The set of inputs of the point."""
        ...

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        ...

    def whole(self, forms: Floats) -> Floats:
        """Bound errors of forms, shape (r, labels), over all inputs, shape (r,)."""
        ...

    def over(self, region: Region, forms: Floats, members: Sequence[Integers]) -> Floats:
        """Bound errors of forms in n nodes, for some members each; shape (n, r)."""
        ...


@dataclass(frozen=True, eq=False)
class _One:
    """One network at one point."""

    point: int
    inputs: Inputs
    net: Net
    start: Start
    sets: Sets  # all differences are 0
    program: MarginProgram

    @staticmethod
    def of(
        graph: Graph,
        stack: Stack,
        parameters: Mapping[str, NDArray[np.floating]],
        point: int,
        inputs: Inputs,
        numbers: Arithmetic,
    ) -> _One:
        """Bound it once over all of the point's inputs."""
        net = make_net(stack, inputs, numbers)
        sets = difference(stack, stack, net)
        program = margin_program(graph, parameters, numbers)
        return _One(point, inputs, net, start(net, sets), sets, program)

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        starts = self.net.starts
        return tuple(starts[k + 1] - starts[k] for k in range(self.net.layers - 1))

    @cached_property
    def whole_bounds(self) -> list[tuple[Floats, Floats]]:
        """Bounds of hidden layers over all inputs, shape (1, width) each."""
        return whole_bounds(self.net, self.sets, self.start)

    def whole(self, forms: Floats) -> Floats:
        """See `Applied.whole`."""
        above = np.maximum(self.inputs.upper, 0.0)[None]
        below = np.maximum(-self.inputs.lower, 0.0)[None]
        low, high = zip(*self.whole_bounds, strict=True) if self.whole_bounds else ((), ())
        return np.asarray(self.over(Region(above, below, low, high), forms, [])[0])

    def over(self, region: Region, forms: Floats, members: Sequence[Integers]) -> Floats:
        """See `Applied.over`; there are no members."""
        return self.program.form_errors(np.zeros(len(region.above), np.int64), region, forms)


@dataclass(frozen=True, eq=False)
class _AnyOf:
    """Any member of a family at one point."""

    reader: Reader
    family: Members
    example: _One  # a network of their architecture

    @property
    def point(self) -> int:
        """The index of the point."""
        return self.example.point

    @property
    def inputs(self) -> Inputs:
        """The set of inputs of the point."""
        return self.example.inputs

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths of the hidden layers."""
        return self.example.widths

    @cached_property
    def _whole(self) -> Floats:
        """Bound the error of each score of any member."""
        example, inputs = self.example, self.inputs
        own = [(low[0], high[0]) for low, high in example.whole_bounds]
        bounds = member_bounds(self.reader.stack, self.family, inputs, example.net, own)
        largest = np.maximum(np.abs(inputs.lower), np.abs(inputs.upper))[None]
        program = largest_program(
            self.reader.graph, self.family.family.parameters, example.net.arithmetic
        )
        high = [each[None] for _, each in bounds]
        return np.asarray(program.score_errors(np.zeros(1, np.int64), largest, high)[0])

    def whole(self, forms: Floats) -> Floats:
        """See `Applied.whole`: members have no common slopes."""
        numbers = self.example.net.arithmetic
        # A label without known bounds matters only if it is used.
        unknown = np.isinf(self._whole)
        terms = numbers.number(np.abs(forms)) * np.where(unknown, 0.0, self._whole)
        found = numbers.up(terms.sum(axis=1) * (1.0 + gamma(forms.shape[1] + 8)))
        return np.where((forms[:, unknown] != 0.0).any(axis=1), math.inf, found)

    def over(self, region: Region, forms: Floats, members: Sequence[Integers]) -> Floats:
        """See `Applied.over`; only for single members."""
        found = np.full((len(members), len(forms)), math.inf)
        single = np.flatnonzero([len(each) == 1 for each in members])
        for begin in range(0, len(single), _TOGETHER):
            rows = single[begin : begin + _TOGETHER]
            unique, which = np.unique([int(members[i][0]) for i in rows], return_inverse=True)
            program = margin_program(
                self.reader.graph, self.family.family.take(unique), self.example.net.arithmetic
            )
            found[rows] = program.form_errors(which, region.rows(rows), forms)
        return found


def read_application(reader: Reader, point: int, inputs: Inputs, numbers: Arithmetic) -> Applied:
    """Bound what is applied to a point once over all of the point's inputs."""
    one = _One.of(reader.graph, reader.stack, reader.parameters, point, inputs, numbers)
    return one if reader.members is None else _AnyOf(reader, reader.members, one)


def whole_form_errors(
    applied: Sequence[Applied], forms: Sequence[Floats], numbers: Arithmetic
) -> Floats:
    """Bound evaluation errors of rows over the whole region, shape (r,)."""
    total = np.zeros(len(forms[0]))
    for each, own in zip(applied, forms, strict=True):
        some = own.any(axis=1)
        if some.any():
            total[some] = _sum(total[some], each.whole(own[some]), numbers)
    return total


def _sum(one: Floats, two: Floats, numbers: Arithmetic) -> Floats:
    """Add errors, which may be infinite."""
    known = np.isfinite(one) & np.isfinite(two)
    total = numbers.number(np.where(known, one, 0.0)) + np.where(known, two, 0.0)
    return np.where(known, numbers.up(total), math.inf)


@dataclass(frozen=True, eq=False)
class FormErrors:
    """Bounds evaluation errors over regions of the joint input."""

    applied: tuple[Applied, ...]
    origin: Floats  # shape (joint,)
    joint: Joint
    starts: tuple[int, ...]  # start of each layer's neurons in the joint network
    forms: tuple[tuple[Floats, ...], ...]  # shape (r, labels)
    rows: int  # most rows of a case
    share: float  # factor of the errors to charge: a power of two
    arithmetic: Arithmetic

    def over(self, asked: Asked) -> Floats:
        """Return the errors of each node's rows; 0 beyond those of its case."""
        pad = 4 * UNIT * (np.abs(asked.upper) + np.abs(self.origin))
        low, high = asked.lower + self.origin - pad, asked.upper + self.origin + pad
        found = np.zeros((len(asked.case), self.rows))
        for case in np.unique(asked.case):
            nodes = np.flatnonzero(asked.case == case)
            members = [asked.members[i] for i in nodes]
            for a, forms in enumerate(self.forms[int(case)]):
                some = np.flatnonzero(forms.any(axis=1))
                if len(some):
                    least, most = self._box(self.applied[a], low[nodes], high[nodes])
                    known = self._hidden_bounds(a, asked.state[nodes])
                    region = Region(np.maximum(most, 0.0), np.maximum(-least, 0.0), *known)
                    errors = self.applied[a].over(region, forms[some], members)
                    at = np.ix_(nodes, some)
                    found[at] = _sum(found[at], self.share * errors, self.arithmetic)
        return found

    def _hidden_bounds(self, application: int, state: Floats) -> tuple[list[Floats], list[Floats]]:
        """Return bounds of an application's hidden layers, from the joint network's."""
        place, low, high = self.joint.places[application], state[:, 0], state[:, 1]
        if place.second:
            # Differences are within the band, whichever pairs are tied.
            low, high = low - state[:, 3], high + state[:, 2]
        at = []
        for layer, before, width in zip(
            self.starts, place.hidden, self.applied[application].widths, strict=False
        ):
            at.append(slice(layer + before, layer + before + width))
        return [low[:, each] for each in at], [high[:, each] for each in at]

    def _box(self, applied: Applied, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return the box of an application's point, shape (n, features)."""
        spot, whole = self.joint.spots[applied.point], applied.inputs
        least, most = low[:, spot.own], high[:, spot.own]
        if spot.base is not None:
            room = 4 * UNIT * (np.abs(low) + np.abs(high))
            pad = room[:, spot.own] + room[:, spot.base]
            least, most = least + low[:, spot.base] - pad, most + high[:, spot.base] + pad
        return np.clip(least, whole.lower, whole.upper), np.clip(most, whole.lower, whole.upper)


_MOST = 1e200
"""Largest coefficient, so that products with float32 numbers stay far below float64's largest."""

_TINY = 1e-290
"""Error assumed for smaller quotients: float64 has no finer numbers there."""

_FOLDED = 2.0**-27
"""Allowed effect on a form of folding a network in float64, relative to that of float32."""


@dataclass(frozen=True, eq=False)
class Points:
    """A claim over points."""

    part: ClaimPart  # checked against the networks and boxes
    readers: tuple[Reader, ...]  # one per application
    inputs: tuple[Inputs, ...]  # one per point
    arithmetic: Arithmetic  # arithmetic of the check

    @cached_property
    def applications(self) -> tuple[Applied, ...]:
        """All applications, separately."""
        return tuple(
            read_application(reader, each.point, self.inputs[each.point], self.arithmetic)
            for reader, each in zip(self.readers, self.part.applications, strict=True)
        )

    def _joint(self, near: bool) -> Joint:
        parts = [
            Part(reader.stack, each.point, reader.members)
            for reader, each in zip(self.readers, self.part.applications, strict=True)
        ]
        return join_parts(parts, [len(each.lower) for each in self.inputs], near=near)

    @property
    def members(self) -> int:
        """The number of members it covers; 1 if it covers no whole family."""
        return next((len(each.members) for each in self.readers if each.members is not None), 1)

    @property
    def _rounding_share(self) -> float:
        """The share of float32 errors that applies: folding rounds in float64."""
        return _FOLDED if self.part.reals else 1.0

    def shape(self) -> Shape:
        """Return the limits on the contents of its tree."""
        joint = self._joint(False)
        goals, ties = [], []
        for case in self.part.cases:
            count = len(case.goals) + len(case.conditions) + len(case.inside)
            goals.append(np.arange(count) < len(case.goals))
            moved = [
                any(c and joint.places[a].second for a, _, c in form.scores)
                for form in (*case.goals, *case.conditions)
            ]
            # A vertex is chosen for a single form: see docs/certificates.md.
            ties.append(not joint.is_pair or sum(moved) <= 1)
        hidden = sum(layer.width for layer in joint.first.layers[:-1])
        names = tuple(f"case {i}" for i in range(len(goals)))
        return Shape(joint.width, hidden, self.members, tuple(goals), tuple(ties), names)

    def spaces(self) -> Iterator[Space]:
        """Return the cases by region; those over the same region are together."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for i, case in enumerate(self.part.cases):
            ends = self._apart(case) if case.near else None
            key = (case.origin, None if ends is None else tuple(e.tobytes() for e in ends))
            alike.setdefault(key, []).append(i)
        for numbers in alike.values():
            yield self._space(numbers)

    def _space(self, numbers: list[int]) -> Space:
        cases = [self.part.cases[i] for i in numbers]
        joint = self._joint(cases[0].near)
        inputs = self._inputs(cases[0])
        origin = np.array(cases[0].origin)
        if origin.shape != (joint.width,) or not (np.abs(origin) <= _MOST).all():
            raise RejectedError(
                f"case {numbers[0]} has an origin of the wrong size, or one that is not finite"
            )
        if (origin > inputs.lower).any():
            raise RejectedError(f"case {numbers[0]} has an origin above its lower bounds")
        net = make_net(joint.first, inputs, self.arithmetic, origin)
        # Each tree numbers its sets separately.
        store = SetStore(joint.others, joint.first, net)
        begin = start(net, store.sets([0], [np.arange(self.members, dtype=np.int64)]))
        store.forget()
        rows, forms = [], []
        for number, case in zip(numbers, cases, strict=True):
            own, scores = self._rows(case, joint)
            if not np.isfinite(own.errors).all():
                raise RejectedError(f"case {number}: scores may overflow float32")
            rows.append(own)
            forms.append(scores)
        widest = max(len(each.goal) for each in rows)
        errors = FormErrors(
            self.applications, origin, joint, net.starts, tuple(forms), widest,
            self._rounding_share, self.arithmetic,
        )  # fmt: skip
        return Space(
            net,
            begin,
            store,
            joint.is_pair,
            stacked_rows(rows, net, begin),
            np.array(numbers),
            errors,
        )

    def _inputs(self, case: CasePart) -> Inputs:
        """Return the region of the joint input; for two near points that of (x, y - x)."""
        lower = [each.lower for each in self.inputs]
        upper = [each.upper for each in self.inputs]
        tables, begin = [], 0
        for p, each in enumerate(self.inputs):
            # Listed values of a second point do not restrict its difference from the first.
            own = () if case.near and p == 1 else each.tables
            tables += [Table(table.columns + begin, table.values) for table in own]
            begin += len(each.lower)
        if case.near:
            lower[1], upper[1] = self._apart(case)
        return Inputs(np.concatenate(lower), np.concatenate(upper), tuple(tables))

    def _apart(self, case: CasePart) -> tuple[Floats, Floats]:
        """Bound y - x: by the boxes, and by single conditions on one feature of both."""
        first, second = self.inputs
        low = np.nextafter(second.lower - first.upper, -math.inf)
        high = np.nextafter(second.upper - first.lower, math.inf)
        # A goal is also a condition if the claim is that there is no counter-example at all.
        asked = (*case.conditions, *(case.goals if self.part.decides else ()))
        for form in asked:
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
        if not (low <= high).all():
            raise RejectedError("no two points are as close as a case requires")
        return low, high

    def _rows(self, case: CasePart, joint: Joint) -> tuple[CaseRows, tuple[Floats, ...]]:
        """Return the rows of a case, and their coefficients for each application."""
        forms = [*case.goals, *case.conditions]
        count = len(forms) + len(case.inside)
        number = self.arithmetic.number
        inputs = number(np.zeros((count, joint.width)))
        own = [np.zeros((count, reader.stack.labels)) for reader in self.readers]
        constant = np.zeros(count)
        for k, form in enumerate(forms):
            constant[k] = form.constant
            for p, i, c in form.features:
                self._add(inputs, k, joint, p, i, c)
            for a, j, c in form.scores:
                own[a][k, j] = c
        for k, (p, i, side) in enumerate(case.inside, len(forms)):
            ends = self.inputs[p].upper if side else self.inputs[p].lower
            self._add(inputs, k, joint, p, i, -1.0 if side else 1.0)
            constant[k] = float(ends[i]) if side else -float(ends[i])
        shape = (count, joint.first.labels)
        scores, change, slip = (number(np.zeros(shape)) for _ in range(3))
        for place, each in zip(joint.places, own, strict=True):
            at = slice(place.start, place.start + each.shape[1])
            scores[:, at], slipped = add_sums(scores[:, at], each)
            slip[:, at] += slipped
            if place.second:
                change[:, at] += each
        errors = self._rounding_share * whole_form_errors(self.applications, own, self.arithmetic)
        sums = np.array(case.sums, np.int64).reshape(-1, 2)
        return CaseRows(
            inputs,
            scores,
            change,
            constant,
            errors,
            np.arange(count) < len(case.goals),
            sums,
            slip,
        ), tuple(own)

    @staticmethod
    def _add(
        rows: Floats, k: int, joint: Joint, point: int, feature: int, coefficient: float
    ) -> None:
        spot = joint.spots[point]
        for at in (spot.own, spot.base):
            if at is not None:
                rows[k, at.start + feature] += coefficient


def read_points(part: ClaimPart, shelf: Shelf, numbers: Arithmetic) -> Points:
    """Load the files of a claim, and check its cases against them."""
    if not part.points or not part.applications or not part.cases:
        raise RejectedError("it has no points, no networks or no cases")
    if part.decides and not part.upper < 0.0:
        raise RejectedError("to rule out counter-examples, the bound must be below 0")
    for each in part.applications:
        if not 0 <= each.point < len(part.points):
            raise RejectedError("a network is applied to a point that does not exist")
    readers = tuple(shelf.reader(each) for each in part.applications)
    if sum(each.members is not None for each in readers) > 1:
        # A single number denotes a node's members.
        raise CertificateError(
            "members are applied more than once, which the checker does not support"
        )
    inputs = tuple(read_box(box, *_width(p, part, readers)) for p, box in enumerate(part.points))
    found = Points(part, readers, inputs, numbers)
    for i, case in enumerate(part.cases):
        _hold(f"case {i}", case, found)
    return found


def _width(point: int, part: ClaimPart, readers: tuple[Reader, ...]) -> tuple[int, str]:
    """Return a point's number of features, and the networks that read it."""
    own = [
        reader
        for reader, each in zip(readers, part.applications, strict=True)
        if each.point == point
    ]
    if len({reader.stack.inputs for reader in own}) > 1:
        raise RejectedError("networks with different inputs are applied to one point")
    if not own:
        raise RejectedError("no network is applied to one of the points")
    return own[0].stack.inputs, str(own[0].path)


def _hold(name: str, case: CasePart, points: Points) -> None:
    """Refuse a case that refers to something missing, or whose numbers prove nothing."""
    if not case.goals:
        raise RejectedError(f"{name} has no goal")
    widths = [len(each.lower) for each in points.inputs]
    labels = [reader.stack.labels for reader in points.readers]
    for form in (*case.goals, *case.conditions):
        _places(name, "feature", form.features, widths)
        _places(name, "score", form.scores, labels)
        _numbers(name, form)
    count = len(case.goals) + len(case.conditions) + len(case.inside)
    if not all(0 <= k < count and 0 <= o < count for k, o in case.sums):
        raise RejectedError(f"{name} adds up rows that do not exist")
    for p, i, side in case.inside:
        if not (0 <= p < len(widths) and 0 <= i < widths[p] and side in {0, 1}):
            raise RejectedError(f"{name} uses a bound of a box that does not exist")
    if case.near and (len(widths) != 2 or widths[0] != widths[1]):
        raise RejectedError(
            f"{name} requires points to be close that are not two points of the same size"
        )


def _places(
    name: str, what: str, terms: Iterable[tuple[int, int, float]], sizes: list[int]
) -> None:
    seen: set[tuple[int, int]] = set()
    for of, at, _ in terms:
        if not (0 <= of < len(sizes) and 0 <= at < sizes[of]):
            raise RejectedError(f"{name} refers to a {what} that does not exist")
        if (of, at) in seen:
            raise RejectedError(f"{name} uses a {what} twice in one form")
        seen.add((of, at))


def _numbers(name: str, form: FormPart) -> None:
    numbers = (form.constant, *(term[2] for term in (*form.features, *form.scores)))
    if not all(abs(number) <= _MOST for number in numbers):
        raise RejectedError(f"{name} has a number that is not finite, or exceeds {_MOST:g}")
