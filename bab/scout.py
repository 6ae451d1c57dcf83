"""Find leaks: walk to N's decision boundary, score every member there, climb from the best."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.climb import climb
from leaveout.bab.instance import Instance
from leaveout.bab.local import jacobians
from leaveout.bab.witness import Replayer, Witness
from leaveout.models import confidence

__all__ = ["improve", "scout"]

Floats = NDArray[np.float64]

_STARTS = 2048
_BOUNDARY = 384
_NEWTON = 6
_CHUNK = 128
_MARGINS = (1e-7, 1e-6, 1e-5)


def scout(
    instance: Instance,
    label: int,
    replayer: Replayer,
    *,
    seed: int = 0,
    climbs: int = 12,
    deadline: float = float("inf"),
) -> Witness | None:
    """Search for a leak of high confidence in ``label`` over all members.

    Parameters
    ----------
    instance : Instance
    label : int
    replayer : Replayer
    seed : int
    climbs : int
        How many (point, member) pairs to climb from.
    deadline : float
        Of `time.perf_counter`, after which no further climb is started.

    Returns
    -------
    Witness or None
        The best leak found and replayed.
    """
    sample = instance.box.sample(np.random.default_rng(seed), _STARTS)
    boundary = _boundary(instance, label, sample)
    half = (climbs + 1) // 2
    starts = [
        *_candidates(instance, label, boundary, half, leaking=False),
        *_candidates(instance, label, sample[:_BOUNDARY], climbs - half, leaking=True),
    ]
    best: Witness | None = None
    for point, member in starts:
        if time.perf_counter() > deadline:
            break
        best = better(best, improve(instance, label, replayer, point, member))
    return best


def improve(
    instance: Instance, label: int, replayer: Replayer, point: Floats, member: int
) -> Witness | None:
    """Climb from a candidate, and back off from the tie until the leak replays in float32."""
    network, other = instance.network.stack, instance.members.member(member)
    scale = 1.0 + float(np.abs(other.scores(point[None])).max())
    found = replayer.replay(point, member, label)
    for margin in (*(m * scale for m in _MARGINS), instance.member_error):
        reached = climb(network, other, instance.box, label, point, margin)
        replayed = replayer.replay(reached, member, label)
        if replayed is not None:
            return better(found, replayed)
    return found


def better(first: Witness | None, second: Witness | None) -> Witness | None:
    """Return the witness of higher confidence."""
    if first is None or second is None:
        return first or second
    return second if second.confidence > first.confidence else first


def _boundary(instance: Instance, label: int, points: Floats) -> Floats:
    """Move points by Newton steps onto, or near, the decision boundary of ``label`` in N."""
    box, network = instance.box, instance.network.stack
    rows = np.arange(len(points))
    for _ in range(_NEWTON):
        scores, slopes = jacobians(network, points)
        rivals = np.where(np.arange(scores.shape[1]) == label, -np.inf, scores).argmax(axis=1)
        ahead = scores[:, label] - scores[rows, rivals]
        slope = slopes[:, label] - slopes[rows, rivals]
        size = np.einsum("pd,pd->p", slope, slope)
        step = np.where(size > 0, ahead / np.where(size > 0, size, 1.0), 0.0)
        points = box.clip(points - step[:, None] * slope)
    final = np.abs(confidence(network.scores(points)[0], label))
    return points[np.argsort(final, kind="stable")[:_BOUNDARY]]


def _candidates(
    instance: Instance, label: int, points: Floats, count: int, *, leaking: bool
) -> list[tuple[Floats, int]]:
    """Pick the most promising (point, member) pairs, few from any one member.

    With ``leaking``, pairs that leak already, by their confidence f in N; otherwise pairs near
    the boundary, by how much the member's confidence g lies below f.
    """
    own = confidence(instance.network.stack.scores(points)[0], label)
    members = len(instance.members)
    gaps = np.empty((members, len(points)))
    for start in range(0, members, _CHUNK):
        chosen = np.arange(start, min(start + _CHUNK, members))
        other = confidence(instance.members.take(chosen).scores(points), label)
        gaps[chosen] = np.where(other <= 0, own, -np.inf) if leaking else own - other
    order = np.argsort(-gaps, axis=None, kind="stable")
    picked: list[tuple[Floats, int]] = []
    seen_members: dict[int, int] = {}
    seen_points: set[int] = set()
    for flat in order[: 50 * count + 1000]:
        member, index = divmod(int(flat), len(points))
        if leaking and not gaps[member, index] > 0:
            break
        if index in seen_points or seen_members.get(member, 0) >= max(2, count // max(members, 1)):
            continue
        seen_points.add(index)
        seen_members[member] = seen_members.get(member, 0) + 1
        picked.append((points[index], member))
        if len(picked) == count:
            break
    return picked
