"""Functions of audits: the file, and attackers' membership advantage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.values import Given, Range
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.estimates.file import Audit, Counts, Floats, Seen, read_trials
from leaveout.verifier.checker.rationals import (
    down,
    least_probability,
    log,
    most_probability,
    sqrt,
    up,
)

_BETS = np.linspace(0.05, 1, 20)
_HALVINGS = 34
_FACTORS = 16
"""Factors multiplied before the exponent is split off, so that float64 never overflows."""
_LEAST = 2.0**-40
"""Smaller means count as 0."""
_RANGE = 1000
_FAR = 2**40
"""Exponent of 0, below those of all products."""


def means_above(values: Floats, error: Fraction) -> Floats:
    """Return lower bounds of means of independent draws; each fails with probability ``error``.

    For a bet u in [0, 1], the product over the draws of 1 + u (x / m - 1) = (1 - u) + u x / m has
    expectation at most 1 if the mean is at most m, and so has the average W(m) over fixed bets; it
    reaches 1 / error with probability at most ``error`` (Markov). W decreases in m, so where it
    reaches that value, the mean is above m unless this event occurred.
    """
    low, high = np.zeros(values.shape[1]), np.minimum(values.mean(axis=0), 1.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        shown = (middle > _LEAST) & _reaches(values, np.maximum(middle, _LEAST), error)
        low, high = np.where(shown, middle, low), np.where(shown, high, middle)
    return low


def _reaches(values: Floats, mean: Floats, error: Fraction) -> NDArray[np.bool_]:
    """Return, by column, whether the average over the bets provably reaches 1 / error.

    It computes only sums, products and quotients of non-negative numbers, with charged relative
    rounding.
    """
    trials, columns = values.shape
    product = np.ones((len(_BETS), columns))
    exponent = np.zeros((len(_BETS), columns), dtype=np.int64)
    first, rate = (1 - _BETS)[:, None], _BETS[:, None] / mean
    for start in range(0, trials, _FACTORS):
        for draw in values[start : start + _FACTORS]:
            product *= first + rate * draw
        product, shift = np.frexp(product)
        exponent += shift
    exponent = np.where(product > 0, exponent, -_FAR)
    most = exponent.max(axis=0)
    below = exponent - most
    total = np.where(below > -_RANGE, np.ldexp(product, np.maximum(below, -_RANGE)), 0).sum(axis=0)
    with np.errstate(over="ignore"):
        reached = np.ldexp(total, np.clip(most, -2 * _RANGE, 2 * _RANGE))
    # A factor has at most 5 roundings, a product 1 more each; the sums and the rest fewer than 64.
    charged = len(_BETS) / error * (1 + Fraction(6 * trials + 64, 2**52))
    if charged >= 2**_RANGE:
        return np.zeros(columns, dtype=np.bool_)
    return np.asarray(reached >= np.nextafter(float(charged), np.inf))


LOWER_SHARE = Fraction(4, 5)
"""Share of the error for the lower bound."""


def band(trials: int, error: Fraction) -> Fraction:
    """Return the maximum distance of an empirical distribution function from the true one.

    It is exceeded with probability at most 2 exp(-2 n m^2) (Dvoretzky, Kiefer and Wolfowitz, with
    Massart's constant), which is ``error`` for m = sqrt(ln(2 / error) / (2 n)).
    """
    return sqrt(log(2 / error)[1] / (2 * trials))[1]


def more_often(unlearned: tuple[int, int], retrained: tuple[int, int], error: Fraction) -> Fraction:
    """Return a lower bound of the excess probability of an event in the first arm.

    Each arm gets half of the error; they need not be independent.
    """
    low = least_probability(*unlearned, error / 2)
    return max(Fraction(0), low - most_probability(*retrained, error / 2))


def of_events(counts: Counts, error: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds of the largest difference of an event's probability between the arms.

    Both ends of both arms of every event share the error.
    """
    each = error / (4 * len(counts.unlearned))
    lower = upper = Fraction(0)
    for pair in zip(counts.unlearned, counts.retrained, strict=True):
        (low, high), (least, most) = (
            (least_probability(*one, each), most_probability(*one, each)) for one in pair
        )
        lower = max(lower, low - most, least - high)
        upper = max(upper, high - least, most - low)
    return lower, upper


_STEPS = 100
_SMALL = 1e-12
_STEP_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class Line:
    """Log-odds that are linear in standardised features."""

    mean: Floats  # shape (features,)
    scale: Floats  # shape (features,)
    slopes: Floats  # shape (features,)
    constant: float

    def scores(self, features: Floats) -> Floats:
        """Return the log-odds of rows, in a fixed order of sums, so that rows are independent."""
        found = np.full(len(features), self.constant)
        for column, slope in enumerate(self.slopes):
            found += slope * ((features[:, column] - self.mean[column]) / self.scale[column])
        return found


def train_line(features: Floats, apart: NDArray[np.bool_]) -> Line:
    """Train with balanced classes and half the squared slopes as a penalty."""
    mean, scale = features.mean(axis=0), features.std(axis=0)
    # A constant column's deviation is only rounding.
    scale = np.where(scale <= 10 * np.finfo(float).eps * (1 + np.abs(mean)), 1.0, scale)
    table = np.column_stack([(features - mean) / scale, np.ones(len(features))])
    kinds = np.bincount(apart, minlength=2)
    weights = (len(apart) / (2 * kinds))[apart.astype(int)]
    penalty = np.append(np.ones(features.shape[1]), 0.0)
    signs = np.where(apart, 1.0, -1.0)

    def loss(found: Floats) -> float:
        value = weights @ np.logaddexp(0, -signs * (table @ found)) + penalty @ found**2 / 2
        return float(value)

    found = np.zeros(table.shape[1])
    at = loss(found)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(table @ found, -700, 700)))
        slope = table.T @ (weights * (chance - apart)) + penalty * found
        bent = (table * (weights * chance * (1 - chance))[:, None]).T @ table + np.diag(penalty)
        step = np.linalg.lstsq(bent, slope, rcond=None)[0]
        share = 1.0
        for _ in range(_STEP_HALVINGS):
            new = loss(found - share * step)
            if new <= at:
                break
            share /= 2
        else:
            break
        found, at = found - share * step, new
        if np.abs(share * step).max() <= _SMALL * (1 + np.abs(found).max()):
            break
    return Line(mean, scale, found[:-1], float(found[-1]))


