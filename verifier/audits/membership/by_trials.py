"""The advantage of an attacker who sees all forgotten rows: a number per trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.audits.membership.means import dkw_margin
from leaveout.verifier.audits.membership.result import (
    LOWER_SHARE,
    Advantage,
    Counted,
    Ranked,
    implied,
    more_often,
)
from leaveout.verifier.audits.membership.statistics import (
    Statistic,
    row_scores,
    selecting_trials,
    statistics,
)
from leaveout.verifier.audits.membership.views import Views

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chosen:
    """An event about a model, fixed before the counted trials."""

    statistic: Statistic
    threshold: float
    above: bool

    def __str__(self) -> str:
        return f"{self.statistic} {'>=' if self.above else '<'} {self.threshold:.5g}"

    def occurs(self, values: Floats) -> NDArray[np.bool_]:
        """Return in which trials it happened."""
        return np.asarray((values >= self.threshold) == self.above)

    def count(self, trials: NDArray[np.bool_]) -> Counted:
        """Count the event in some of the trials."""
        total = int(trials.sum())
        return Counted(
            str(self),
            self.statistic.sees,
            int(self.occurs(self.statistic.unlearned[trials]).sum()),
            int(self.occurs(self.statistic.retrained[trials]).sum()),
            total,
            total,
        )


def advantage_of_trials(views: Views, confidence: float, seed: int) -> Advantage:
    """Estimate the advantage over all attacks and thresholds; see `advantage`."""
    found = statistics(views, row_scores(views, seed))
    return advantage_of_statistics(found, selecting_trials(len(views.trials)), confidence)


def advantage_of_statistics(
    found: Sequence[Statistic], selects: NDArray[np.bool_], confidence: float
) -> Advantage:
    """Estimate the advantage of the events "a statistic is at least t".

    Lower: `LOWER_SHARE` of the error, Clopper-Pearson on the event chosen by other trials. Upper:
    the rest, DKW over all statistics and t.
    """
    error = 1 - confidence
    counts = ~selects
    chosen = choose(found, selects)
    counted = chosen.count(counts)
    estimating = int(counts.sum())
    # Two arms a statistic.
    margin = dkw_margin(estimating, (1 - LOWER_SHARE) * error / (2 * len(found)))
    apart = [_apart(item.unlearned[counts], item.retrained[counts])[0] for item in found]
    widest = int(np.argmax(apart))
    lower, attack = more_often(counted, 1 - LOWER_SHARE * error), str(counted)
    if apart[widest] - 2 * margin > lower:
        lower = apart[widest] - 2 * margin
        attack = (
            f"{found[widest]}: its distributions over {estimating} trials are {apart[widest]:.3f} "
            "apart"
        )
    alone = choose([item for item in found if item.sees == "after"], selects)
    return Advantage(
        lower=lower,
        upper=min(1.0, apart[widest] + 2 * margin),
        unit="trials",
        trials=len(selects),
        estimating=estimating,
        attack=attack,
        implied=implied(alone.count(counts), confidence),
        ranked=_ranking_result(found, selects, confidence),
    )


def _ranking_result(
    found: Sequence[Statistic], selects: NDArray[np.bool_], confidence: float
) -> Ranked | None:
    """Return what the ranking attacks achieve; None if there are none."""
    ranks = [item for item in found if item.of == "ranking"]
    if not ranks:
        return None
    counted = choose(ranks, selects).count(~selects)
    return Ranked(more_often(counted, confidence), confidence, counted)


def choose(found: Sequence[Statistic], selects: NDArray[np.bool_]) -> Chosen:
    """Choose the event that separates the selecting trials best; ties by spread."""
    best: tuple[tuple[float, float], Chosen] | None = None
    for item in found:
        unlearned, retrained = item.unlearned[selects], item.retrained[selects]
        apart, threshold, above = _apart(unlearned, retrained)
        gap = abs(float(unlearned.mean() - retrained.mean()))
        spread = float(unlearned.std() + retrained.std())
        key = (apart, gap / spread if spread else math.inf if gap else 0.0)
        if best is None or key > best[0]:
            best = key, Chosen(item, threshold, above)
    assert best is not None
    return best[1]


def _apart(unlearned: Floats, retrained: Floats) -> tuple[float, float, bool]:
    """Return the largest difference of two empirical distributions, where and which way."""
    points = np.unique(np.concatenate([unlearned, retrained]))
    cuts = np.concatenate([points[:1], (points[1:] + points[:-1]) / 2])
    shares = [(arm[:, None] >= cuts).mean(axis=0) for arm in (unlearned, retrained)]
    difference = shares[0] - shares[1]
    at = int(np.argmax(np.abs(difference)))
    return float(abs(difference[at])), float(cuts[at]), bool(difference[at] >= 0)
