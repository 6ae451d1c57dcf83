"""Audits of unlearning: how well fixed attacks tell unlearned models from retrained ones.

The advantage is the largest difference, over attacks and thresholds t, of the probability that an
attack scores at least t in either arm. Trials are independent, rows of a trial are not. The first
third of the trials chooses, the others count: nothing that is chosen depends on what is counted.
The attacks, the choice and the shares of the error are fixed here. Four attacks are linear in fixed
features with slopes from outside: that they were fitted to the first third alone is not checked.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .files import read_archive
from .numbers import Floats, Rejected, need
from .tails import band, down, lower_ends, means_above, up
from .values import Ask, Given, Range, hints

ARMS = ("unlearned", "retrained")
_ROWS: tuple[str, ...] = ("trial", "forgotten", "label", *ARMS)
_EVENTS = ("event", *(f"{arm}_{what}" for arm in ARMS for what in ("hits", "trials")))
LEAST_TRIALS = 4
"""Two that choose, so that an attack can be cross-fitted, and two that count."""

_LEAST_PROBABILITY = 1e-7


class Counts(NamedTuple):
    """Events and trials of each arm, one entry per event."""

    unlearned: Sequence[tuple[int, int]]
    retrained: Sequence[tuple[int, int]]


@dataclass(frozen=True, eq=False)
class Seen:
    """The attacker's view, row by row."""

    trial: NDArray[np.int64]  # shape (rows,)
    forgotten: NDArray[np.bool_]  # shape (rows,)
    label: NDArray[np.int64]  # shape (rows,)
    arms: Mapping[str, Floats]  # of ARMS and perhaps "original", shape (rows, labels): posteriors

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """Each row's trial as an index into the ascending trial numbers."""
        return np.unique(self.trial, return_inverse=True)[1].ravel().astype(np.int64)

    @property
    def trials(self) -> int:
        """The number of trials."""
        return int(self.place.max()) + 1

    @property
    def has_unseen_rows(self) -> bool:
        """Whether there are rows that no model saw."""
        return not bool(self.forgotten.all())

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Whether each trial counts; others only choose."""
        return which_count(self.trials)


def which_count(trials: int) -> NDArray[np.bool_]:
    """Return which trials count; the first third, at least two, only chooses."""
    return np.arange(trials) >= max(2, trials // 3)


def audit(given: Given) -> Seen | Counts:
    """Read an attacker's view of both arms, or counts of events; anything unusual is refused."""
    held = given.file()
    content = held.content()
    try:
        arrays = read_archive(io.BytesIO(content), strangers=True)
        arrays.pop("manifest", None)
        needed, more = (_EVENTS, ()) if "event" in arrays else (_ROWS, ("original",))
        fine = {*needed} <= arrays.keys() <= {*needed, *more}
        need(fine, f"contains {', '.join(sorted(arrays))}; expected {', '.join(needed)}")
        return _read_counts(arrays) if "event" in arrays else _read_rows(arrays)
    except Exception as error:  # a damaged archive raises almost anything
        raise Rejected(f"{held.path}: {' '.join(str(error).split())}") from None


def _read_counts(arrays: Mapping[str, NDArray[Any]]) -> Counts:
    names = arrays["event"]
    fine = names.ndim == 1 and names.dtype.kind == "U" and len(names) > 0
    need(fine, "'event' is not a list of strings")
    need(len({*names.tolist()}) == len(names), "two events have the same name")
    arms = []
    for arm in ARMS:
        hits, trials = (_whole(arrays, f"{arm}_{what}", len(names)) for what in ("hits", "trials"))
        what = f"the counts of the {arm} arm are not between 0 and the number of trials"
        need((hits >= 0) & (hits <= trials) & (trials >= 1), what)
        arms.append(list(zip(hits.tolist(), trials.tolist(), strict=True)))
    return Counts(*arms)


def _whole(arrays: Mapping[str, NDArray[Any]], name: str, rows: int) -> NDArray[np.int64]:
    array = arrays[name]
    fine = array.shape == (rows,) and array.dtype.kind in "iu"
    need(fine, f"{name!r} is not a list of whole numbers of the right length")
    # Unsigned numbers beyond int64 would wrap around.
    need(int(array.max()) < 2**63, f"{name!r} contains a number that is too large")
    return array.astype(np.int64)