_LEAST_PROBABILITY = 1e-7
_FOLDS = 5
_MOST_ROWS = 20_000
_SEED = 0
"""Seed for drawing training rows if there are many; fixed, so that nobody can try others."""


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one attack."""

    attack: str
    unlearned: Floats  # shape (rows,)
    retrained: Floats  # shape (rows,)


def scores(seen: Seen) -> tuple[Scores, ...]:
    """Return the scores of every attack that the file allows.

    A trained attack scores the rows of each counted trial by what it learned from other trials.
    """
    label, before = seen.label, seen.original
    arms = (seen.unlearned, seen.retrained)
    found = [
        Scores("loss", *(_loss(arm, label) for arm in arms)),
        Scores("margin", *(_margin(arm, label) for arm in arms)),
        Scores("confidence", *(arm.max(axis=1) for arm in arms)),
        Scores("label only", *((arm.argmax(axis=1) == label).astype(np.float64) for arm in arms)),
    ]
    if before is not None:
        original = _loss(before, label)
        found += [
            Scores("change of loss", *(_loss(arm, label) - original for arm in arms)),
            Scores("closeness", *(-np.abs(arm - before).sum(axis=1) for arm in arms)),
        ]
    for told in (False, True):
        for both in (False, True):
            if (told or seen.has_unseen_rows) and (not both or before is not None):
                found.append(_trained_scores(seen, told, both))
    return tuple(found)


def _trained_scores(seen: Seen, told: bool, both: bool) -> Scores:
    """Return the scores of attacks trained on membership or, if ``told``, on arms."""
    tables = [_features(seen, arm, both) for arm in (seen.unlearned, seen.retrained)]
    found = [np.zeros(len(seen.trial)) for _ in tables]
    places = np.flatnonzero(~seen.estimates)
    folds = np.array_split(places, min(_FOLDS, len(places)))
    for scored in (*folds, np.flatnonzero(seen.estimates)):
        learned = np.isin(seen.place, np.setdiff1d(places, scored))
        rows = np.flatnonzero(learned & seen.forgotten if told else learned)
        if len(rows) > _MOST_ROWS:
            rows = np.random.default_rng(_SEED).permutation(rows)[:_MOST_ROWS]
        apart = np.repeat([True, False], len(rows)) if told else np.tile(seen.forgotten[rows], 2)
        line = train_line(np.concatenate([table[rows] for table in tables]), apart)
        own = np.isin(seen.place, scored)
        for table, values in zip(tables, found, strict=True):
            values[own] = line.scores(table[own])
    name = "arm classifier" if told else "membership classifier"
    return Scores(f"{name}, {'both models' if both else 'one model'}", *found)


def _features(seen: Seen, after: Floats, both: bool) -> Floats:
    columns = _columns(after, seen.label)
    if both:
        assert seen.original is not None
        before = _columns(seen.original, seen.label)
        apart = np.abs(after - seen.original).sum(axis=1, keepdims=True)
        columns = np.hstack([columns, before, columns - before, apart])
    return columns


def _columns(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    odds = _margin(posteriors, label)
    return np.column_stack(
        [
            _loss(posteriors, label),
            odds,
            np.tanh(odds),
            np.abs(odds),
            posteriors.max(axis=1),
            odds > 0,
        ]
    )


def _loss(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    own = posteriors[np.arange(len(label)), label]
    return np.asarray(np.log(np.maximum(own, _LEAST_PROBABILITY)))


def _margin(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    others = posteriors.copy()
    others[np.arange(len(label)), label] = 0
    best = np.log(np.maximum(others.max(axis=1), _LEAST_PROBABILITY))
    return np.asarray(_loss(posteriors, label) - best)


_THRESHOLDS = 20
_NOISE = 0.02


@dataclass(frozen=True, eq=False)
class _Reached:
    """Numbers of forgotten rows, shape (trials, thresholds), and of all of them, (trials, 1)."""

    at_least: NDArray[np.int64]  # with scores of at least each threshold
    above: NDArray[np.int64]  # with scores above each threshold
    whole: NDArray[np.int64]  # of those that score at least, or more than, each threshold


def of_records(seen: Seen, error: Fraction) -> tuple[Fraction, Fraction, str]:
    """Return bounds of the advantage over all attacks and thresholds, and the lower one's origin.

    Rows of a trial share its models, so a trial counts once, with the share of its forgotten rows
    that reach a threshold. Thresholds are quantiles of the scores in the other trials, which also
    choose the attack and threshold of the lower bound of the mean difference. Shares decrease in
    the threshold: between two of them, a share is at most that above the lower, and at least that
    which reaches the upper; so the upper bound, for all these means jointly, holds for every
    threshold.
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
                f"{each.attack} >= {cuts[at]:.5g}, {'more' if sign > 0 else 'less'} frequent for "
                "a forgotten row in the unlearned arm"
            )
    return lower, min(Fraction(1), Fraction(upper)), words


