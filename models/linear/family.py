"""All models without one unit of rows each, known from one fit; the proofs are the kernel's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from leaveout.arrays import Floats, Integers
from leaveout.errors import LinearError
from leaveout.kernel.family import Family, Hints, Part, prove_members
from leaveout.kernel.linear import measure
from leaveout.kernel.model import LinearModel
from leaveout.kernel.numbers import Rejected
from leaveout.models.linear.fit import refit, whitener

Progress = Callable[[int, int], None]
"""Is told how many units were refitted, and of how many."""

_AT_FIRST = 2000  # most units that are refitted at once because their closed form proves nothing

_TOGETHER = 64


def _unheard(done: int, of: int) -> None:
    """Ignore progress."""


def bound_members(model: LinearModel, progress: Progress = _unheard) -> Family:
    """Bound all members; those of which the closed form tells nothing are refitted.

    Raises
    ------
    LinearError
        If the coefficients are so far from the minimum, or columns so nearly dependent, that
        nothing can be told.
    """
    hints, first = [], 0
    none = np.zeros(0, np.int64)
    for problem in model.problems:
        theta = model.coefficients[first : first + problem.outputs]
        first += problem.outputs
        hints.append(Hints(whitener(problem, theta), none, np.zeros((0, *theta.shape))))
    try:
        family = prove_members(model, hints)
    except Rejected as error:
        raise LinearError(f"the members cannot be bounded: {error}") from None
    eta = max(part.at.eta for part in family.parts)
    if not eta < 0.5:
        raise LinearError(
            "the members cannot be bounded: the curvature is known only to a factor of "
            f"{1 + eta:.3g}; scale the columns, drop some that depend on others, or set a penalty"
        )
    wide = np.zeros(len(family), bool)
    for part in family.parts:
        wide |= ~np.isfinite(part.members.radius)
    return refine(family, np.flatnonzero(wide)[:_AT_FIRST], progress)


def refine(
    family: Family, units: Integers, progress: Progress = _unheard, near: float = 0.0
) -> Family:
    """Return the family with some units refitted, which makes their radii tiny, or about near."""
    parts = []
    for part in family.parts:
        left = np.setdiff1d(units, part.members.measured)
        centres = []
        for begin in range(0, len(left), _TOGETHER):
            own = left[begin : begin + _TOGETHER]
            centres.append(_refit(part, own, closed_centres(part, own), near))
            progress(begin + len(own), len(left))
        if not centres:
            parts.append(part)
            continue
        found = measure(
            part.problem, part.at, part.members, left, np.concatenate(centres),
            family.model.tolerance,
        )  # fmt: skip
        parts.append(replace(part, members=found))
    return replace(family, parts=tuple(parts))


def hints_of(family: Family) -> list[Hints]:
    """Return what proves the members again."""
    return [Hints(part.at.R, part.members.measured, part.members.centres) for part in family.parts]


def closed_centres(part: Part, units: Integers) -> Floats:
    """Return the centres of units in closed form, shape (units, outputs, columns)."""
    problem, at = part.problem, part.at
    found = np.empty((len(units), *at.theta.shape))
    for k, unit in enumerate(units.tolist()):
        own = slice(int(problem.starts[unit]), int(problem.starts[unit + 1]))
        flat = (part.members.b[own].T @ problem.rows(own.start, own.stop)).reshape(-1)
        found[k] = at.theta + (at.R @ (flat @ at.R)).reshape(at.theta.shape)
    return found


def centre(family: Family, unit: int) -> Floats:
    """Return a member's centre, shape (outputs, columns)."""
    found = []
    for part in family.parts:
        place = int(np.searchsorted(part.members.measured, unit))
        known = place < len(part.members.measured) and part.members.measured[place] == unit
        closed = None if known else closed_centres(part, np.array([unit]))[0]
        found.append(part.members.centres[place] if closed is None else closed)
    return np.concatenate(found)


def _refit(part: Part, units: Integers, start: Floats, near: float) -> Floats:
    try:
        return refit(part.problem, part.at, units, start, near)
    except (LinearError, Rejected):
        # One after the other, so that one without a minimum leaves the others alone.
        found = start.copy()
        for k in range(len(units)):
            try:
                own = slice(k, k + 1)
                found[k] = refit(part.problem, part.at, units[own], start[own], near)[0]
            except (LinearError, Rejected):
                continue
        return found
