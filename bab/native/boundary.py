"""Settling of nodes beyond float64: claims that hold, or fail, by less than rounding errors.

Bounds of nodes are padded for rounding, so they never fall below a claim that holds with equality.
Where only padding keeps a node open, its cases are examined without it: over the reals in exact
arithmetic, in float32 by the exact range of the scores, bit by bit.
"""

from __future__ import annotations

import time
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.joint_claim import JointClaim
from leaveout.bab.native.nodes import Node
from leaveout.bab.native.question import Settled
from leaveout.bab.native.space import Space
from leaveout.encoders import Box, Interval
from leaveout.encoders.applied import computed_ends
from leaveout.encoders.joint import ends_of
from leaveout.encoders.query import Form
from leaveout.encoders.rational import (
    Affine,
    Bounded,
    Phases,
    Polytope,
    Rows,
    bound_scores,
    scores_at,
)
from leaveout.models.matrices import Sparse, take_rows

_ROOM = 1e-9  # share of the absolute terms of a sum, which may cancel


class PointRegions:
    """Converter from a claim's nodes to regions of its points."""

    def __init__(self, claim: JointClaim, space: Space) -> None:
        self._claim, self._space = claim, space

    def joint(self, node: Node) -> tuple[list[Fraction], list[Fraction]]:
        """Return the node's exact range of the joint input, shifted back, in the box."""
        origin, box = self._space.origin, self._claim.joint.box
        low, high = (
            [Fraction(v) + Fraction(o) for v, o in zip(ends.tolist(), origin.tolist(), strict=True)]
            for ends in (node.lower, node.upper)
        )
        lower = [max(v, Fraction(end)) for v, end in zip(low, box.lower.tolist(), strict=True)]
        upper = [min(v, Fraction(end)) for v, end in zip(high, box.upper.tolist(), strict=True)]
        return lower, list(map(max, lower, upper))

    def boxes(self, node: Node, *, room: bool = True) -> list[Box]:
        """Return the box of each point."""
        claim, origin = self._claim, self._space.origin
        low = np.nextafter(node.lower + origin, -np.inf)
        high = np.nextafter(node.upper + origin, np.inf)
        boxes = []
        for (matrix, copies), whole in zip(self._matrices, claim.query.points, strict=True):
            least, most = ends_of(matrix, low, high)
            size = np.maximum(np.abs(low), np.abs(high))
            more = _ROOM * ends_of(matrix, -size, size)[1]
            if not room:
                more[copies] = 0.0
            least = np.minimum(np.maximum(least - more, whole.lower), whole.upper)
            boxes.append(Box(least, np.maximum(np.minimum(most + more, whole.upper), least)))
        return boxes

    @cached_property
    def _matrices(self) -> list[tuple[Sparse, NDArray[np.bool_]]]:
        """Return each point's matrix, and which features are single joint inputs."""
        return [(point, np.diff(point.starts) == 1) for point in self._claim.joint.points]

    def hidden_bounds(self, node: Node) -> list[list[Interval]]:
        """Return a node's bounds of each application's hidden pre-activations."""
        lower, upper, above, below = node.state[:4]
        # The second network's differences are within the band, whatever phases are tied.
        second = Interval(lower - below, upper + above)
        claim, starts = self._claim, self._space.layout.starts
        found = []
        for place, each in zip(claim.joint.places, claim.query.applications, strict=True):
            known = second if place.second else Interval(lower, upper)
            own = []
            for k, start in enumerate(place.hidden):
                first = starts[k] + start
                at = slice(first, first + each.network.stack.layers[k].width)
                own.append(Interval(known.lower[at], known.upper[at]))
            found.append(own)
        return found


Neuron = tuple[int, int, int]
"""Application, layer and position."""

_NOISE = 1e-10
"""Distance from the target, relative to a case's terms, within which bounds may stay forever."""

_UNDERFLOW = 1e-30

_NEAR_REALS = 2.0**-10
"""Distance from the target, relative to a case's terms, within which exact arithmetic is tried."""

_NEAR_FLOAT32 = 16.0
"""Distance from the target, in float32 evaluation errors, within which its ranges are tried."""

_SHARE, _START = 0.25, 0.2
"""Share of the time spent here, and seconds at the start; less if few nodes are settled."""

_WORK = 200_000  # most products in exact arithmetic per node
_MOST_ROWS = 60


_UNKNOWN = Settled(False)


