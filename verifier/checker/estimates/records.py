"""The advantage of an attacker who sees one random forgotten row of a trial."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.estimates.file import Floats, Seen
from leaveout.verifier.checker.estimates.intervals import LOWER_SHARE
from leaveout.verifier.checker.estimates.means import means_above
from leaveout.verifier.checker.estimates.scores import Scores, scores

_THRESHOLDS = 20
_NOISE = 0.02


@dataclass(frozen=True, eq=False)
class _Reached:
    """Numbers of forgotten rows, shape (trials, thresholds), and of all of them, (trials, 1)."""

    at_least: NDArray[np.int64]  # of those that score at least, or more than, each threshold
    above: NDArray[np.int64]  # of those that score at least, or more than, each threshold
    whole: NDArray[np.int64]  # of those that score at least, or more than, each threshold


def of_records(seen: Seen, error: Fraction) -> tuple[Fraction, Fraction, str]:
    """Return bounds of the advantage over all attacks and thresholds, and what the lower rests on.

    Rows of a trial share its models, so a trial counts once, with the share of its forgotten rows
    that reach a threshold. Thresholds are quantiles of what the trials that do not count scored.
    The lower bound is of the mean difference for the attack and threshold that those chose. A
    share falls as the threshold rises: between two of them it is at most the share above the lower,
    and at least that which reaches the upper; so the upper bound, of all these means at once, is
    one for every threshold.
    """
    counts = seen.estimates
    found = [(each, *_count_reaching(seen, each)) for each in scores(seen)]
    upper = _most([(unlearned, retrained) for _, unlearned, retrained, _ in found], counts, error)
    best, lower, words = -1.0, Fraction(0), ""
    for each, unlearned, retrained, cuts in found:
        difference = (unlearned.at_least - retrained.at_least) / unlearned.whole
        chose = difference[~counts]
        key = np.abs(chose.mean(axis=0)) / (chose.std(axis=0) + _NOISE)
        at = int(np.argmax(key))
        if key[at] > best:
            best = float(key[at])
            sign = 1 if chose[:, at].mean() >= 0 else -1
            more = (unlearned.at_least - retrained.at_least)[counts][:, [at]]
            whole = unlearned.whole[counts]
            # A difference in [-1, 1] becomes a draw in [0, 1], rounded once.
            draws = (whole + sign * more) / (2 * whole)
            mean = Fraction(float(means_above(draws, LOWER_SHARE * error)[0]))
            lower = max(Fraction(0), 2 * mean - 1)
            words = (
                f"{each.attack} >= {cuts[at]:.5g}, {'more' if sign > 0 else 'less'} often of a "
                "forgotten row in the unlearned arm"
            )
    return lower, min(Fraction(1), Fraction(upper)), words


def _count_reaching(seen: Seen, row: Scores) -> tuple[_Reached, _Reached, Floats]:
    """Count rows of both arms at each threshold; return the thresholds too."""
    gone = np.flatnonzero(seen.forgotten)
    place = seen.place[gone]
    chose = ~seen.estimates[place]
    pool = np.concatenate([row.unlearned[gone][chose], row.retrained[gone][chose]])
    levels = (np.arange(_THRESHOLDS) + 0.5) / _THRESHOLDS
    cuts = np.unique(np.quantile(pool, levels, method="inverted_cdf"))
    whole = np.bincount(place, minlength=seen.trials)[:, None]
    found = []
    for values in (row.unlearned[gone, None], row.retrained[gone, None]):
        totals = []
        for hits in (values >= cuts, values > cuts):
            total = np.zeros((seen.trials, len(cuts)), dtype=np.int64)
            np.add.at(total, place, hits)
            totals.append(total)
        found.append(_Reached(totals[0], totals[1], whole))
    return found[0], found[1], cuts


def _most(
    found: list[tuple[_Reached, _Reached]], counts: NDArray[np.bool_], error: Fraction
) -> float:
    """Bound the difference of the mean shares of any attack at any threshold, from above."""
    whole = found[0][0].whole[counts]
    draws = []
    for pair in found:
        for first, second in (pair, pair[::-1]):
            draws += [whole - first.above[counts], second.at_least[counts]]
    ends = np.cumsum([each.shape[1] for each in draws])
    # Four means a threshold: of either arm, above and at least.
    each_error = (1 - LOWER_SHARE) * error / int(ends[-1])
    means = np.split(means_above(np.concatenate(draws, axis=1) / whole, each_error), ends[:-1])
    most = 0.0
    for others, above in zip(means[::2], means[1::2], strict=True):
        # The share above a threshold is 1 minus that of the others, here rounded upwards.
        apart = np.append(1.0, np.nextafter(1 - others, 2.0)) - np.append(above, 0.0)
        most = max(most, float(np.nextafter(apart, 2.0).max()))
    return most
