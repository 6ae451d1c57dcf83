"""Whether two forests answer alike everywhere in a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.forests.leaves import Leaves
from leaveout.encoders.forests.problem import apart
from leaveout.solvers import CanSolve, Settings, Status

__all__ = ["Answers", "Compared", "compare_answers"]

Floats = NDArray[np.float64]

_TIE = 1e-6
"""Margins closer to 0 than this are ties as far as a solver can tell."""
_CHUNK = 2**22
_GAP = 0.9
"""Any margin above 0 will do."""


@dataclass(frozen=True)
class Compared:
    """Whether two forests answer alike.

    Attributes
    ----------
    verdict : {"alike", "apart", "unknown"}
    x : ndarray of float64, shape (features,), or None
        An input at which they answer apart, or in "unknown" one at which they tie.
    reason : str
        Of "unknown": starts with ``time``, ``solver`` or ``numerical``.
    """

    verdict: Literal["alike", "apart", "unknown"]
    x: Floats | None = None
    reason: str = ""


Answers = tuple[Leaves, ...]
"""A forest over a box: the leaves of each tree."""


def compare_answers(
    one: Answers,
    other: Answers,
    lower: Floats,
    upper: Floats,
    solver: CanSolve,
    seconds: float | None = None,
) -> Compared:
    """Return whether two forests give every input between two bounds the same label.

    The label is that with the greatest mean share, the first of those that tie. Two single trees
    are overlaid, leaf by leaf; of forests a MILP looks for an input at which they answer apart.

    Parameters
    ----------
    one, other : tuple of Leaves
        Over the same labels in the same order.
    lower, upper : ndarray of float64, shape (features,)
    solver : CanSolve
    seconds : float or None
    """
    if _equal(one, other) or one[0].shares.shape[1] < 2:
        return Compared("alike")
    if len(one) == len(other) == 1:
        return _overlaid(one[0], other[0])
    if seconds is not None and seconds <= 0:
        return Compared("unknown", reason="time: none was left for the MILP")
    problem = apart(one, other, lower, upper)
    outcome = solver.solve(problem.problem, Settings(time_limit=seconds, relative_gap=_GAP))
    if outcome.status is Status.INFEASIBLE:
        # Every input with a margin of -1 is a point of the problem.
        return Compared("unknown", reason="solver: it calls a problem infeasible that is not")
    if outcome.dual_bound < -_TIE:
        return Compared("alike")
    if outcome.solution is not None:
        x = problem.input(outcome.solution.point, lower, upper)
        if _answer(one, x) != _answer(other, x):
            return Compared("apart", x)
        if outcome.status is Status.OPTIMAL:
            return Compared("unknown", x, "numerical: the shares of two labels tie")
    if outcome.status is Status.FAILED:
        return Compared("unknown", reason=f"solver: {outcome.message or 'it failed'}")
    return Compared("unknown", reason="time: the MILP did not end")


def _equal(one: Answers, other: Answers) -> bool:
    """Whether the forests are the same trees in the same order."""
    return len(one) == len(other) and all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in zip(one, other, strict=True)
        for name in ("lower", "upper", "shares")
    )


def _answer(trees: Sequence[Leaves], x: Floats) -> int:
    total = np.zeros(trees[0].shares.shape[1])
    for tree in trees:
        inside = ((tree.lower <= x) & (x <= tree.upper)).all(axis=1)
        total += tree.shares[inside.argmax()]
    return int(total.argmax())


def _overlaid(one: Leaves, other: Leaves) -> Compared:
    """Intersect the leaves of two trees whose labels differ."""
    first, second = one.shares.argmax(axis=1), other.shares.argmax(axis=1)
    step = max(1, _CHUNK // max(1, other.lower.size))
    for start in range(0, len(first), step):
        rows = slice(start, start + step)
        low = np.maximum(one.lower[rows, None], other.lower[None])
        high = np.minimum(one.upper[rows, None], other.upper[None])
        meet = (low <= high).all(axis=2) & (first[rows, None] != second[None])
        if meet.any():
            i, j = np.argwhere(meet)[0]
            return Compared("apart", low[i, j])
    return Compared("alike")