class Boundary:
    """Settler of the nodes of a claim that is to be decided."""

    def __init__(self, claim: JointClaim, space: Space) -> None:
        self._claim, self._space = claim, space
        self._regions = PointRegions(claim, space)
        self._decided = [
            set(case.goals) <= {each.form for each in case.conditions} for case in claim.cases
        ]
        self._begun, self._spent = time.perf_counter(), 0.0
        self._tried = self._won = 0

    @cached_property
    def _sizes(self) -> Floats:
        """Return the approximate term sizes of each case, from a few points of the region."""
        claim, forms, box = self._claim, self._claim.forms, self._claim.joint.box
        points = np.stack([box.lower, (box.lower + box.upper) / 2, box.upper])
        largest = max(
            float(np.abs(each).max(initial=0.0)) for each in claim.joint.first.activations(points)
        )
        factors = np.abs(forms.scores).max(axis=1) + np.abs(forms.change).max(axis=1)
        inputs = np.abs(forms.inputs) @ np.abs(points).max(axis=0)
        rows = np.abs(forms.constant) + inputs + factors * largest
        return np.array([float(rows[forms.case(i)].max()) for i in range(forms.cases)])

    @cached_property
    def noise(self) -> float:
        """See `Settling.noise`; 0 if values are requested, so that no node is given up."""
        return _NOISE * float(self._sizes.max()) + _UNDERFLOW if all(self._decided) else 0.0

    def applies(self, node: Node, target: float, *, last: bool) -> bool:
        """See `Settling.applies`."""
        if not self._decided[node.case] or len(node.members) > 1:
            return False
        if last:
            return True
        near = (
            _NEAR_REALS * float(self._sizes[node.case])
            if self._claim.query.reals
            else _NEAR_FLOAT32 * float(node.errors.max(initial=0.0))
        )
        if node.value - target > near + self.noise:
            return False
        granted = _START + _SHARE * (time.perf_counter() - self._begun)
        return self._spent <= granted * (1 + self._won) / (1 + self._tried)

    def settle(self, node: Node) -> Settled:
        """Examine a node without padding."""
        begun = time.perf_counter()
        found = self._exactly(node) if self._claim.query.reals else self._in_float32(node)
        self._spent += time.perf_counter() - begun
        self._tried += 1
        self._won += found is not _UNKNOWN
        return found

    def _in_float32(self, node: Node) -> Settled:
        claim = self._claim
        own = [int(i[0]) for i in claim.joint.members.indices(node.members)]
        hidden = self._regions.hidden_bounds(node)
        scores: list[Interval] = []
        inside: list[Box] = []
        for box, whole in zip(
            self._regions.boxes(node, room=False), claim.query.points, strict=True
        ):
            numbers = _float32_box(box, whole)
            if numbers is None:
                return Settled(True)
            inside.append(numbers)
        for a, each in enumerate(claim.query.applications):
            member = None if each.family is None else own[each.family]
            error = claim.errors.applied[a].rounding(inside[each.point], member, hidden[a])
            if not error.finite or not error.evaluation.signed:
                return _UNKNOWN
            scores.append(computed_ends(error, inside[each.point]))
        for condition in claim.cases[node.case].conditions:
            most = _most(condition.form, inside, scores)
            if most is not None and (most <= 0 if condition.strict else most < 0):
                return Settled(True)
        return _UNKNOWN

    @cached_property
    def _rows(self) -> list[tuple[Rows, ...] | None]:
        return [each.rational for each in self._claim.errors.applied]

    @cached_property
    def _reads(self) -> list[list[Affine]]:
        """Return the inputs of each application as functions of the joint point."""
        found = []
        for each in self._claim.query.applications:
            matrix = self._claim.joint.points[each.point].dense()[0]
            found.append(
                [Affine(tuple(Fraction(float(v)) for v in row), Fraction(0)) for row in matrix]
            )
        return found

    @cached_property
    def _pass(self) -> int:
        """Return the number of products in one pass through all networks."""
        width = self._claim.joint.box.dimension
        return sum(
            len(terms) * (1 + width)
            for rows in self._rows
            for layer in rows or ()
            for terms in layer.terms
        )

    def _exactly(self, node: Node) -> Settled:
        if any(rows is None for rows in self._rows) or self._pass > _WORK:
            return _UNKNOWN
        lower, upper = self._regions.joint(node)
        waiting: list[dict[Neuron, int]] = [self._phases(node)]
        work = 0
        while waiting:
            phases = waiting.pop()
            work += self._pass
            if work > _WORK + self._pass:
                return _UNKNOWN
            found = [
                bound_scores(rows or (), reads, lower, upper, _own(phases, a))
                for a, (rows, reads) in enumerate(zip(self._rows, self._reads, strict=True))
            ]
            points, pivots = self._possible_points(node.case, found, lower, upper)
            work += pivots
            if points is None:
                continue
            if all(layer.exact for rows in self._rows for layer in rows or ()):
                met = [point for point in points if self._is_met(node.case, point)]
                if met:
                    return Settled(False, tuple(np.array(list(map(float, p))) for p in met))
            gaps = {(a, *at): gap for a, each in enumerate(found) for at, gap in each.open.items()}
            if not gaps:
                return _UNKNOWN
            split = max(gaps, key=gaps.__getitem__)
            waiting += [{**phases, split: side} for side in (-1, 1)]
        return Settled(True)

    def _possible_points(
        self,
        case: int,
        found: list[Bounded],
        lower: list[Fraction],
        upper: list[Fraction],
    ) -> tuple[list[list[Fraction]] | None, int]:
        """Return points where the case is not excluded, or None if there are none."""
        rows: list[tuple[Affine, bool]] = []
        for form, strict in self._conditions(case):
            above = self._above(form, found)
            if above is None:
                continue
            most = above.most(lower, upper)
            if most <= 0 if strict else most < 0:
                return None, 0
            rows.append((above, strict))
        polytope = Polytope(lower, upper)
        limits = [limit for each in found for limit in each.limits]
        if len(rows) + len(limits) > _MOST_ROWS:
            return [polytope.point()], 0
        if not all(polytope.add(each) for each in (*limits, *(form for form, _ in rows))):
            return None, polytope.pivots * len(lower) * len(rows)
        points = []
        for above, strict in rows:
            most, point = polytope.most(above)
            if strict and most <= 0:
                return None, polytope.pivots * len(lower) * len(rows)
            points.append(point)
        # If each can be met strictly, the centre of these points meets all of them.
        count = Fraction(1, max(1, len(points)))
        middle = [sum(each, Fraction(0)) * count for each in zip(*points, strict=True)]
        return [middle or polytope.point(), *points], polytope.pivots * len(lower) * len(rows)

    def _conditions(self, case: int) -> list[tuple[Form, bool]]:
        """Return the exact forms, and whether they are strict."""
        claim = self._claim
        asked = [(each.form, each.strict) for each in claim.cases[case].conditions]
        sides = claim.rows[case][len(claim.rows[case]) - claim.sides[case] :]
        return [
            each for each in (*asked, *((form, False) for form in sides)) if not each[0].rounded
        ]

    def _above(self, form: Form, found: list[Bounded]) -> Affine | None:
        """Return an affine function of the joint point that bounds a form from above."""
        width = self._claim.joint.box.dimension
        own = form.numbers
        total = Affine((Fraction(0),) * width, own.constant)
        for point, feature, c in own.features:
            row = take_rows(self._claim.joint.points[point][0], np.array([feature]))[0]
            total = total.plus(c, Affine(tuple(Fraction(float(v)) for v in row), Fraction(0)))
        for a, label, c in own.scores:
            side = found[a].upper if c > 0 else found[a].lower
            bound = side[label]
            if bound is None:
                return None
            total = total.plus(c, bound)
        return total

    def _is_met(self, case: int, point: list[Fraction]) -> bool:
        claim = self._claim
        reads = [[row.at(point) for row in each] for each in self._reads]
        scores = [scores_at(rows or (), x) for rows, x in zip(self._rows, reads, strict=True)]
        own = {each.point: x for each, x in zip(claim.query.applications, reads, strict=True)}
        points = [own.get(p, []) for p in range(len(claim.query.points))]
        for form, strict in self._conditions(case):
            value = form.least(points, scores)
            if value <= 0 if strict else value < 0:
                return False
        return True

    def _phases(self, node: Node) -> dict[Neuron, int]:
        """Return the phases that hold in a node; virtual ones for a pair of networks."""
        claim, starts = self._claim, self._space.layout.starts
        if claim.joint.is_pair:
            return {}
        found: dict[Neuron, int] = {}
        for a, (place, rows) in enumerate(zip(claim.joint.places, self._rows, strict=True)):
            for k, start in enumerate(place.hidden):
                first = int(starts[k]) + start
                own = node.phase[first : first + len((rows or ())[k].bias)]
                found.update({(a, k, j): int(own[j]) for j in np.flatnonzero(own).tolist()})
        return found


