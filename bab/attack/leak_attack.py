"""Attacks that find leaks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.leak_field import make_field
from leaveout.bab.attack.multistart import SEEN, attack, sample_box
from leaveout.bab.attack.refine import better, finish, refine
from leaveout.bab.instance import Instance
from leaveout.bab.witness import Replayer, Witness
from leaveout.deadline import NEVER, Deadline
from leaveout.models import confidence

Points = NDArray[np.float64]
Indices = NDArray[np.int64]

_SAMPLE = 64

_AGAIN = 2
"""Candidates that are followed as they are where smoothing gives nothing better."""

_FEW, _NEAR = 15, 2e-3
"""Steps of that, and how far the first may go, as a share of the box."""


def find_leak(
    instance: Instance,
    label: int,
    replayer: Replayer,
    *,
    seed: int = 0,
    ascents: int = 12,
    deadline: Deadline = NEVER,
    enough: float = float("inf"),
) -> Witness | None:
    """Search for a leak of high confidence in ``label`` over all members."""
    rng = np.random.default_rng(seed)
    field = make_field(instance, label, replayer, sample_box(instance.box, rng, SEEN))
    return attack(field, rng, ascents=ascents, deadline=deadline, enough=enough)


def improve(
    instance: Instance,
    label: int,
    replayer: Replayer,
    point: Points,  # shape (d,)
    member: int,
    *,
    at_least: float = 0.0,
) -> Witness | None:
    """Ascend from a candidate, then back off from the tie until it replays in float32."""
    members = np.asarray([member], np.int64)
    return improve_many(instance, label, replayer, point[None], members, at_least=at_least)


def improve_many(
    instance: Instance,
    label: int,
    replayer: Replayer,
    points: Points,  # shape (p, d)
    members: Indices,  # shape (p,)
    *,
    at_least: float = 0.0,
) -> Witness | None:
    """Ascend from many candidates at once; see `leaveout.bab.attack.refine.refine`."""
    if not len(points):
        return None
    sample = instance.box.sample(np.random.default_rng(0), _SAMPLE)
    field = make_field(instance, label, replayer, sample)
    found = refine(field, points, members, at_least=at_least)
    if found is not None and found.confidence > at_least:
        return found
    # Smoothing may lead away from a point that is as good as the best.
    near = instance.box.nearest(points)
    own = confidence(instance.network.stack.scores(near)[0], label)
    again = np.flatnonzero(own > at_least)[:_AGAIN]
    if not len(again):
        return found
    return better(found, finish(field, near[again], members[again], steps=_FEW, radius=_NEAR))
