"""Bounds of one attack's loss by batches: separate attacks lose no less.

Batches of points that hardly any attack takes together save the most, so these come first. Two of
as many points are joined, and two of these again, for as long as one attack on both is seen to lose
less than two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from leaveout.bab.votes.collective import Batch, CollectiveProblem, Shared
from leaveout.deadline import Deadline

_FIRST = 16
"""Points of the first batches."""

_SPELL = 0.05
"""Of the time that is left, for one batch."""

_BRIEF = 1.0
"""Seconds for a batch, at least."""

_IN_VAIN = 8
"""Batches in a row that save nothing, after which those that follow are not looked at."""

Told = Callable[[str], None]
"""Is told, in words, how far a search is."""


def in_batches(
    problem: CollectiveProblem, deadline: Deadline, tell: Told
) -> Iterator[tuple[Batch, ...]]:
    """Yield ever better batches that one attack cannot lose entirely."""
    order = problem.hardest_first() if isinstance(problem, Shared) else problem.points
    starts = range(0, len(order), _FIRST)
    known, growing = list[Batch](), list[tuple[int, Batch]]()
    vain = 0
    for number, start in enumerate(starts):
        if deadline.over or vain == _IN_VAIN:
            break
        points = np.sort(order[start : start + _FIRST])
        found = _search_joined(problem, [Batch(points, len(points))], deadline)
        vain = 0 if found is not None else vain + 1
        joins = 0
        while found is not None:
            growing.append((joins, found))
            if len(growing) < 2 or growing[-2][0] != joins:
                break
            parts = [growing.pop(-2)[1], growing.pop()[1]]
            found = _search_joined(problem, parts, deadline)
            joins += 1
            known += parts if found is None else []
        saved = sum(batch.surviving_points for batch in (*known, *(each for _, each in growing)))
        tell(f"at most {len(order) - saved:,} points, batch {number + 1:,} of {len(starts):,}")
        yield (*known, *(batch for _, batch in growing))


def _search_joined(
    problem: CollectiveProblem, parts: Sequence[Batch], deadline: Deadline
) -> Batch | None:
    """Return batches as one, if a joint attack loses less than separate ones."""
    whole = _join_batches(parts)
    spell = min(deadline.seconds_left, max(_BRIEF, _SPELL * deadline.seconds_left))
    found = problem.only(whole.points).search(Deadline.after(spell))
    if found.upper >= whole.upper:
        return None
    return Batch(whole.points, found.upper, found.units)


def _join_batches(parts: Sequence[Batch]) -> Batch:
    """Return batches as one, with the sum of their bounds."""
    return Batch(
        np.sort(np.concatenate([part.points for part in parts])), sum(part.upper for part in parts)
    )
