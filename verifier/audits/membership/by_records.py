"""The advantage of an attacker who sees one random forgotten row of a trial."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.audits.membership.means import mean_lower, mean_upper
from leaveout.verifier.audits.membership.result import LOWER_SHARE, Advantage
from leaveout.verifier.audits.membership.statistics import RowScores, row_scores, selecting_trials
from leaveout.verifier.audits.membership.views import Views

Floats = NDArray[np.float64]

_THRESHOLDS = 20
_NOISE = 0.02
"""Added to a spread seen in few trials, so that a small one does not win by chance."""


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of forgotten rows, shape (trials, thresholds)."""

    at_least: Floats  # of those that score at least, or more than, each threshold
    above: Floats  # of those that score at least, or more than, each threshold


def advantage_of_records(views: Views, confidence: float, seed: int) -> Advantage:
    """Estimate the advantage over all attacks and thresholds; see `advantage`.

    A trial counts once, since its rows share models. Shares fall in the threshold, so bounding the
    means at neighbours covers all (Bonferroni).
    """
    error = 1 - confidence
    selects = selecting_trials(len(views.trials))
    scores = row_scores(views, seed)
    best, words, lower = -1.0, "", 0.0
    uppers: list[tuple[Shares, Shares]] = []
    for row in scores:
        cuts = thresholds(views, row, selects)
        unlearned, retrained = (
            shares_at(views, arm, cuts) for arm in (row.unlearned, row.retrained)
        )
        uppers.append((unlearned, retrained))
        difference = unlearned.at_least - retrained.at_least
        seen = difference[selects]
        key = np.abs(seen.mean(axis=0)) / (seen.std(axis=0) + _NOISE)
        at = int(np.argmax(key))
        if key[at] > best:
            best = float(key[at])
            sign = 1 if seen[:, at].mean() >= 0 else -1
            # A difference in [-1, 1] becomes a draw in [0, 1].
            draws = (1 + sign * difference[~selects][:, [at]]) / 2
            lower = max(0.0, 2 * float(mean_lower(draws, LOWER_SHARE * error)[0]) - 1)
            shown = [arm.at_least[~selects][:, at].mean() for arm in (unlearned, retrained)]
            words = (
                f"attack '{row.attack}', score of a forgotten row >= {cuts[at]:.5g}: of "
                f"{shown[0]:.1%} unlearned and {shown[1]:.1%} retrained on average over "
                f"{len(draws)} trials"
            )
    # Four means a threshold: each arm, at least and above.
    columns = 4 * sum(pair[0].above.shape[1] for pair in uppers)
    each = (1 - LOWER_SHARE) * error / columns
    upper = max(_most(*pair, ~selects, each) for pair in uppers)
    return Advantage(
        lower=lower,
        upper=upper,
        unit="records",
        trials=len(selects),
        estimating=int((~selects).sum()),
        attack=words,
    )


def thresholds(views: Views, row: RowScores, selects: NDArray[np.bool_]) -> Floats:
    """Return ascending thresholds to try: quantiles of the forgotten rows' scores."""
    rows = views.forgotten & selects[views.place]
    pool = np.concatenate([row.unlearned[rows], row.retrained[rows]])
    levels = (np.arange(_THRESHOLDS) + 0.5) / _THRESHOLDS
    return np.unique(np.quantile(pool, levels, method="inverted_cdf"))


def shares_at(views: Views, scores: Floats, cuts: Floats) -> Shares:
    """Return for each trial the share of forgotten rows that reach each threshold."""
    gone = np.flatnonzero(views.forgotten)
    place, own = views.place[gone], scores[gone, None]
    count = np.bincount(place, minlength=len(views.trials))[:, None]
    found = []
    for reached in (own >= cuts, own > cuts):
        total = np.zeros((len(views.trials), len(cuts)))
        np.add.at(total, place, reached)
        found.append(total / count)
    return Shares(*found)


def _most(unlearned: Shares, retrained: Shares, counts: NDArray[np.bool_], error: float) -> float:
    """Bound the difference of the mean shares at any threshold."""
    most = 0.0
    for first, second in ((unlearned, retrained), (retrained, unlearned)):
        # A share "at least t" with t above a cut is at most the share above the cut, and at
        # least the share that reaches the next cut.
        upper = np.append(1.0, mean_upper(first.above[counts], error))
        lower = np.append(mean_lower(second.at_least[counts], error), 0.0)
        most = max(most, float((upper - lower).max()))
    return min(1.0, most)
