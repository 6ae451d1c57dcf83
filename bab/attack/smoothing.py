"""Smoothing continuation: ascend in smoothed networks, then in ever sharper ones.

A gradient knows nothing of the ReLU a step away. Rounding every ReLU off within tau times the
typical size of its layer shows it, and where N and a member differ only in narrow bands of
phases, that is what leads out of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.confidences import Nets
from leaveout.bab.attack.slp import Ascent, Problem, ascend
from leaveout.deadline import NEVER, Deadline

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Pass:
    """One ascent of a schedule."""

    tau: float  # half-width of the rounding, in typical sizes of each layer's pre-activations
    radius: float  # first trust region, in sides of the box
    penalty: float = 5.0  # of the member's margin
    steps: int = 10


_SHARP: Final = Pass(0.0, 0.02, 100.0)

COARSE: Final = (
    Pass(1.0, 0.25),
    Pass(0.5, 0.25),
    Pass(0.25, 0.1),
    Pass(0.12, 0.1),
    Pass(0.06, 0.05),
    Pass(0.03, 0.05),
    Pass(0.01, 0.03),
    _SHARP,
)
"""From anywhere, through what rounds off most."""

FINE: Final = (
    Pass(0.07, 0.1),
    Pass(0.025, 0.05),
    Pass(0.008, 0.03),
    Pass(0.003, 0.02),
    _SHARP,
)
"""From a place that is good already."""

QUICK: Final = (
    Pass(0.05, 0.1, steps=8),
    Pass(0.01, 0.05, steps=6),
    Pass(0.0, 0.02, 100.0, steps=14),
)
"""As `FINE`, in half the steps."""

PLAIN: Final = (Pass(0.0, 0.25, steps=30), Pass(0.0, 0.05, 100.0, steps=15))
"""Without any rounding: best where the bands are wide."""


def layer_sizes(network: Nets, points: Floats) -> tuple[float, ...]:
    """Return the typical spread of every layer's pre-activations over points, (p, d)."""
    values = network.activations(points[None])
    return tuple(max(float(v.std(axis=1).mean()), 1e-30) for v in values)


def smooth_ascent(
    problem: Problem,
    points: Floats,  # shape (m, p, d)
    schedule: tuple[Pass, ...],
    sizes: tuple[float, ...],
    *,
    hopeless: float = 0.0,
    deadline: Deadline = NEVER,
) -> Ascent:
    """Run the ascents of a schedule one after another."""
    for each in schedule[:-1]:
        if deadline.over:
            break
        found = ascend(
            problem,
            points,
            steps=each.steps,
            radius=each.radius,
            penalty=each.penalty,
            widths=tuple(each.tau * size for size in sizes) if each.tau else None,
            deadline=deadline,
        )
        points = found.last
        if hopeless > 0 and not (found.worth > hopeless).any():
            return Ascent(points, np.full_like(found.worth, -np.inf), found.worth, points)
    last = schedule[-1]
    return ascend(
        problem,
        points,
        steps=last.steps,
        radius=last.radius,
        penalty=last.penalty,
        deadline=deadline,
    )
