"""The membership advantage: its estimation and presentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.errors import AuditError
from leaveout.verifier.audits.intervals import clopper_pearson, holm
from leaveout.verifier.audits.membership.file import Audit, Events
from leaveout.verifier.audits.membership.result import (
    LOWER_SHARE,
    Advantage,
    Counted,
    Ranked,
    implied_guarantee,
    more_often,
    nothing_known,
)
from leaveout.verifier.audits.membership.statistics import (
    LEAST_TRIALS,
    RowScores,
    Statistic,
    row_scores,
    selecting_trials,
    statistics,
)
from leaveout.verifier.audits.membership.views import Views


def advantage_of_events(events: Events, confidence: float) -> Advantage:
    """Estimate the largest difference of an event's probabilities in the two arms.

    Clopper-Pearson bounds, with the error shared by both sides of both arms of all events
    (Bonferroni).
    """
    each = 1 - (1 - confidence) / (2 * len(events.names))
    lower, upper, best = 0.0, 0.0, _event_counts(events, 0)
    for index in range(len(events.names)):
        counted = _event_counts(events, index)
        low, high = clopper_pearson(counted.unlearned, counted.unlearned_trials, each)
        least, most = clopper_pearson(counted.retrained, counted.retrained_trials, each)
        upper = max(upper, high - least, most - low)
        shown = max(low - most, least - high)
        if shown > lower:
            lower, best = shown, counted
    if best.unlearned * best.retrained_trials < best.retrained * best.unlearned_trials:
        best = best.opposite()
    # The event and its direction are chosen from the same counts: one of 2 k choices.
    shared = 1 - (1 - confidence) / (2 * len(events.names))
    trials = min(int(events.unlearned_trials.min()), int(events.retrained_trials.min()))
    found = implied_guarantee(best, shared)
    return Advantage(lower, upper, "events", trials, trials, str(best), found)


def _event_counts(events: Events, index: int) -> Counted:
    """Return the counts of one event."""
    return Counted(
        events.names[index],
        "after",
        int(events.unlearned_hits[index]),
        int(events.retrained_hits[index]),
        int(events.unlearned_trials[index]),
        int(events.retrained_trials[index]),
    )


_BETS = np.linspace(0.05, 1, 20)
_HALVINGS = 32
"""The last step is a quarter of a billionth; the returned end is the safe one."""


def dkw_margin(trials: int, error: float) -> float:
    """Return the largest error of an empirical distribution function.

    Dvoretzky-Kiefer-Wolfowitz with Massart's constant (1990): ``P(sup |F_n - F| > m) <= 2 exp(-2 n
    m^2)`` = ``error``.
    """
    return math.sqrt(math.log(2 / error) / (2 * trials))


def mean_lower(values: Floats, error: float) -> Floats:
    """Return lower bounds of means of independent draws in [0, 1].

    By betting (Waudby-Smith and Ramdas 2024): reject ``m`` where the mean over fixed bets of
    ``prod(1 + u (x / m - 1))`` is >= ``1 / error``.
    """
    low, high = np.zeros(values.shape[1]), values.mean(axis=0)
    wanted = math.log(len(_BETS) / error)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rejected = _log_wealth(values, middle) >= wanted
        low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
    return low


def mean_upper(values: Floats, error: float) -> Floats:
    """Return upper bounds of means of independent draws in [0, 1]; see `mean_lower`."""
    return np.asarray(1 - mean_lower(1 - values, error))


def _log_wealth(values: Floats, mean: Floats) -> Floats:
    """Return the log of the sum over bets, shape (columns,); infinite at mean 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(values > 0, values / mean, 0) - 1
        logs = np.log1p(_BETS[:, None, None] * ratio).sum(axis=1)
    most = logs.max(axis=0)
    with np.errstate(invalid="ignore"):
        total = most + np.log(np.exp(logs - most).sum(axis=0))
    return np.asarray(np.where(np.isfinite(most), total, most))


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of the sign test."""
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0


_THRESHOLDS = 20
_NOISE = 0.02
"""Added to spreads estimated from few trials, so that a small one does not win by chance."""


@dataclass(frozen=True, eq=False)
class Shares:
    """Shares of forgotten rows, shape (trials, thresholds)."""

    at_least: Floats  # with scores of at least each threshold
    above: Floats  # with scores above each threshold


def advantage_of_records(views: Views, confidence: float, seed: int) -> Advantage:
    """Estimate the advantage over all attacks and thresholds; see `advantage`.

    A trial counts once, since its rows share models. Shares decrease in the threshold, so bounds of
    the means at neighbouring thresholds cover all between (Bonferroni).
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
                f"attack '{row.attack}', score of a forgotten row >= {cuts[at]:.5g}: "
                f"{shown[0]:.1%} of unlearned and {shown[1]:.1%} of retrained ones, on average "
                f"over {len(draws)} trials"
            )
    # Four means per threshold: each arm, at least and above.
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
    """Return each trial's share of forgotten rows that reach each threshold."""
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
        # For t above a cut, the share "at least t" is at most the share above the cut, and at least
        # the share that reaches the next cut.
        upper = np.append(1.0, mean_upper(first.above[counts], error))
        lower = np.append(mean_lower(second.at_least[counts], error), 0.0)
        most = max(most, float((upper - lower).max()))
    return min(1.0, most)