def _read_rows(arrays: Mapping[str, NDArray[Any]]) -> Seen:
    rows, labels = arrays["trial"].size, arrays[ARMS[0]].shape[-1]
    need(rows, "no rows")
    flags = arrays["forgotten"]
    fine = flags.shape == (rows,) and flags.dtype.kind in "biu"
    fine = fine and bool(np.isin(flags, (0, 1)).all())
    need(fine, "'forgotten' does not contain one truth value per row")
    trial, label = (_whole(arrays, name, rows) for name in ("trial", "label"))
    arms = {}
    for name in (name for name in (*ARMS, "original") if name in arrays):
        fine = arrays[name].dtype.kind == "f" and arrays[name].shape == (rows, labels)
        need(fine and labels > 1, f"{name!r} does not contain one row of probabilities per row")
        arms[name] = chances = arrays[name].astype(np.float64)
        sums = np.abs(chances.sum(axis=1, keepdims=True) - 1)
        what = f"{name!r} contains a row that is not a probability distribution"
        need((chances >= 0) & (sums <= 1e-3), what)
    need((label >= 0) & (label < labels), "the labels do not match the columns of the posteriors")
    seen = Seen(trial, flags.astype(np.bool_), label, arms)
    gone, kept = (
        np.bincount(seen.place[kind], minlength=seen.trials) > 0
        for kind in (seen.forgotten, ~seen.forgotten)
    )
    what = "a trial has no forgotten rows, or has no unseen rows although others do"
    need(gone.all() and (kept.all() or not kept.any()), what)
    return seen


class Scores(NamedTuple):
    """The scores of one attack, or one number per trial of it."""

    name: str
    unlearned: Floats  # shape (rows,) or (trials,)
    retrained: Floats  # shape (rows,) or (trials,)


def basic(posteriors: Floats, label: NDArray[np.int64]) -> dict[str, Floats]:
    """Return scores that need one model; the loss is that of Yeom et al. (2018)."""
    row, others = np.arange(len(label)), posteriors.copy()
    others[row, label] = 0
    loss = np.log(np.maximum(posteriors[row, label], _LEAST_PROBABILITY))
    margin = loss - np.log(np.maximum(others.max(axis=1), _LEAST_PROBABILITY))
    right = (posteriors.argmax(axis=1) == label).astype(np.float64)
    return {"loss": loss, "margin": margin, "confidence": posteriors.max(1), "label only": right}


def scores(seen: Seen, ask: Ask) -> list[Scores]:
    """Return the scores of every attack that the file allows."""
    shown = {arm: basic(array, seen.label) for arm, array in seen.arms.items()}
    found = [Scores(name, *(shown[arm][name] for arm in ARMS)) for name in shown[ARMS[0]]]
    before, again = seen.arms.get("original"), shown.get("original")
    tables = {arm: _columns(shown[arm]) for arm in shown}
    wide = {}
    if before is not None and again is not None:
        loss = again["loss"]
        found.append(Scores("change of loss", *(shown[arm]["loss"] - loss for arm in ARMS)))
        apart = {arm: np.abs(seen.arms[arm] - before).sum(axis=1) for arm in ARMS}
        found.append(Scores("closeness", *(-apart[arm] for arm in ARMS)))
        for arm in ARMS:
            own, old = tables[arm], tables["original"]
            wide[arm] = np.hstack([own, old, own - old, apart[arm][:, None]])
    for apart_by in ("membership", "arm"):
        for many, held in (("one model", tables), ("both models", wide)):
            if held and (apart_by == "arm" or seen.has_unseen_rows):
                name = f"{apart_by} classifier, {many}"
                found.append(_linear(seen, name, [held[arm] for arm in ARMS], apart_by, ask))
    return found


def _columns(shown: Mapping[str, Floats]) -> Floats:
    odds = shown["margin"]
    rest = [np.tanh(odds), np.abs(odds), shown["confidence"], odds > 0]
    return np.column_stack([shown["loss"], odds, *rest])


def _linear(seen: Seen, name: str, tables: list[Floats], apart_by: str, ask: Ask) -> Scores:
    """Score by lines from outside, one per trial: the same for all that count, in both arms."""
    known: dict[str, NDArray[Any]] = dict(zip(ARMS, tables, strict=True))
    known |= {"place": seen.place, "forgotten": seen.forgotten, "counts": seen.counts}
    known["by_arm"] = np.array(apart_by == "arm")
    lines = hints(ask, "lines", known, seen.trials, 1 + tables[0].shape[1])
    need(np.abs(lines) <= 2.0**100, "a slope is too steep")
    need(lines[seen.counts] == lines[-1], "trials that count have lines of their own")
    found = []
    for table in tables:
        value = lines[seen.place, 0]
        for column in range(table.shape[1]):
            value = value + lines[seen.place, 1 + column] * table[:, column]
        found.append(value)
    return Scores(name, *found)


class Event(NamedTuple):
    """A number of an attack is at least a cut, or is below it."""

    place: int  # of the attack or statistic
    cut: float
    above: bool

    @property
    def words(self) -> str:
        """The event in words."""
        return f"{'>=' if self.above else '<'} {self.cut:.5g}"

    def occurs(self, values: Floats) -> NDArray[np.bool_]:
        """Return where it occurred."""
        return np.asarray((values >= self.cut) == self.above)


