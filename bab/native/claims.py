"""Claims over points as questions: robustness, equivalence, fairness and others."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.attack.claim_attack import Seeker
from leaveout.bab.attack.counterexamples import Found
from leaveout.bab.forms import Forms
from leaveout.bab.instance import LARGEST, Clusters, make_clusters
from leaveout.bab.joint_claim import FormErrors, JointClaim
from leaveout.bab.native.boundary import Boundary, PointRegions
from leaveout.bab.native.files.manifest_parts import box_digest, family_digest, network_digest
from leaveout.bab.native.files.proof_trees import Room
from leaveout.bab.native.nodes import Node
from leaveout.bab.native.options import NativeOptions
from leaveout.bab.native.question import SMALL_REGION, Hint, Prepared, with_room
from leaveout.bab.native.space import Space, make_space
from leaveout.deadline import Deadline
from leaveout.encoders import Box
from leaveout.encoders.query import Case, Form, Query


class Propagation:
    """Upper bounds for the cases of one query; each network is propagated once."""

    def __init__(self, query: Query, errors: FormErrors) -> None:
        self._query, self._errors = query, errors
        self._scores = [bounds[-1] for bounds in errors.bounds]

    def upper(self, case: Case) -> float:
        """Bound the least goal over a case's counter-examples; return infinity if unknown."""
        conditions = [self._upper(each.form) for each in case.conditions]
        if case.goals and any(bound < 0.0 for bound in conditions):
            return -math.inf
        return min([self._upper(form) for form in case.goals] or conditions, default=math.inf)

    def _upper(self, form: Form) -> float:
        total = Fraction(form.constant)
        for point, feature, c in form.features:
            box = self._query.points[point]
            total += Fraction(c) * Fraction(float((box.upper if c > 0 else box.lower)[feature]))
        for application, label, c in form.scores:
            scores = self._scores[application]
            end = float((scores.upper if c > 0 else scores.lower)[label])
            if not math.isfinite(end):
                return math.inf
            total += Fraction(c) * Fraction(end)
        error = float(self._errors.over([form])[0])
        if not math.isfinite(error):
            return math.inf
        try:
            value = float(total + Fraction(error))
        except OverflowError:
            return math.inf
        # Rounded up by more than the summing of errors may have lost.
        return value + 1e-12 * (abs(value) + error)


STEPS = 40  # steps of the dual ascent at a node, when the largest value is sought

_FEW_STEPS = 10  # the same when a node only has to be dropped: then visiting more nodes proves more

BELOW = math.nextafter(0.0, -math.inf)
"""Upper bound that excludes counter-examples of a guarantee; at exactly 0 there may be some."""

_UNIT32 = 2.0**-24

_SAME = 1e-9  # bounds this close count as equal, even near 0

_MATTERS = 8.0
"""Errors are recomputed if they exceed one part in this many of a node's open part ..."""

_NARROWER = 0.7  # ... and the region has shrunk by this factor since the last time


def tune_ascents(options: NativeOptions, *, decides: bool) -> NativeOptions:
    """Return options with ascents suited to deciding a claim, or to bounding its value."""
    if decides:
        return replace(options, steps=_FEW_STEPS, reach=1.0)
    return replace(options, steps=STEPS)


