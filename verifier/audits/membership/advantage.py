"""The membership advantage: its estimation and presentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.errors import AuditError
from leaveout.kernel.audits import (
    LEAST_TRIALS,
    LOWER_SHARE,
    Estimate,
    Event,
    Scores,
    basic,
    choose,
    farthest,
    of_events,
    of_records,
    of_statistics,
    scores,
    statistics,
)
from leaveout.kernel.tails import at_least
from leaveout.verifier.audits.intervals import holm
from leaveout.verifier.audits.membership.file import Audit, Events
from leaveout.verifier.audits.membership.result import (
    Advantage,
    Counted,
    Ranked,
    implied_guarantee,
    more_often,
    nothing_known,
)
from leaveout.verifier.audits.membership.views import Views
from leaveout.verifier.certify.audits import answer, means_above

Sees = Literal["after", "both"]
"""What an attack sees: only the model after forgetting, or also the one before."""

_BOTH = ("change of loss", "closeness", "both models")


def sees(attack: str) -> Sees:
    """Return which models an attack, or a statistic of it, looks at."""
    return "both" if any(word in attack for word in _BOTH) else "after"


def statistic_words(name: str) -> str:
    """Return in words which number of a trial the kernel calls by this name."""
    attack, _, kind = name.rpartition(", ")
    what = "mean score of the forgotten rows"
    if kind != "mean":
        what = "rank of the forgotten rows among rows never trained on"
    return f"attack '{attack}', {what}"


@dataclass(frozen=True, eq=False)
class RowScores:
    """The scores of one attack."""

    attack: str
    sees: Sees
    unlearned: Floats  # shape (rows,): all rows of the unlearned arm
    retrained: Floats  # shape (rows,): all rows of the retrained arm
    original: Floats | None = None  # shape (rows,)

    @property
    def scores(self) -> Scores:
        """What the kernel knows of it."""
        return Scores(self.attack, self.unlearned, self.retrained)


def row_scores(views: Views) -> tuple[RowScores, ...]:
    """Return the scores of every attack that the audit supports."""
    original = {} if views.original is None else basic(views.original, views.label)
    return tuple(
        RowScores(each.name, sees(each.name), *each[1:], original.get(each.name))
        for each in scores(views.kernel_view, answer)
    )


def advantage_of_events(events: Events, confidence: float) -> Advantage:
    """Estimate the largest difference of an event's probabilities in the two arms."""
    found = of_events(events.counts, _error(confidence), answer)
    counted = events.event_counts
    # The event and its direction are chosen from the same counts: one of 2 k choices.
    shared = 1 - (1 - confidence) / (2 * len(counted))
    shown = [max(more_often(each, shared), more_often(each.opposite(), shared)) for each in counted]
    best = counted[max(range(len(shown)), key=shown.__getitem__)]
    if best.unlearned * best.retrained_trials < best.retrained * best.unlearned_trials:
        best = best.opposite()
    trials = min(int(events.unlearned_trials.min()), int(events.retrained_trials.min()))
    implied = implied_guarantee(best, shared)
    return Advantage(*_ends(found), "events", trials, trials, str(best), implied)


def _error(confidence: float) -> Fraction:
    return 1 - Fraction(repr(float(confidence)))


def _ends(found: Estimate) -> tuple[float, float]:
    """Return bounds rounded outwards."""
    lower, upper = float(found.lower), float(found.upper)
    return max(0.0, math.nextafter(lower, -1)), min(1.0, math.nextafter(upper, 2))


