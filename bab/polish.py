"""From candidates to a witness: climb, back off from the tie, replay in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.anneal import QUICK, anneal
from leaveout.bab.climb import Pairs, ascend
from leaveout.bab.field import Field, make_field
from leaveout.bab.instance import Instance
from leaveout.bab.pairs import Nets
from leaveout.bab.ridge import along
from leaveout.bab.witness import Replayer, Witness

__all__ = ["better", "improve", "improve_many", "polish"]

Floats = NDArray[np.floating[Any]]
Points = NDArray[np.float64]
Indices = NDArray[np.int64]

_MARGINS = (3e-7, 3e-6, 3e-5)
"""Of the member's lead, relative to the scores: what float32 blurs at most places."""
_COPIES = 8
"""Starts about a single candidate: a batch of them costs hardly more than one."""
_SPREAD = 0.1
_SAMPLE = 64
_BACK = 12
"""Steps of a climb that backs off."""
_POLISHED = 3
_HOPELESS = 0.5
"""Share of what is asked for that the first, rounded-off climb must reach."""
_SHORT = 0.99
"""Share of it that polishing may make up for."""


def improve(
    instance: Instance,
    label: int,
    replayer: Replayer,
    point: Points,
    member: int,
    *,
    at_least: float = 0.0,
) -> Witness | None:
    """Climb from a candidate, and back off from the tie until the leak replays in float32.

    Parameters
    ----------
    instance : Instance
    label : int
    replayer : Replayer
    point : ndarray of float64, shape (d,)
    member : int
    at_least : float
        Leaks of a lower confidence are worthless: give up as soon as none is in sight.

    Returns
    -------
    Witness or None
        The best; it may be below ``at_least``.
    """
    members = np.asarray([member], np.int64)
    return improve_many(instance, label, replayer, point[None], members, at_least=at_least)


def improve_many(
    instance: Instance,
    label: int,
    replayer: Replayer,
    points: Points,
    members: Indices,
    *,
    at_least: float = 0.0,
) -> Witness | None:
    """Climb from many candidates at once; polish and replay only the most promising.

    Parameters
    ----------
    instance : Instance
    label : int
    replayer : Replayer
    points : ndarray of float64, shape (p, d)
        Moved to the nearest points of the box.
    members : ndarray of int64, shape (p,)
        Of each point.
    at_least : float
        As in `improve`.

    Returns
    -------
    Witness or None
        The best; it may be below ``at_least``.
    """
    if not len(points):
        return None
    rng = np.random.default_rng(0)
    field = make_field(instance, label, instance.box.sample(rng, _SAMPLE))
    starts = _starts(field, points, rng)
    pairs = field.pairs(field.members(members), starts)
    found = anneal(pairs, starts, QUICK, field.sizes, hopeless=_HOPELESS * at_least)
    values = found.value.max(axis=1)
    rows = np.argsort(-values, kind="stable")[:_POLISHED]
    rows = rows[(values[rows] > 0) & (values[rows] >= _SHORT * at_least)]
    if not len(rows):
        return None
    chosen = found.points[rows, found.value[rows].argmax(axis=1)].astype(np.float64)
    return polish(instance, label, replayer, chosen, members[rows], steps=15, radius=2e-3)


def polish(
    instance: Instance,
    label: int,
    replayer: Replayer,
    points: Points,
    members: Indices,
    *,
    steps: int = 40,
    radius: float = 0.02,
) -> Witness | None:
    """Climb a last time in float64, and replay: the best first, until none can be better.

    Parameters
    ----------
    instance : Instance
    label : int
    replayer : Replayer
    points : ndarray of float64, shape (p, d)
        Points of the box.
    members : ndarray of int64, shape (p,)
    steps, radius
        Of `ascend`.
    """
    starts = points[:, None].astype(np.float64)
    taken = instance.members.take(members)
    scale = 1.0 + float(np.abs(taken.scores(starts)).max())
    network, margin = Nets.of(instance.network.stack), _MARGINS[0] * scale
    pairs = Pairs.of(instance.box, label, network, Nets.of(taken), starts, margin)
    found = ascend(pairs, starts, steps=steps, radius=radius)
    best: Witness | None = None
    for row in np.argsort(-found.value[:, 0], kind="stable").tolist():
        if best is not None and found.value[row, 0] <= best.confidence:
            break
        point = found.points[row, 0]
        if instance.labels > 2:
            other = taken.member(row)
            bounds = np.broadcast_arrays(pairs.lower, pairs.upper, starts)
            sides = bounds[0][row, 0], bounds[1][row, 0]
            point = along(instance.network.stack, other, sides, label, point, margin)
        best = better(
            best, _replayed(instance, replayer, pairs, row, point, int(members[row]), scale)
        )
    return best


def _replayed(
    instance: Instance,
    replayer: Replayer,
    pairs: Pairs,
    row: int,
    point: Points,
    member: int,
    scale: float,
) -> Witness | None:
    """Replay a point, and back off from the member's tie until it leaks in float32."""
    witness = replayer.replay(point, member, pairs.label)
    nets = pairs.members.part(row, row + 1)
    for margin in (*(m * scale for m in _MARGINS[1:]), instance.member_error):
        if witness is not None:
            break
        start = point[None, None]
        safer = Pairs.of(instance.box, pairs.label, pairs.network, nets, start, margin)
        point = ascend(safer, start, steps=_BACK, radius=1e-3).points[0, 0]
        witness = replayer.replay(point, member, pairs.label)
    return witness


def better(first: Witness | None, second: Witness | None) -> Witness | None:
    """Return the witness of higher confidence."""
    if first is None or second is None:
        return first or second
    return second if second.confidence > first.confidence else first


def _starts(field: Field, points: Points, rng: np.random.Generator) -> Floats:
    """Return the candidates, and points about them where there are few: (p, copies, d)."""
    box = field.instance.box
    copies = max(1, _COPIES // len(points))
    noise = _SPREAD * rng.normal(size=(len(points), copies, box.dimension))
    noise[:, 0] = 0.0
    return field.nearest(points[:, None] + noise * (box.upper - box.lower))
