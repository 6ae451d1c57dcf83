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
_SMALLEST = 1e-7


def climb(
    network: Stack, member: Stack, box: Box, label: int, start: Floats, margin: float
) -> Floats:
    """Raise N's confidence in ``label`` from ``start`` while the member keeps leaking.

    Both networks are linear near a point, so each step is a linear program in x: maximise N's
    confidence with the member's lead over its strongest rival at most ``-margin``. A step that
    does not pay when both networks are evaluated shrinks the trust region.

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
        The best point met; ``start`` itself if no step pays.
    """
    width = box.upper - box.lower
    radius, best = 0.25, start
    value, lead = _values(network, member, label, best)
    feasible = lead <= -margin
    for _ in range(_STEPS):
        if radius < _SMALLEST:
            break
        step = _program(network, member, box, label, best, radius * width, margin, feasible)
        if step is None:
            radius /= 4
            continue
        reached, led = _values(network, member, label, step)
        if feasible:
            gain = led <= -margin and reached > value + 1e-12 * max(1.0, abs(value))
        else:
            gain = led < lead - 1e-12 * max(1.0, abs(lead))
        if gain:
            best, value, lead = step, reached, led
            feasible = lead <= -margin
            radius = min(1.0, 2 * radius)
        else:
            radius /= 3
    return best


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
    feasible: bool,
) -> Floats | None:
    """Solve one linear program over (x, height); None where it has no solution.

    From an infeasible point the member's lead is minimised instead.
    """
    rivals = [c for c in range(network.labels) if c != label]
    scores, slopes = (part[0] for part in jacobians(network, point[None]))
    other_scores, other_slopes = (part[0] for part in jacobians(member, point[None]))
    strongest = max(rivals, key=lambda c: float(other_scores[c]))
    lead_slope = other_slopes[label] - other_slopes[strongest]
    lead = float(other_scores[label] - other_scores[strongest]) - float(lead_slope @ point)
    bounds = [
        *zip(
            np.maximum(box.lower, point - reach), np.minimum(box.upper, point + reach), strict=True
        ),
        (None, None),
    ]
    if not feasible:
        result = linprog(np.append(lead_slope, 0.0), bounds=bounds, method="highs")
    else:
        ahead = slopes[label] - slopes[rivals]
        offset = scores[label] - scores[rivals] - ahead @ point
        rows = np.vstack([np.c_[-ahead, np.ones(len(rivals))], np.append(lead_slope, 0.0)])
        limits = np.append(offset, -margin - lead)
        costs = np.append(np.zeros(len(point)), -1.0)
        result = linprog(costs, A_ub=rows, b_ub=limits, bounds=bounds, method="highs")
    return None if result.status != 0 or result.x is None else box.clip(result.x[:-1])