def _count_reaching(seen: Seen, row: Scores) -> tuple[_Reached, _Reached, Floats]:
    """Count rows of both arms at each threshold; also return the thresholds."""
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
    # Four means per threshold: each arm, above and at least.
    each_error = (1 - LOWER_SHARE) * error / int(ends[-1])
    means = np.split(means_above(np.concatenate(draws, axis=1) / whole, each_error), ends[:-1])
    most = 0.0
    for others, above in zip(means[::2], means[1::2], strict=True):
        # The share above a threshold is 1 minus the rest, rounded upwards here.
        apart = np.append(1.0, np.nextafter(1 - others, 2.0)) - np.append(above, 0.0)
        most = max(most, float(np.nextafter(apart, 2.0).max()))
    return most


@dataclass(frozen=True, eq=False)
class Statistic:
    """One number per trial, in each arm."""

    name: str
    unlearned: Floats  # shape (trials,)
    retrained: Floats  # shape (trials,)


def of_trials(seen: Seen, error: Fraction) -> tuple[Fraction, Fraction, str]:
    """Return bounds of the advantage, and the event of the lower one; see `of_statistics`."""
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
    # Two arms per statistic.
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
    """Return the largest difference, over all t, of how many values of two lists are at least t."""
    cuts = np.concatenate([unlearned, retrained])
    return int(np.abs(_count_at_least(unlearned, cuts) - _count_at_least(retrained, cuts)).max())


def _count_at_least(values: Floats, cuts: Floats) -> NDArray[np.int64]:
    """Return the number of values that are at least each cut."""
    return len(values) - np.searchsorted(np.sort(values), cuts, side="left").astype(np.int64)


def _choose_event(
    found: Sequence[Statistic], chooses: NDArray[np.bool_]
) -> tuple[Statistic, float, bool]:
    """Choose the event that best separates the arms in the choosing trials.

    Ties go to the event whose means differ most relative to their spread. Any choice is valid.
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
    """Return how often a trial's forgotten rows score above unseen ones; ties count half."""
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


_LEAST_TRIALS = 4
_BITS = 64


def audit(given: Given) -> Audit:
    """Read an attacker's view of both arms, or counts of events."""
    return read_trials(given.file().path)


def membership_advantage(given: Given) -> Range:
    """Recompute the bounds of the advantage from the file of trials."""
    held = given.values.get("audit")
    unit = given.word("unit", "trials", "records") or "trials"
    if given.confidence is None:
        raise RejectedError("a number estimated from trials always needs a confidence")
    error = 1 - given.confidence
    if not 0 < error < 1:
        raise RejectedError(f"{given.confidence} is not a confidence")
    if isinstance(held, Counts):
        if unit == "records":
            raise RejectedError("counts of events have no records")
        given.tell(
            "rests on: events, fixed before the trials, were counted in independent trials, "
            "each with its own models; the counts are those of the file"
        )
        return _outwards(*of_events(held, error))
    if not isinstance(held, Seen):
        raise RejectedError("'audit' is not an audit")
    if held.trials < _LEAST_TRIALS:
        given.tell(f"{held.trials} trials are too few to estimate anything")
        return Range(Fraction(0), Fraction(1))
    lower, upper, words = (of_trials if unit == "trials" else of_records)(held, error)
    given.tell(
        f"recomputed: attacks selected and trained on {int((~held.estimates).sum()):,} trials; "
        f"the other {int(held.estimates.sum()):,} count; best on the first: {words}"
    )
    given.tell(
        "rests on: the trials of the file are independent, each with its own models, and were "
        "numbered before they were run"
    )
    return _outwards(lower, upper)


def _outwards(lower: Fraction, upper: Fraction) -> Range:
    """Return the range with shorter, outward-rounded ends."""
    return Range(max(Fraction(0), down(lower, _BITS)), min(Fraction(1), up(upper, _BITS)))
