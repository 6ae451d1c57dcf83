"""The advantage of an attacker who sees all forgotten rows, a number per trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.estimates.file import Floats, Seen
from leaveout.verifier.checker.estimates.intervals import LOWER_SHARE, band, more_often
from leaveout.verifier.checker.estimates.scores import scores


@dataclass(frozen=True, eq=False)
class Statistic:
    """One number a trial, in either arm."""

    name: str
    unlearned: Floats  # shape (trials,)
    retrained: Floats  # shape (trials,)


def of_trials(seen: Seen, error: Fraction) -> tuple[Fraction, Fraction, str]:
    """Return bounds of the advantage, and the event that the lower one rests on; see below."""
    found: list[Statistic] = []
    for each in scores(seen):
        arms = (each.unlearned, each.retrained)
        found.append(Statistic(f"{each.attack}, mean", *(_means(seen, arm) for arm in arms)))
        if seen.has_unseen_rows:
            ranks = (_ranks(seen, arm) for arm in arms)
            found.append(Statistic(f"{each.attack}, rank among unseen rows", *ranks))
    return of_statistics(found, seen.estimates, error)


def of_statistics(
    found: Sequence[Statistic], counts: NDArray[np.bool_], error: Fraction
) -> tuple[Fraction, Fraction, str]:
    """Return bounds of the advantage over the events "a statistic is at least t", for every t."""
    trials = int(counts.sum())
    # Two arms a statistic.
    margin = 2 * band(trials, (1 - LOWER_SHARE) * error / (2 * len(found)))
    apart = max(farthest(item.unlearned[counts], item.retrained[counts]) for item in found)
    share = Fraction(apart, trials)
    chosen, threshold, above = _choose_event(found, ~counts)
    hits = [
        int(((arm[counts] >= threshold) == above).sum())
        for arm in (chosen.unlearned, chosen.retrained)
    ]
    shown = more_often((hits[0], trials), (hits[1], trials), LOWER_SHARE * error)
    words = (
        f"{chosen.name} {'>=' if above else '<'} {threshold:.5g}: in {hits[0]:,} unlearned and "
        f"{hits[1]:,} retrained of {trials:,} trials"
    )
    return max(shown, share - margin), min(Fraction(1), share + margin), words


def farthest(unlearned: Floats, retrained: Floats) -> int:
    """Return the largest difference of how many values of two lists are at least t, over all t."""
    cuts = np.concatenate([unlearned, retrained])
    return int(np.abs(_count_at_least(unlearned, cuts) - _count_at_least(retrained, cuts)).max())


def _count_at_least(values: Floats, cuts: Floats) -> NDArray[np.int64]:
    """Return how many values are at least each cut."""
    return len(values) - np.searchsorted(np.sort(values), cuts, side="left").astype(np.int64)


def _choose_event(
    found: Sequence[Statistic], chooses: NDArray[np.bool_]
) -> tuple[Statistic, float, bool]:
    """Choose the event that best separates the arms in the choosing trials.

    Of several, the one whose means are farthest apart for their spread. Any choice is valid.
    """
    best: tuple[tuple[float, float], tuple[Statistic, float, bool]] | None = None
    for item in found:
        unlearned, retrained = item.unlearned[chooses], item.retrained[chooses]
        points = np.unique(np.concatenate([unlearned, retrained]))
        cuts = np.concatenate([points[:1], (points[1:] + points[:-1]) / 2])
        shares = [_count_at_least(arm, cuts) / len(arm) for arm in (unlearned, retrained)]
        difference = shares[0] - shares[1]
        at = int(np.argmax(np.abs(difference)))
        gap = abs(float(unlearned.mean() - retrained.mean()))
        spread = float(unlearned.std() + retrained.std())
        key = (abs(float(difference[at])), gap / spread if spread else math.inf if gap else 0.0)
        if best is None or key > best[0]:
            best = key, (item, float(cuts[at]), bool(difference[at] >= 0))
    assert best is not None
    return best[1]


def _means(seen: Seen, values: Floats) -> Floats:
    place = seen.place[seen.forgotten]
    total = np.bincount(place, values[seen.forgotten], minlength=seen.trials)
    return np.asarray(total / np.bincount(place, minlength=seen.trials))


def _ranks(seen: Seen, values: Floats) -> Floats:
    """Return how often a forgotten row of a trial scores above an unseen one, ties half."""
    found = np.zeros(seen.trials)
    order = np.argsort(seen.place, kind="stable")
    ends = np.cumsum(np.bincount(seen.place, minlength=seen.trials))
    for place, rows in enumerate(np.split(order, ends[:-1])):
        gone = seen.forgotten[rows]
        others = np.sort(values[rows[~gone]])
        own = values[rows[gone]]
        twice = np.searchsorted(others, own, "left") + np.searchsorted(others, own, "right")
        found[place] = int(twice.sum()) / (2 * len(own) * len(others))
    return found