def mean_upper(values: Floats, error: float) -> Floats:
    """Return upper bounds of means of independent draws in [0, 1]; see `means_above`."""
    return np.asarray(1 - means_above(1 - values, error))


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of the sign test."""
    tail = at_least(max(wins, losses), wins + losses, Fraction(1, 2))[1]
    return min(1.0, 2 * float(tail))


def advantage_of_records(views: Views, confidence: float) -> Advantage:
    """Estimate the advantage over all attacks and thresholds; see `advantage`."""
    seen, rows = views.kernel_view, [row.scores for row in row_scores(views)]
    found = of_records(seen, rows, _error(confidence), answer)
    assert found.best is not None
    row, cut, trials = rows[found.best.place], found.best.cut, int(seen.counts.sum())
    own = views.forgotten & seen.counts[views.place]
    whole = np.bincount(views.place[own])[seen.counts]
    shown = [
        float((np.bincount(views.place[own], arm[own] >= cut)[seen.counts] / whole).mean())
        for arm in (row.unlearned, row.retrained)
    ]
    words = (
        f"attack '{row.name}', score of a forgotten row >= {cut:.5g}: {shown[0]:.1%} of unlearned "
        f"and {shown[1]:.1%} of retrained ones, on average over {trials} trials"
    )
    return Advantage(*_ends(found), "records", seen.trials, trials, words)


def count(
    found: Sequence[Scores], counts: NDArray[np.bool_], kind: Callable[[str], bool]
) -> Counted | None:
    """Choose an event among statistics of a kind by some trials, and count it in the others."""
    own = [each for each in found if kind(each.name)]
    return _count_event(own, choose(own, ~counts), counts) if own else None


def _count_event(found: Sequence[Scores], event: Event, counts: NDArray[np.bool_]) -> Counted:
    chosen, total = found[event.place], int(counts.sum())
    hits = [int(event.occurs(arm[counts]).sum()) for arm in (chosen.unlearned, chosen.retrained)]
    words = f"{statistic_words(chosen.name)} {event.words}"
    return Counted(words, hits[0], hits[1], total, total)


def advantage_of_trials(views: Views, confidence: float) -> Advantage:
    """Estimate the advantage over all attacks and thresholds; see `advantage`."""
    rows = [row.scores for row in row_scores(views)]
    return advantage_of_statistics(
        statistics(views.kernel_view, rows), views.kernel_view.counts, confidence
    )


def advantage_of_statistics(
    found: Sequence[Scores], counts: NDArray[np.bool_], confidence: float
) -> Advantage:
    """Estimate the advantage of the events "a statistic is at least t"."""
    shown = of_statistics(found, counts, error := _error(confidence), answer)
    assert shown.best is not None
    best, trials = _count_event(found, shown.best, counts), int(counts.sum())
    lower, upper = _ends(shown)
    attack = str(best)
    if lower > more_often(best, float(1 - LOWER_SHARE * error)):
        wide = max(found, key=lambda each: farthest(each.unlearned[counts], each.retrained[counts]))
        apart = farthest(wide.unlearned[counts], wide.retrained[counts]) / trials
        attack = (
            f"{statistic_words(wide.name)}: its distributions over {trials} trials are "
            f"{apart:.3f} apart"
        )
    alone = count(found, counts, lambda name: sees(name) == "after")
    ranks = count(found, counts, lambda name: "rank among" in name)
    assert alone is not None
    return Advantage(
        lower,
        upper,
        "trials",
        len(counts),
        trials,
        attack,
        implied_guarantee(alone, confidence),
        None if ranks is None else Ranked(more_often(ranks, confidence), confidence, ranks),
    )


Unit = Literal["trials", "records"]
UNITS: tuple[Unit, ...] = ("trials", "records")


def advantage(audit: Audit, confidence: float, unit: Unit = "trials") -> Advantage:
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
        return advantage_of_records(audit, confidence)
    return advantage_of_trials(audit, confidence)


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


def rates(views: Views, confidence: float) -> tuple[Row, ...]:
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
    selects, every = ~views.kernel_view.counts, row_scores(views)
    p_values = [_p_value(views, row, selects) for row in every]
    flags = holm(p_values, 1 - confidence)
    return tuple(
        _row(views, row, selects, 1 - confidence, p_value, flagged)
        for row, p_value, flagged in zip(every, p_values, flags, strict=True)
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
    lower, upper = means_above(shares, error / 2), mean_upper(shares, error / 2)
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
    found = statistics(views.kernel_view, [row.scores])
    event = choose(found, selects)
    chosen = found[event.place]
    unlearned, retrained = (event.occurs(arm[~selects]) for arm in chosen[1:])
    wins, losses = int((unlearned & ~retrained).sum()), int((retrained & ~unlearned).sum())
    return sign_test(wins, losses)
