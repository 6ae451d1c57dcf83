"""Bounds over time, thinned to what a chart can show."""

from __future__ import annotations

import math
from typing import Any

from leaveout.bab import Progress, SearchResult
from leaveout.verifier.records import TraceRecord

_MOST_POINTS = 60
"""Moments that are kept."""

_SOONEST = 1e-3
"""Seconds: sooner moments are one to the eye."""

Moment = tuple[float, float, float]


class Trace:
    """The improving bounds of one search."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []

    def add(self, progress: Progress) -> None:
        """Add a report, unless it says nothing new."""
        self._add(progress.seconds, progress.lower, progress.upper)

    def record(self, result: SearchResult[Any]) -> TraceRecord | None:
        """Return the stored bounds up to the result; None if there are too few.

        If an earlier bound turned out to be wrong, none is returned.
        """
        if result.contradicted or not self._moments:
            return None
        self._add(result.seconds, result.lower, result.upper, last=True)
        kept = _thin_moments(self._moments)
        if len(kept) < 2:
            return None
        seconds, lower, upper = zip(*kept, strict=True)
        label = None if result.label < 0 else result.label
        return TraceRecord(label=label, seconds=seconds, lower=lower, upper=upper)

    def _add(self, seconds: float, lower: float, upper: float, last: bool = False) -> None:
        if not (math.isfinite(lower) and math.isfinite(upper)):
            return
        if self._moments:
            before = self._moments[-1]
            seconds = max(seconds, before[0])
            lower, upper = max(lower, before[1]), min(upper, before[2])
            if (lower, upper) == before[1:] and not last:
                return
        self._moments.append((round(seconds, 4), lower, upper))


def _thin_moments(moments: list[Moment]) -> list[Moment]:
    """Keep the first and last moments, and some at equal ratios of time."""
    if len(moments) <= _MOST_POINTS:
        return moments
    first, last = (math.log(max(each[0], _SOONEST)) for each in (moments[0], moments[-1]))
    kept: dict[int, Moment] = {}
    for moment in moments[1:-1]:
        share = (math.log(max(moment[0], _SOONEST)) - first) / (last - first or 1.0)
        # The last of those that share a place knows most.
        kept[int(share * (_MOST_POINTS - 2))] = moment
    chosen = [kept[place] for place in sorted(kept)][: _MOST_POINTS - 2]
    return [moments[0], *chosen, moments[-1]]