class Estimate(NamedTuple):
    """Bounds of the advantage, and the event chosen for the lower one."""

    lower: Fraction
    upper: Fraction
    best: Event | None = None


LOWER_SHARE = Fraction(4, 5)
"""Share of the error for the lower bound; the upper one depends on its logarithm only."""


def of_events(counts: Counts, error: Fraction, ask: Ask) -> Estimate:
    """Bound the largest difference of an event's probability between the arms.

    Both ends of both arms of every event share the error.
    """
    pairs = [*counts.unlearned, *counts.retrained]
    others = [(trials - hits, trials) for hits, trials in pairs]
    ends = lower_ends([*pairs, *others], error / (2 * len(pairs)), ask)
    least, most = ends[: len(pairs)], [1 - end for end in ends[len(pairs) :]]
    lower = upper = Fraction(0)
    for i in range(len(counts.unlearned)):
        j = i + len(counts.unlearned)
        lower = max(lower, least[i] - most[j], least[j] - most[i])
        upper = max(upper, most[i] - least[j], most[j] - least[i])
    return Estimate(lower, upper)


def statistics(seen: Seen, found: Sequence[Scores]) -> list[Scores]:
    """Return one number per trial: an attack's mean over forgotten rows, and their mean rank."""
    made = []
    for each in found:
        arms = each[1:]
        made.append(Scores(f"{each.name}, mean", *(_means(seen, arm) for arm in arms)))
        if seen.has_unseen_rows:
            name = f"{each.name}, rank among unseen rows"
            made.append(Scores(name, *(_ranks(seen, arm) for arm in arms)))
    return made


def _means(seen: Seen, values: Floats) -> Floats:
    place = seen.place[seen.forgotten]
    total = np.bincount(place, values[seen.forgotten], minlength=seen.trials)
    return np.asarray(total / np.bincount(place, minlength=seen.trials))


def _ranks(seen: Seen, values: Floats) -> Floats:
    """Return how often a trial's forgotten rows score above unseen ones; ties count half."""
    found = np.zeros(seen.trials)
    order = np.argsort(seen.place, kind="stable")
    ends = np.cumsum(np.bincount(seen.place))
    for place, rows in enumerate(np.split(order, ends[:-1])):
        gone = seen.forgotten[rows]
        own, others = values[rows[gone]], np.sort(values[rows[~gone]])
        twice = np.searchsorted(others, own, "left") + np.searchsorted(others, own, "right")
        found[place] = int(twice.sum()) / (2 * len(own) * len(others))
    return found


def _reach(values: Floats, cuts: Floats) -> NDArray[np.int64]:
    return len(values) - np.searchsorted(np.sort(values), cuts, side="left").astype(np.int64)


def farthest(one: Floats, other: Floats) -> int:
    """Return the largest difference, over all t, of how many of two lists are at least t."""
    cuts = np.concatenate([one, other])
    return int(np.abs(_reach(one, cuts) - _reach(other, cuts)).max())


def choose(found: Sequence[Scores], chooses: NDArray[np.bool_]) -> Event:
    """Choose the event that best separates the arms in some trials; ties by means over spread."""
    best: tuple[tuple[float, float], Event] | None = None
    for place, item in enumerate(found):
        arms = item.unlearned[chooses], item.retrained[chooses]
        points = np.unique(np.concatenate(arms))
        cuts = np.concatenate([points[:1], (points[1:] + points[:-1]) / 2])
        shares = [_reach(arm, cuts) / len(arm) for arm in arms]
        apart = shares[0] - shares[1]
        at = int(np.argmax(np.abs(apart)))
        gap, spread = abs(float(arms[0].mean() - arms[1].mean())), float(sum(a.std() for a in arms))
        key = abs(float(apart[at])), gap / spread if spread else float(np.inf if gap else 0.0)
        if best is None or key > best[0]:
            best = key, Event(place, float(cuts[at]), bool(apart[at] >= 0))
    assert best is not None
    return best[1]


def of_statistics(
    found: Sequence[Scores], counts: NDArray[np.bool_], error: Fraction, ask: Ask
) -> Estimate:
    """Bound the advantage over the events "a statistic is at least t", for every t.

    From above by the band around both arms' distributions of every statistic; from below by
    Clopper and Pearson at the event that other trials chose, each arm with half of its error.
    """
    trials = int(counts.sum())
    margin = 2 * band(trials, (1 - LOWER_SHARE) * error / (2 * len(found)))
    best = choose(found, ~counts)
    apart = max(farthest(each.unlearned[counts], each.retrained[counts]) for each in found)
    hits = [int(best.occurs(arm[counts]).sum()) for arm in found[best.place][1:]]
    pairs = [(hits[0], trials), (trials - hits[1], trials)]
    more, rest = lower_ends(pairs, LOWER_SHARE * error / 2, ask)
    share = Fraction(apart, trials)
    lower = max(Fraction(0), more - (1 - rest), share - margin)
    return Estimate(lower, min(Fraction(1), share + margin), best)