def _own(phases: dict[Neuron, int], application: int) -> Phases:
    return {(k, j): phase for (a, k, j), phase in phases.items() if a == application}


def _most(form: Form, boxes: list[Box], scores: list[Interval]) -> Fraction | None:
    """Return an upper bound of a form of computed scores; None if unknown."""
    if form.rounded:
        return None
    own = form.numbers
    total = own.constant
    for point, feature, c in own.features:
        total += c * Fraction((boxes[point].upper if c > 0 else boxes[point].lower)[feature])
    for a, label, c in own.scores:
        end = (scores[a].upper if c > 0 else scores[a].lower)[label]
        if not np.isfinite(end):
            return None
        total += c * Fraction(end)
    return total


def _float32_box(box: Box, whole: Box) -> Box | None:
    """Return the box of float32 numbers in part of a box, or None.

    For a feature without float32 numbers in the whole box, those next to its bounds are used.
    """
    none = np.greater(*_inwards(whole))
    lower, upper = _inwards(box)
    low, high = _inwards(box, -1.0)
    lower, upper = np.where(none, low, lower), np.where(none, high, upper)
    return None if (lower > upper).any() else Box(lower, upper)


def _inwards(box: Box, side: float = 1.0) -> tuple[Floats, Floats]:
    """Return float32 bounds inside a box, or around it with side -1."""
    ends = []
    for values, towards in ((box.lower, side), (box.upper, -side)):
        rounded = values.astype(np.float32)
        wide = rounded.astype(np.float64)
        beyond = wide < values if towards > 0 else wide > values
        moved = np.nextafter(rounded, np.float32(towards * np.inf))
        ends.append(np.where(beyond, moved, rounded).astype(np.float64))
    return ends[0], ends[1]
