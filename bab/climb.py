"""Sequential linear programming: push a leak to higher confidence within a trust region."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from leaveout.bab.local import jacobians
from leaveout.encoders import Box
from leaveout.models import Stack, confidence

__all__ = ["climb"]

Floats = NDArray[np.float64]

_STEPS = 60
_LARGEST = 0.25
_SMALLEST = 1e-8
_PENALTY = 100.0
"""Worth, in N's confidence, of the member's lead: above any multiplier seen of the constraint."""


def climb(
    network: Stack, member: Stack, box: Box, label: int, start: Floats, margin: float
) -> Floats:
    """Raise N's confidence in ``label`` from ``start`` while the member keeps leaking.

    Both networks are linear near a point, so each step is a linear program in x: maximise N's
    confidence minus a penalty on the member's lead over its strongest rival above ``-margin``.
    A step that does not pay when both networks are evaluated shrinks the trust region.

    Parameters
    ----------
    network, member : Stack
        Of one network each.
    box : Box
    label : int
    start : ndarray of float64, shape (d,)
    margin : float
        In units of the scores.

    Returns
    -------
    ndarray of float64, shape (d,)
        The best point met at which the member's lead is at most ``-margin``; where none was,
        the last one.
    """
    width = box.upper - box.lower
    point, radius = start, _LARGEST
    value, lead = _values(network, member, label, point)
    best, best_value = start, value if lead <= -margin else -np.inf
    for _ in range(_STEPS):
        if radius < _SMALLEST:
            break
        step = _program(network, member, box, label, point, radius * width, margin)
        reached, led = (value, lead) if step is None else _values(network, member, label, step)
        gain = _merit(reached, led, margin) - _merit(value, lead, margin)
        if step is None or gain <= 1e-12 * max(1.0, abs(value)):
            radius /= 4
            continue
        point, value, lead = step, reached, led
        radius = min(1.0, 2 * radius)
        if lead <= -margin and value > best_value:
            best, best_value = point, value
    return best if best_value > -np.inf else point


def _merit(value: float, lead: float, margin: float) -> float:
    return value - _PENALTY * max(0.0, lead + margin)


def _values(network: Stack, member: Stack, label: int, point: Floats) -> tuple[float, float]:
    own = confidence(network.scores(point[None])[0, 0], label)
    other = confidence(member.scores(point[None])[0, 0], label)
    return float(own), float(other)


def _program(
    network: Stack,
    member: Stack,
    box: Box,
    label: int,
    point: Floats,
    reach: Floats,
    margin: float,
) -> Floats | None:
    """Solve one linear program over (x, confidence, excess lead); None where that fails."""
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
        b_ub=np.append(offset, -margin - lead),
        bounds=[
            *zip(
                np.maximum(box.lower, point - reach),
                np.minimum(box.upper, point + reach),
                strict=True,
            ),
            (None, None),
            (0, None),
        ],
        method="highs",
    )
    if result.status != 0 or result.x is None:
        return None
    return box.clip(result.x[: len(point)])