class Claims:
    """A `Question`: the largest least goal over the counter-examples of some cases."""

    least = -math.inf
    # The root nodes often settle the question.
    seeks_first = False
    opens_slowly = False

    def __init__(self, claim: JointClaim, label: int = -1, seed: int = 0) -> None:
        self.claim, self.label, self.seed = claim, label, seed
        self.members = len(claim.joint.members)

    @cached_property
    def overflows(self) -> bool:
        """Whether bounds by propagation may have left float64's range."""
        known = (each for bounds in self.claim.errors.bounds for each in bounds)
        return not all((each.magnitude < LARGEST).all() for each in known)

    @cached_property
    def most(self) -> float:
        """The bound proved by propagation for all cases."""
        if self.overflows:
            return math.inf
        known = Propagation(self.claim.query, self.claim.errors)
        return max((known.upper(case) for case in self.claim.cases), default=-math.inf)

    @cached_property
    def rounding(self) -> float:
        """Return how far float32 evaluation may shift a bound anywhere."""
        forms = self.claim.forms
        return float(forms.errors[forms.goal].max())

    @cached_property
    def space(self) -> Space:
        """Return the region with the networks over it."""
        joint = self.claim.joint
        space = make_space(joint.first, joint.members, joint.box, self.clusters)
        root, starts = space.root, space.layout.starts
        # Lines of smooth neurons differ there, and a certificate could not say why they hold.
        known = (
            []
            if joint.first.is_smooth
            else zip(joint.places, self.claim.errors.bounds, strict=True)
        )
        for place, own in known:
            for k, start in enumerate(() if place.second else place.hidden):
                at = slice(starts[k] + start, starts[k] + start + len(own[k].lower))
                root[0, at] = np.maximum(root[0, at], own[k].lower)
                root[1, at] = np.minimum(root[1, at], own[k].upper)
        return replace(space, bounded=not self.claim.forms.has_differences.any())

    @cached_property
    def clusters(self) -> Clusters | None:
        """Return clusters of similar members, or None."""
        joint = self.claim.joint
        return make_clusters(joint.first, joint.members) if self.members > 1 else None

    @cached_property
    def forms(self) -> Forms:
        """Return the forms in the kernels' representation."""
        return self.space.read(self.claim.forms)

    @cached_property
    def room(self) -> Room:
        """See `Question.room`."""
        forms, cases = self.forms, range(self.forms.cases)
        rounding = _UNIT32 * forms.sizes if self.claim.query.reals else forms.errors
        padded = np.zeros((forms.cases, forms.width))
        for i in cases:
            rows = forms.case(i)
            padded[i, : rows.stop - rows.start] = rounding[rows]
        sizes = np.array([float(forms.sizes[forms.case(i)].max()) for i in cases])
        return Room(padded, np.minimum(1.0, sizes))

    @cached_property
    def seeker(self) -> Seeker:
        """Return the seeker of counter-examples."""
        return Seeker(self.claim, self.seed)

    def prepare(self, options: NativeOptions) -> Prepared:
        """See `Question.prepare`."""
        joint, space, forms = self.claim.joint, self.space, self.forms
        smooth = joint.first.is_smooth
        # Tied phases cover all ways to pass on a difference for one of its forms, not for several.
        touching = [int(forms.has_differences[forms.case(i)].sum()) for i in range(forms.cases)]
        return Prepared(
            space,
            forms,
            self.clusters,
            ClaimRounding(self.claim, space),
            tuple(_shift_region(space, *region) for region in joint.regions),
            tuple(not joint.is_pair or (count <= 1 and not smooth) for count in touching),
            None if smooth else Boundary(self.claim, space),
        )

    def payload(self) -> ClaimPayload:
        """See `Question.payload`."""
        return ClaimPayload(self.claim, self.label, self.seed)

    def first(
        self, options: NativeOptions, deadline: Deadline, enough: float = math.inf
    ) -> Found | None:
        """See `Question.first`."""
        return self.seeker.first(deadline, enough)

    def follow(self, hints: list[Hint], at_least: float, deadline: Deadline) -> Found | None:
        """See `Question.follow`."""
        lanes = [self.seeker.lane(hint.member, hint.case) for hint in hints]
        points = np.stack([hint.point for hint in hints])
        return self.seeker.follow(points, np.array(lanes, np.int64), at_least, deadline)

    def rounding_near(self, found: Found) -> float:
        """See `Question.rounding_near`."""
        boxes = []
        for point, whole in zip(found.points, self.claim.query.points, strict=True):
            near = point.astype(np.float64)
            boxes.append(
                Box(
                    np.maximum(near - SMALL_REGION / 2, whole.lower),
                    np.minimum(near + SMALL_REGION / 2, whole.upper),
                )
            )
        own = [int(i[0]) for i in self.claim.joint.members.indices(np.array([found.member]))]
        goals = self.claim.cases[found.case].goals
        return float(self.claim.errors.over(goals, boxes, own).max())

    def enough(self, lower: float, gap: float) -> float:
        """See `Question.enough`."""
        return lower + max(_SAME, gap * abs(lower)) if math.isfinite(lower) else lower

    def witness_point(self, found: Found) -> NDArray[np.floating]:
        """See `Question.witness_point`."""
        return found.place

    def replay(self, point: NDArray[np.floating], member: int) -> Found | None:
        """See `Question.replay`."""
        every = [
            self.seeker.replay(np.asarray(point, np.float64), case, member)
            for case in range(self.claim.forms.cases)
        ]
        return max(filter(None, every), key=lambda each: each.value, default=None)

    def digests(self) -> dict[str, str]:
        """See `Question.digests`."""
        query = self.claim.query
        networks = [network_digest(each.network) for each in query.applications]
        facts = (
            [(each.point, each.family) for each in query.applications],
            query.reals,
            self.claim.cases,
        )
        return {
            "network": _digest(networks),
            "family": _digest([family_digest(each.family) for each in query.families]),
            "box": _digest([box_digest(box) for box in query.points]),
            "claim": _digest([repr(facts)]),
        }


@dataclass(frozen=True, eq=False)
class ClaimPayload:
    """Claims in the form sent to another process."""

    claim: JointClaim
    label: int
    seed: int

    def open(self) -> Claims:
        """Return the question."""
        return Claims(self.claim, self.label, self.seed)


class ClaimRounding:
    """Evaluation error bounds of forms over a node's region, where useful."""

    def __init__(self, claim: JointClaim, space: Space) -> None:
        self._claim, self._regions = claim, PointRegions(claim, space)

    def __call__(self, node: Node, target: float) -> Node:
        """Return the node with the errors of its region, where these may help."""
        claim, rows = self._claim, self._claim.rows[node.case]
        count, goals = len(rows), len(claim.cases[node.case].goals)
        width = float((node.upper - node.lower).mean())
        if (
            len(node.members) > 1
            or not node.errors[:count].any()
            or not np.isfinite(node.errors).all()
            or width > _NARROWER * node.rounding_width
            or node.value - target > _MATTERS * float(node.errors[:goals].max())
        ):
            return node
        own = [int(i[0]) for i in claim.joint.members.indices(node.members)]
        found = claim.errors.over(
            rows, self._regions.boxes(node), own, self._regions.hidden_bounds(node)
        )
        errors = node.errors.copy()
        whole = claim.forms.errors[claim.forms.case(node.case)]
        errors[:count] = with_room(found, errors[:count], whole)
        return replace(node, errors=errors, rounding_width=width)


def _shift_region(space: Space, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return part of the region in the kernels' coordinates, slightly widened."""
    least = np.maximum(np.nextafter(lower - space.origin, -np.inf), space.lower)
    return least, np.minimum(np.nextafter(upper - space.origin, np.inf), space.upper)


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
