"""How often each attack says member, in each arm, beside the advantage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import AuditError
from leaveout.verifier.audits.intervals import holm
from leaveout.verifier.audits.membership.by_trials import choose
from leaveout.verifier.audits.membership.means import mean_lower, mean_upper, sign_test
from leaveout.verifier.audits.membership.statistics import (
    LEAST_TRIALS,
    RowScores,
    row_scores,
    selecting_trials,
    statistics,
)
from leaveout.verifier.audits.membership.views import Views

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rate:
    """A mean over trials with an interval."""

    mean: float
    lower: float
    upper: float
    trials: int  # independent ones, that it is a mean over

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.lower:.2f}, {self.upper:.2f}] of {self.trials}"


@dataclass(frozen=True)
class Row:
    """The rates of one attack."""

    attack: str
    sees: str
    forgotten: dict[str, Rate]
    unseen: dict[str, Rate]  # the same of a row that no model saw; empty where none are recorded
    p_value: float
    flagged: bool  # whether that is refuted, of all attacks together (Holm)


def rates(views: Views, confidence: float, seed: int = 0) -> tuple[Row, ...]:
    """Measure every attack.

    An attack says member of a row that scores at least a threshold. The first third of the trials
    chooses it: the one that tells best (mean of both kinds right) rows the original was trained
    on from rows no model saw. Where the original is not recorded, or the attack is trained, it is
    that between forgotten and unseen rows over both arms; without unseen rows, the median score.
    The other trials are counted; a trial counts once in a mean.

    Parameters
    ----------
    views : Views
    confidence : float
        Of each interval alone, and of the flags together.
    seed : int

    Raises
    ------
    AuditError
        If there are too few trials.
    """
    trials = len(views.trials)
    if trials < LEAST_TRIALS:
        raise AuditError(
            f"{views.source}: {trials} trial{'s' * (trials != 1)}, expected at least "
            f"{LEAST_TRIALS}; record more"
        )
    selects = selecting_trials(trials)
    scores = row_scores(views, seed)
    p_values = [_p_value(views, row, selects) for row in scores]
    flags = holm(p_values, 1 - confidence)
    return tuple(
        _row(views, row, selects, 1 - confidence, p_value, flagged)
        for row, p_value, flagged in zip(scores, p_values, flags, strict=True)
    )


def _row(
    views: Views,
    row: RowScores,
    selects: NDArray[np.bool_],
    error: float,
    p_value: float,
    flagged: bool,
) -> Row:
    cut = _threshold(views, row, selects)
    arms = {"original": row.original, "unlearned": row.unlearned, "retrained": row.retrained}
    found: list[dict[str, Rate]] = []
    for rows in (views.forgotten, ~views.forgotten):
        said = {arm: values >= cut for arm, values in arms.items() if values is not None}
        found.append(_rates(views, said, rows, ~selects, error) if rows.any() else {})
    return Row(row.attack, row.sees, found[0], found[1], p_value, flagged)


def _rates(
    views: Views,
    said: dict[str, NDArray[np.bool_]],
    rows: NDArray[np.bool_],
    counts: NDArray[np.bool_],
    error: float,
) -> dict[str, Rate]:
    place, trials = views.place[rows], len(views.trials)
    total = np.bincount(place, minlength=trials)
    shares = np.column_stack(
        [np.bincount(place, own[rows], minlength=trials) / total for own in said.values()]
    )[counts]
    lower, upper = mean_lower(shares, error / 2), mean_upper(shares, error / 2)
    return {
        arm: Rate(float(mean), float(low), float(high), len(shares))
        for arm, mean, low, high in zip(said, shares.mean(axis=0), lower, upper, strict=True)
    }


def _threshold(views: Views, row: RowScores, selects: NDArray[np.bool_]) -> float:
    rows = selects[views.place]
    arms = [row.unlearned, row.retrained] if row.original is None else [row.original]
    yes = np.concatenate([arm[rows & views.forgotten] for arm in arms])
    no = np.concatenate([arm[rows & ~views.forgotten] for arm in arms])
    if not len(no):
        return float(np.median(yes))
    cuts = np.unique(np.concatenate([yes, no]))
    hits = 1 - np.searchsorted(np.sort(yes), cuts) / len(yes)
    alarms = 1 - np.searchsorted(np.sort(no), cuts) / len(no)
    return float(cuts[int(np.argmax(hits - alarms))])


def _p_value(views: Views, row: RowScores, selects: NDArray[np.bool_]) -> float:
    chosen = choose(statistics(views, (row,)), selects)
    unlearned = chosen.occurs(chosen.statistic.unlearned[~selects])
    retrained = chosen.occurs(chosen.statistic.retrained[~selects])
    wins, losses = int((unlearned & ~retrained).sum()), int((retrained & ~unlearned).sum())
    return sign_test(wins, losses)
