"""Climb where several rivals tie in N: linear programs that see them all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.local import jacobians
from leaveout.models import Stack, confidence

__all__ = ["along"]

Floats = NDArray[np.float64]

_STEPS = 12
_SMALLEST = 1e-7
_PENALTY = 100.0


def along(
    network: Stack,
    member: Stack,
    bounds: tuple[Floats, Floats],
    label: int,
    start: Floats,
    margin: float,
) -> Floats:
    """Raise N's least lead over its rivals from ``start`` while the member keeps leaking.

    Where two rivals tie, the gradient of one lead lowers the other; the linear program over
    (x, confidence, excess lead of the member) weighs them.

    Parameters
    ----------
    network, member : Stack
        Of one network each.
    bounds : pair of ndarray of float64, shape (d,)
    label : int
    start : ndarray of float64, shape (d,)
    margin : float
        In units of the scores.

    Returns
    -------
    ndarray of float64, shape (d,)
        The last point; ``start`` where no step paid.
    """
    lower, upper = bounds
    point, radius = start, 0.05
    worth = _worth(network, member, label, point, margin)
    for _ in range(_STEPS):
        if radius < _SMALLEST:
            break
        reach = radius * (upper - lower)
        near = np.maximum(lower, point - reach), np.minimum(upper, point + reach)
        step = _program(network, member, near, label, point, margin)
        reached = worth if step is None else _worth(network, member, label, step, margin)
        if step is None or reached <= worth + 1e-12 * max(1.0, abs(worth)):
            radius /= 4
            continue
        point, worth = step, reached
        radius = min(1.0, 2 * radius)
    return point


def _worth(network: Stack, member: Stack, label: int, point: Floats, margin: float) -> float:
    own = confidence(network.scores(point[None])[0, 0], label)
    other = confidence(member.scores(point[None])[0, 0], label)
    return float(own - _PENALTY * np.maximum(other + 1.01 * margin, 0.0))


def _program(
    network: Stack,
    member: Stack,
    near: tuple[Floats, Floats],
    label: int,
    point: Floats,
    margin: float,
) -> Floats | None:
    """Solve one linear program; None where that fails."""
    from scipy.optimize import linprog

    rivals = [c for c in range(network.labels) if c != label]
    scores, slopes = (part[0] for part in jacobians(network, point[None]))
    other_scores, other_slopes = (part[0] for part in jacobians(member, point[None]))
    strongest = max(rivals, key=lambda c: float(other_scores[c]))
    lead_slope = other_slopes[label] - other_slopes[strongest]
    lead = float(other_scores[label] - other_scores[strongest]) - float(lead_slope @ point)
    ahead = slopes[label] - slopes[rivals]
    offset = scores[label] - scores[rivals] - ahead @ point
    result = linprog(
        np.concatenate([np.zeros(len(point)), [-1.0, _PENALTY]]),
        A_ub=np.vstack(
            [
                np.c_[-ahead, np.ones(len(rivals)), np.zeros(len(rivals))],
                np.concatenate([lead_slope, [0.0, -1.0]]),
            ]
        ),
        b_ub=np.append(offset, -1.01 * margin - lead),
        bounds=[*zip(*near, strict=True), (None, None), (0, None)],
        method="highs",
    )
    if result.status != 0 or result.x is None:
        return None
    return np.asarray(np.clip(result.x[: len(point)], *near))