def of_records(seen: Seen, found: Sequence[Scores], error: Fraction, ask: Ask) -> Estimate:
    """Bound the advantage for one forgotten row, over all attacks and thresholds.

    A trial counts once, with the share of its forgotten rows that reach a threshold. Thresholds are
    quantiles of the scores in the other trials, which also choose the attack and threshold of the
    lower bound of the mean difference. Shares fall in the threshold: between two of them, a share
    is at most that above the lower, and at least that which reaches the upper; so the upper bound,
    for all these means jointly, holds for every threshold.
    """
    counts, place = seen.counts, seen.place[seen.forgotten]
    whole = np.bincount(place, minlength=seen.trials)[:, None]

    def tally(hits: NDArray[np.bool_]) -> NDArray[np.int64]:
        total = np.zeros((seen.trials, hits.shape[1]), np.int64)
        np.add.at(total, place, hits)
        return total

    best, strongest, lean, draws = Event(0, 0.0, True), -1.0, whole, []
    for at, each in enumerate(found):
        arms = [arm[seen.forgotten, None] for arm in each[1:]]
        cuts = thresholds(np.concatenate([arm[~counts[place]] for arm in arms]))
        reach, above = ([tally(arm >= cuts) for arm in arms], [tally(arm > cuts) for arm in arms])
        draws += [whole - above[0], reach[1], whole - above[1], reach[0]]
        apart = reach[0] - reach[1]
        chosen = (apart / whole)[~counts]
        key = np.abs(chosen.mean(axis=0)) / (chosen.std(axis=0) + 0.02)
        spot = int(np.argmax(key))
        if key[spot] > strongest:
            best = Event(at, float(cuts[spot]), bool(chosen[:, spot].mean() >= 0))
            strongest, lean = float(key[spot]), apart[:, [spot]] * (1 if best.above else -1)
    # A difference in [-1, 1] becomes a draw in [0, 1], rounded once.
    leaning = ((whole + lean) / (2 * whole))[counts]
    lower = 2 * means_above(leaning, LOWER_SHARE * error, ask)[0] - 1
    each_error = (1 - LOWER_SHARE) * error / sum(part.shape[1] for part in draws)
    means = iter(means_above((np.hstack(draws) / whole)[counts], each_error, ask))
    most = Fraction(0)
    for rest, reached in zip(draws[::2], draws[1::2], strict=True):
        below = [Fraction(0), *itertools.islice(means, rest.shape[1])]
        above_next = [*itertools.islice(means, reached.shape[1]), Fraction(0)]
        most = max(most, *(1 - a - b for a, b in zip(below, above_next, strict=True)))
    return Estimate(max(Fraction(0), lower), min(Fraction(1), most), best)


def thresholds(pool: Floats) -> Floats:
    """Return quantiles, at most 20."""
    levels = (np.arange(20) + 0.5) / 20
    return np.unique(np.quantile(pool, levels, method="inverted_cdf"))


def membership_advantage(given: Given) -> Range:
    """Bound the advantage that the file of an audit shows."""
    held = given.values.get("audit")
    unit = given.word("unit", "trials", "records") or "trials"
    error = given.error()
    if isinstance(held, Counts):
        need(unit == "trials", "counts of events have no records")
        given.tell(
            "rests on: events, fixed before the trials, were counted in independent trials, "
            "each with its own models; the counts are those of the file"
        )
        found = of_events(held, error, given.ask)
    elif not isinstance(held, Seen):
        raise Rejected("'audit' is not an audit")
    elif held.trials < LEAST_TRIALS:
        given.tell(f"{held.trials} trials are too few to estimate anything")
        found = Estimate(Fraction(0), Fraction(1))
    else:
        items = scores(held, given.ask)
        if unit == "records":
            found = of_records(held, items, error, given.ask)
        else:
            items = statistics(held, items)
            found = of_statistics(items, held.counts, error, given.ask)
        assert found.best is not None
        best = f"{items[found.best.place].name} {found.best.words}"
        given.tell(
            f"recomputed: attacks selected on {int((~held.counts).sum()):,} trials; the other "
            f"{int(held.counts.sum()):,} count; best on the first: {best}"
        )
        given.tell(
            "rests on: the trials of the file are independent, each with its own models, and were "
            "numbered before they were run; the classifiers among the attacks were trained outside "
            "the kernel, on the trials that select alone"
        )
    return Range(down(found.lower, 64), min(Fraction(1), up(found.upper, 64)))
