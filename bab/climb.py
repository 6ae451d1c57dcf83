"""Sequential linear programming: push leaks to higher confidence within trust regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.pairs import Nets, Sloped, evaluate
from leaveout.deadline import NEVER, Deadline
from leaveout.encoders import Box
from leaveout.models import Stack

__all__ = ["Ascent", "Pairs", "ascend", "climb"]

Floats = NDArray[np.floating[Any]]

_STEPS = 60
_FARTHEST = 0.25
_GROWTH, _SHRINKAGE = 1.5, 0.5
_NEAREST = 1e-9
"""Smallest trust region, in sides of the box, that is of use in float64."""
_PENALTY = 100.0
"""Worth, in N's confidence, of the member's lead: above any multiplier seen of the constraint."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """What is climbed: N's confidence, while each member's lead is to be at most ``-margin``.

    Attributes
    ----------
    network : Nets
        N alone.
    members : Nets
        Of m members; p points belong to each.
    label : int
    lower, upper : ndarray, broadcast to shape (m, p, d)
        Where each point may go.
    margin : float
        In units of the scores.
    """

    network: Nets
    members: Nets
    label: int
    lower: Floats
    upper: Floats
    margin: float

    @staticmethod
    def of(
        box: Box, label: int, network: Nets, members: Nets, points: Floats, margin: float
    ) -> Pairs:
        """Let points move in the box, their discrete features staying as they are."""
        lower, upper = box.lower.astype(points.dtype), box.upper.astype(points.dtype)
        fixed = box.discrete
        if len(fixed):
            lower = np.broadcast_to(lower, points.shape).copy()
            upper = np.broadcast_to(upper, points.shape).copy()
            lower[..., fixed] = upper[..., fixed] = points[..., fixed]
        return Pairs(network, members, label, lower, upper, margin)

    def at(self, points: Floats, widths: tuple[float, ...] | None) -> tuple[Sloped, Sloped]:
        """Confidence of N and of each point's member."""
        return (
            evaluate(self.network, points, self.label, widths),
            evaluate(self.members, points, self.label, widths),
        )


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where climbs ended.

    Attributes
    ----------
    points : ndarray, shape (m, p, d)
        The best that leaked, those that leak by the margin first; where none did, the last one.
    value : ndarray, shape (m, p)
        Confidence there, ``-inf`` where none leaked.
    worth : ndarray, shape (m, p)
        Confidence of the last points, less the penalty on the member's lead.
    last : ndarray, shape (m, p, d)
        The last points, to go on from.
    """

    points: Floats
    value: Floats
    worth: Floats
    last: Floats


def ascend(
    pairs: Pairs,
    points: Floats,
    *,
    steps: int = _STEPS,
    radius: float = _FARTHEST,
    penalty: float = _PENALTY,
    widths: tuple[float, ...] | None = None,
    deadline: Deadline = NEVER,
) -> Ascent:
    """Climb from many points at once.

    Both networks are linear near a point, so each step is a linear program in x: maximise N's
    confidence minus a penalty on the member's lead above ``-margin``, within a trust region. A
    step that does not pay when both networks are evaluated shrinks the region.

    Parameters
    ----------
    pairs : Pairs
    points : ndarray, shape (m, p, d)
    steps : int
    radius : float
        Of the first trust region, in sides of the box.
    penalty : float
        A unit of the member's lead costs so much of N's confidence.
    widths : tuple of float, optional
        How far ReLUs are rounded off; see `evaluate`. What leaks is then as little a leak of the
        networks themselves.
    deadline : Deadline
    """
    sides = pairs.upper - pairs.lower
    nearest = max(_NEAREST, 2.0 * float(np.finfo(pairs.network.dtype).eps))
    own, other = pairs.at(points, widths)
    # A little more than asked, so that rounding leaves the point on the right side.
    aim = 1.01 * pairs.margin + 1e-13 * (1 + float(np.abs(other.value).max(initial=0)))
    worth = own.value - penalty * np.maximum(other.value + aim, 0)
    leak = other.value <= 0
    best, best_worth = points, np.where(leak, worth, -np.inf)
    value = np.where(leak, own.value, -np.inf)
    reach = np.full(worth.shape, radius, points.dtype)
    for _ in range(steps):
        if (reach < nearest).all() or deadline.over:
            break
        move = reach[..., None] * sides
        below = np.maximum(pairs.lower - points, -move)
        above = np.minimum(pairs.upper - points, move)
        step = _step(own, other, below, above, aim, penalty)
        trial = np.minimum(np.maximum(points + step, pairs.lower), pairs.upper)
        to, there = pairs.at(trial, widths)
        reached = to.value - penalty * np.maximum(there.value + aim, 0)
        leak = (there.value <= 0) & (reached > best_worth)
        best, best_worth = _chosen(leak, trial, best), np.where(leak, reached, best_worth)
        value = np.where(leak, to.value, value)
        # Gains below what rounding makes of them would keep a region wide for nothing.
        pays = reached > worth + 1e-12 * np.maximum(1, np.abs(worth))
        worth = np.where(pays, reached, worth)
        points = _chosen(pays, trial, points)
        own, other = _merged(pays, to, own), _merged(pays, there, other)
        reach = np.where(pays, np.minimum(_GROWTH * reach, 1), _SHRINKAGE * reach)
    return Ascent(_chosen(value > -np.inf, best, points), value, worth, points)


def climb(
    network: Stack, member: Stack, box: Box, label: int, start: Floats, margin: float
) -> Floats:
    """Raise N's confidence in ``label`` from ``start`` while the member keeps leaking.

    Parameters
    ----------
    network, member : Stack
        Of one network each.
    box : Box
        Discrete features stay as they are in ``start``.
    label : int
    start : ndarray of float64, shape (d,)
    margin : float
        In units of the scores.

    Returns
    -------
    ndarray of float64, shape (d,)
        The best point met; where none leaked, the last one.
    """
    pairs = Pairs.of(box, label, Nets.of(network), Nets.of(member), start[None, None], margin)
    return np.asarray(ascend(pairs, start[None, None]).points[0, 0])


def _step(
    own: Sloped, other: Sloped, below: Floats, above: Floats, margin: float, penalty: float
) -> Floats:
    """Solve the linear programs: one constraint and a box, so a continuous knapsack.

    With a multiplier t of the constraint every coordinate goes to the end of its side that
    ``a - t w`` points to (a, w: slopes of N and the member). As t grows from 0 to the penalty,
    coordinates turn over at ``t = a / w``, each lowering the member's lead; the one at which the
    constraint is met goes only part of the way.
    """
    a, w = own.slope, other.slope
    start = np.where(a > 0, above, np.where(a < 0, below, 0))
    end = np.where(w > 0, below, np.where(w < 0, above, start))
    with np.errstate(all="ignore"):
        turn = a / w
        turn[~((turn >= 0) & (turn <= penalty))] = np.inf
    drop = np.where(turn < np.inf, w * (start - end), 0)
    excess = (w * start).sum(axis=-1) + other.value + margin
    order = np.argsort(turn, axis=-1, kind="stable")
    ordered = np.take_along_axis(drop, order, axis=-1)
    left = excess[..., None] - (np.cumsum(ordered, axis=-1) - ordered)
    with np.errstate(all="ignore"):
        part = np.clip(np.where(ordered > 0, left / ordered, 0), 0, 1)
    fraction = np.empty_like(part)
    np.put_along_axis(fraction, order, part, axis=-1)
    return np.asarray(start + fraction * (end - start))


def _chosen(where: NDArray[np.bool_], first: Floats, second: Floats) -> Floats:
    return np.asarray(np.where(where[..., None], first, second))


def _merged(where: NDArray[np.bool_], first: Sloped, second: Sloped) -> Sloped:
    return Sloped(
        np.where(where, first.value, second.value), _chosen(where, first.slope, second.slope)
    )
