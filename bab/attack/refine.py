"""From candidates to a counter-example: ascend, back off, replay in float32."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.attack.field import CounterExample, Exact, Field
from leaveout.bab.attack.slp import PROGRAM, ascend
from leaveout.bab.attack.smoothing import QUICK, smooth_ascent
from leaveout.deadline import NEVER, Deadline

Floats = NDArray[np.floating[Any]]
Points = NDArray[np.float64]
Lanes = NDArray[np.int64]

W = TypeVar("W", bound=CounterExample)

_COPIES = 8
"""Starts about a single candidate: a batch of them costs hardly more than one."""
_SPREAD = 0.1
_BACK = 12
"""Steps of an ascent that backs off."""
_TIED = 12
"""Steps of an ascent that weighs goals that tie."""
_FINISHED = 3
_HOPELESS = 0.5
"""Share of what is asked for that the first, rounded-off ascent must reach."""
_SHORT = 0.01
"""Share of it that finishing may make up for."""


def refine(
    field: Field[W],
    points: Points,  # shape (p, d)
    lanes: Lanes,  # shape (p,)
    *,
    at_least: float,
    deadline: Deadline = NEVER,
) -> W | None:
    """Ascend from many candidates at once; finish and replay the most promising."""
    if not len(points):
        return None
    starts = _starts(field, points, np.random.default_rng(0))
    problem = field.problem(field.nets(lanes), starts)
    found = smooth_ascent(
        problem, starts, QUICK, field.sizes, hopeless=_HOPELESS * at_least, deadline=deadline
    )
    values = found.value.max(axis=1)
    rows = np.argsort(-values, kind="stable")[:_FINISHED]
    enough = at_least - _SHORT * abs(at_least) if np.isfinite(at_least) else at_least
    rows = rows[(values[rows] > field.least) & (values[rows] >= enough)]
    if not len(rows):
        return None
    chosen = found.points[rows, found.value[rows].argmax(axis=1)].astype(np.float64)
    return finish(field, chosen, lanes[rows], steps=15, radius=2e-3, deadline=deadline)


def finish(
    field: Field[W],
    points: Points,  # shape (p, d)
    lanes: Lanes,  # shape (p,)
    *,
    steps: int = 40,
    radius: float = 0.02,
    deadline: Deadline = NEVER,
) -> W | None:
    """Ascend a last time in float64 and replay, best first, until none can be better."""
    exact = field.exact(lanes, points)
    found = ascend(exact.problem(), points[:, None], steps=steps, radius=radius, deadline=deadline)
    best: W | None = None
    for row in np.argsort(-found.value[:, 0], kind="stable").tolist():
        if best is not None and found.value[row, 0] <= best.value:
            break
        point = found.points[row, 0]
        whole = exact.whole(row, point)
        if whole is not None:
            ascended = ascend(
                whole, point[None, None], PROGRAM, steps=_TIED, radius=0.05, deadline=deadline
            )
            point = ascended.points[0, 0]
        best = better(best, replay_exactly(field, exact, row, point, int(lanes[row])))
    return best


def replay_exactly(field: Field[W], exact: Exact, row: int, point: Floats, lane: int) -> W | None:
    """Replay a point, backing off from its limits until float32 confirms it."""
    found = field.replay(point, lane)
    for level in range(1, exact.levels):
        if found is not None:
            break
        problem, step = exact.safer(row, point, level)
        point = ascend(problem, point[None, None], step, steps=_BACK, radius=1e-3).points[0, 0]
        found = field.replay(point, lane)
    return found


def better(first: W | None, second: W | None) -> W | None:
    """Return the counter-example with the higher value."""
    if first is None or second is None:
        return first or second
    return second if second.value > first.value else first


def _starts(field: Field[W], points: Points, rng: np.random.Generator) -> Floats:
    """Return the candidates, with points near them if there are few: (p, copies, d)."""
    box = field.box
    copies = max(1, _COPIES // len(points))
    noise = _SPREAD * rng.normal(size=(len(points), copies, box.dimension))
    noise[:, 0] = 0.0
    return field.nearest(points[:, None] + noise * (box.upper - box.lower))