@dataclass(frozen=True, eq=False)
class Chosen:
    """An event about a model, fixed before the counted trials."""

    statistic: Statistic
    threshold: float
    above: bool

    def __str__(self) -> str:
        return f"{self.statistic} {'>=' if self.above else '<'} {self.threshold:.5g}"

    def occurs(self, values: Floats) -> NDArray[np.bool_]:
        """Return in which trials it occurred."""
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

    Lower bound: `LOWER_SHARE` of the error, Clopper-Pearson on the event chosen by other trials.
    Upper bound: the rest, DKW over all statistics and t.
    """
    error = 1 - confidence
    counts = ~selects
    chosen = choose(found, selects)
    counted = chosen.count(counts)
    estimating = int(counts.sum())
    # Two arms per statistic.
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
        implied=implied_guarantee(alone.count(counts), confidence),
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
    """Choose the event that best separates the selecting trials; ties by spread."""
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
    """Return the largest difference of two empirical distributions, its place and direction."""
    points = np.unique(np.concatenate([unlearned, retrained]))
    cuts = np.concatenate([points[:1], (points[1:] + points[:-1]) / 2])
    shares = [(arm[:, None] >= cuts).mean(axis=0) for arm in (unlearned, retrained)]
    difference = shares[0] - shares[1]
    at = int(np.argmax(np.abs(difference)))
    return float(abs(difference[at])), float(cuts[at]), bool(difference[at] >= 0)


Unit = Literal["trials", "records"]
UNITS: tuple[Unit, ...] = ("trials", "records")


def advantage(audit: Audit, confidence: float, unit: Unit = "trials", seed: int = 0) -> Advantage:
    """Estimate how well an attacker distinguishes unlearning from retraining.

    The advantage is ``sup |Pr[E in the unlearned arm] - Pr[E in the retrained arm]|`` over the
    events "the attack scores at least t", for every attack and every t. The attacks are fixed
    before the estimating trials: those of `ATTACKS`, and logistic regressions trained on the first
    third of the trials, which are used for nothing else.

    Parameters
    ----------
    audit : Views or Events
    confidence : float
        Probability, at least, that the advantage is between both bounds.
    unit : {"trials", "records"}
        ``trials``: the attacker sees all forgotten rows of a model together. ``records``: it sees
        one of them, drawn at random. In both cases the independent draws are trials, not rows
        answered by one model.
    seed : int
        Seed for drawing rows to train attacks on, if there are very many.

    Raises
    ------
    AuditError
        If the confidence is not in (0, 1), or the audit has no rows to draw from.
    """
    if not 0 < confidence < 1:
        raise AuditError(
            f"a confidence of {confidence} is meaningless; pass one in (0, 1), e.g. 0.95"
        )
    if isinstance(audit, Events):
        if unit == "records":
            raise AuditError(
                f"{audit.source}: counts events of trials and has no records; remove unit"
            )
        return advantage_of_events(audit, confidence)
    trials = len(audit.trials)
    if trials < LEAST_TRIALS:
        return nothing_known(unit, trials)
    if unit == "records":
        return advantage_of_records(audit, confidence, seed)
    return advantage_of_trials(audit, confidence, seed)


@dataclass(frozen=True)
class Rate:
    """A mean over trials with an interval."""

    mean: float
    lower: float
    upper: float
    trials: int  # independent trials in the mean

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.lower:.2f}, {self.upper:.2f}] of {self.trials}"


@dataclass(frozen=True)
class Row:
    """The rates of one attack."""

    attack: str
    sees: str
    forgotten: dict[str, Rate]
    unseen: dict[str, Rate]  # the same for rows that no model saw; empty if none are recorded
    p_value: float
    flagged: bool  # whether it is refuted, for all attacks jointly (Holm)


def rates(views: Views, confidence: float, seed: int = 0) -> tuple[Row, ...]:
    """Measure every attack.

    An attack calls a row a member if its score is at least a threshold. The first third of the
    trials chooses the threshold that best separates (by mean accuracy of both kinds) rows the
    original was trained on from rows no model saw. If the original is not recorded, or the attack
    is trained, it is chosen between forgotten and unseen rows over both arms; without unseen rows,
    it is the median score. The other trials are counted; a trial counts once in a mean.

    Parameters
    ----------
    views : Views
    confidence : float
        Confidence of each single interval, and of all flags jointly.
    seed : int

    Raises
    ------
    AuditError
        If there are too few trials.
    """
    trials = len(views.trials)
    if trials < LEAST_TRIALS:
        raise AuditError(
            f"{views.source}: {trials} trial{'s' * (trials != 1)}; expected at least "
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
