"""Counter-examples of claims over points, replayed through onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab.joint_claim import JointClaim
from leaveout.encoders.query import Condition, Form
from leaveout.encoders.rational import scores_at

Numbers = Floats | list[Fraction]

_EDGE = 1e-9  # of the terms of a form: what float64 may have wrong, and more


@dataclass(frozen=True, eq=False)
class Found:
    """A replayed counter-example."""

    value: float
    points: tuple[NDArray[np.float32], ...]  # shape (features,)
    scores: tuple[NDArray[np.float32], ...]  # shape (labels,)
    member: int  # which combination of members it is one of; 0 where there is no family
    case: int
    place: Floats  # shape (joint,): the joint point that it came of


class ClaimReplayer:
    """Replays candidates of one claim."""

    def __init__(self, claim: JointClaim) -> None:
        self.claim, self.joint = claim, claim.joint

    def replay(self, joint: Floats, case: int, member: int) -> Found | None:
        """Round a joint point to float32; return it if it is a counter-example."""
        query, asked = self.claim.query, self.claim.cases[case]
        points = self._round_points(joint)
        if points is None:
            return None
        wide = [each.astype(np.float64) for each in points]
        own = [int(index[0]) for index in self.joint.members.indices(np.array([member]))]
        scores, near, size = [], [], 0.0
        for a, each in enumerate(query.applications):
            chosen = None if each.family is None else own[each.family]
            applied = self.claim.errors.applied[a]
            scores.append(applied.runner(chosen).scores(points[each.point][None])[0])
            if not query.reals:
                near.append(scores[-1].astype(np.float64))
                continue
            stack = applied.stack(chosen)
            if stack.is_smooth:
                # Their values are known up to an error, which no edge below covers.
                return None
            values = stack.activations(wide[each.point][None])
            near.append(values[-1][0, 0])
            size = max(size, *(float(np.abs(each).max()) for each in values))
        if not all(np.isfinite(each).all() for each in near):
            return None
        # On the edge float64 may err either way.
        edges = [_edge(each.form, wide, near, size) for each in asked.conditions]
        if any(value < -edge for value, edge in edges):
            return None
        close = query.reals and any(value <= edge for value, edge in edges)
        exact = self._exactly(wide, near) if close else near
        if not all(_holds_exactly(each, wide, exact) for each in asked.conditions):
            return None
        value = _rounded_down(min(form.least(wide, exact) for form in asked.goals))
        return Found(value, tuple(points), tuple(scores), member, case, joint)

    def _exactly(self, points: list[Floats], near: list[Floats]) -> Sequence[Numbers]:
        """Return exact scores where networks allow; else float64 ones."""
        found: list[Numbers] = []
        for applied, each, known in zip(
            self.claim.errors.applied, self.claim.query.applications, near, strict=True
        ):
            rows = applied.rational
            if rows is None or not all(layer.exact for layer in rows):
                found.append(known)
            else:
                found.append(scores_at(rows, [Fraction(float(v)) for v in points[each.point]]))
        return found

    def _round_points(self, joint: Floats) -> list[NDArray[np.float32]] | None:
        """Return the points as float32 within their boxes; None if impossible."""
        points: list[NDArray[np.float32]] = []
        for box, matrix in zip(self.claim.query.points, self.joint.points, strict=True):
            place = box.clip(matrix[0] @ joint)
            if box.choices:
                place = box.nearest(place[None])[0]
            point = place.astype(np.float32)
            wide = point.astype(np.float64)
            low = np.nextafter(point, np.float32(np.inf))
            high = np.nextafter(point, np.float32(-np.inf))
            point = np.where(wide < box.lower, low, np.where(wide > box.upper, high, point))
            # A second point that agrees with the first but for a rounding does agree.
            if not box.contains(point.astype(np.float64)[None])[0]:
                return None
            points.append(point.astype(np.float32))
        return points


def _edge(
    form: Form, points: list[Floats], scores: list[Floats], size: float
) -> tuple[float, float]:
    """Return a form's float64 value and its error bound.

    Neurons are at most ``size``, whose sums may cancel in a score.
    """
    points_, scores_ = [np.abs(each) for each in points], [np.abs(each) for each in scores]
    terms = form.absolute.value(points_, [each + size for each in scores_])
    return form.value(points, scores), _EDGE * terms


def _holds_exactly(condition: Condition, points: list[Floats], scores: Sequence[Numbers]) -> bool:
    least = condition.form.least(points, scores)
    return least > 0 if condition.strict else least >= 0


def _rounded_down(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else float(np.nextafter(nearest, -np.inf))
