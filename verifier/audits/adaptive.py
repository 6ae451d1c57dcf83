"""Trials of attacks on unlearning services, compared with retraining, and claims they refute."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from leaveout.deadline import Deadline
from leaveout.errors import ShardedError
from leaveout.models.sharded.aggregation import draw_function
from leaveout.models.sharded.rows import Rows
from leaveout.models.sharded.shards import Shards
from leaveout.verifier.audits.intervals import (
    alpha_lower_bound,
    clopper_pearson,
    holm,
    refutation_level,
)
from leaveout.verifier.audits.membership.file import Events
from leaveout.verifier.audits.membership.result import Counted

__all__ = [
    "Attack",
    "Audit",
    "Duplicated",
    "Trial",
    "WhiteBox",
    "alpha_lower_bound",
    "audit",
    "clopper_pearson",
    "refutation_level",
]


@dataclass(frozen=True)
class Trial:
    """One trial, reproducible from the attack, the seed and its number."""

    seed: int
    number: int
    deleted: tuple[int, ...]  # the deletion script: ids, in order
    unlearned: tuple[bool, ...]
    retrained: tuple[bool, ...]


class Attack(Protocol):
    """An adaptive deletion, with events that distinguish unlearning from retraining."""

    @property
    def events(self) -> tuple[str, ...]:
        """The events to look for in models."""

    @property
    def retrained_at_most(self) -> tuple[float, ...]:
        """Proved bounds of each event's probability after any retraining; 1 if there is none."""

    def replay(self, seed: int, number: int) -> Trial:
        """Run one trial, deterministically."""


@dataclass(frozen=True)
class Audit:
    """The outcome of trials."""

    counts: tuple[Counted, ...]  # one per event
    shown: tuple[Trial | None, ...]

    @classmethod
    def of_events(cls, events: Events) -> Audit:
        """Return the outcome of trials that were run and counted elsewhere.

        No bound after retraining is assumed: no file can show that the shards were exchangeable.
        """
        return cls(events.event_counts, (None,) * len(events.names))

    def alpha_lower_bounds(self, beta: float, gamma: float, confidence: float) -> tuple[float, ...]:
        """Return one insufficient alpha per event, jointly with some confidence.

        Update sequences differ between trials, and a share gamma of them is exempt, so an event may
        have beta + gamma beyond e^alpha times its probability after retraining.
        """
        each = 1 - (1 - confidence) / len(self.counts)
        return tuple(
            alpha_lower_bound(*one.arms, beta + gamma, each, one.retrained_at_most)
            for one in self.counts
        )

    def refuted_by(
        self, alpha: float, beta: float, gamma: float, confidence: float
    ) -> tuple[int, ...]:
        """Return the events that refute a claim, by Holm's procedure over all events."""
        levels = [
            refutation_level(*one.arms, alpha, beta + gamma, one.retrained_at_most)
            for one in self.counts
        ]
        fallen = holm(levels, 1 - confidence)
        return tuple(event for event, falls in enumerate(fallen) if falls)


def audit(
    attack: Attack,
    trials: int,
    seed: int,
    *,
    seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Run trials.

    Parameters
    ----------
    attack : Attack
    trials : int
    seed : int
        Trial i is ``attack.replay(seed, i)``.
    seconds : float or None
        No trial starts later; finished ones count.
    progress : callable or None
        Called with the number of finished trials and the total.

    Raises
    ------
    TimeoutError
        If time did not suffice for a single trial.
    """
    deadline = Deadline.after(seconds)
    events = attack.events
    unlearned, retrained = [0] * len(events), [0] * len(events)
    shown: list[Trial | None] = [None] * len(events)
    done = 0
    while done < trials and not deadline.over:
        trial = attack.replay(seed, done)
        done += 1
        for event in range(len(events)):
            unlearned[event] += trial.unlearned[event]
            retrained[event] += trial.retrained[event]
            if shown[event] is None and trial.unlearned[event] > trial.retrained[event]:
                shown[event] = trial
        if progress is not None:
            progress(done, trials)
    if not done:
        raise TimeoutError("no trial could be run in the available time")
    counts = tuple(
        Counted(event, after, anew, done, done, at_most)
        for event, after, anew, at_most in zip(
            events, unlearned, retrained, attack.retrained_at_most, strict=True
        )
    )
    return Audit(counts, tuple(shown))


_MOST_COPIES = 100_000
_majority = draw_function("majority", 0.0)


@dataclass(frozen=True)
class Duplicated:
    """Delete every point that is answered correctly, then watch the remaining ones fail.

    Every point has several copies. A lookup model votes for the label of points it was trained on,
    otherwise for none; a point is answered correctly if enough shards contain a copy. Such points
    are deleted with all copies. If answers reveal the shards, the remaining points are those in too
    few shards, while retraining draws new shards.

    Row ids: copy j of point i has the id ``i * copies + j``.

    Attributes
    ----------
    points, copies, shards : int
        Theorem 3.1 has two copies and three shards.
    inclusion : float or None
        Probability that a shard contains a row, independently; None for a partition, where each row
        is in one shard.
    aggregate : callable
        Function from votes (for none, for the right label) and a random source to 0 or 1, such as
        from `leaveout.models.sharded.aggregation.draw_function`.
    queries : int or None
        Points that are queried; None for all. Events are about these points.
    thresholds : tuple of float
        One event each: the majority vote is right on a smaller share of the remaining points.
    """

    points: int = 100
    copies: int = 2
    shards: int = 3
    inclusion: float | None = None
    aggregate: Callable[[Sequence[int], random.Random], int] = _majority
    queries: int | None = None
    thresholds: tuple[float, ...] = (0.25,)

    @classmethod
    def against(cls, shards: int, inclusion: float, rows: int) -> Duplicated | None:
        """Return the attack on a majority vote of shards that contain rows independently.

        The number of copies makes a correct answer about as likely as not, so that many points are
        deleted and many remain.

        Parameters
        ----------
        shards : int
        inclusion : float
        rows : int
            Most rows.

        Returns
        -------
        Duplicated or None
            None if no number of copies makes the attack possible.
        """

        def right(copies: int) -> float:
            return float(bdtrc(shards // 2, shards, _holding_probability(inclusion, copies)))

        copies = 1
        while copies < _MOST_COPIES and right(2 * copies) < 0.5:
            copies *= 2
        copies = min(range(copies, 2 * copies + 1), key=lambda count: abs(right(count) - 0.5))
        points, share = min(100, rows // copies), right(copies)
        if points < 2 or not 0.01 < share < 0.99:
            return None
        return cls(points, copies, shards, inclusion, thresholds=(share / 4,))

    @property
    def events(self) -> tuple[str, ...]:
        """The events to look for in models."""
        return tuple(f"correct on less than {at:.3g} of what is left" for at in self.thresholds)

    @property
    def retrained_at_most(self) -> tuple[float, ...]:
        """No bound: the retrained arm is measured."""
        return (1.0,) * len(self.thresholds)

    def replay(self, seed: int, number: int) -> Trial:
        """Run one trial; the same arguments give the same trial."""
        generator = np.random.default_rng([seed, number])
        chance = random.Random(int(generator.integers(2**63)))
        asked = np.arange(self.points if self.queries is None else min(self.queries, self.points))
        holding = self._draw_holdings(generator, len(asked))
        answers = [
            self.aggregate((self.shards - int(votes), int(votes)), chance) for votes in holding
        ]
        left = np.asarray(answers) != 1
        # Lookup models of other points are the same before and after a deletion.
        unlearned = self._event_flags(holding[left])
        retrained = self._event_flags(self._draw_holdings(generator, int(left.sum())))
        deleted = (asked[~left, None] * self.copies + np.arange(self.copies)).ravel()
        return Trial(seed, number, tuple(deleted.tolist()), unlearned, retrained)

    def _draw_holdings(self, generator: np.random.Generator, points: int) -> NDArray[np.int64]:
        """Draw how many shards contain a copy of each point."""
        if self.inclusion is not None:
            share = _holding_probability(self.inclusion, self.copies)
            return generator.binomial(self.shards, share, size=points)
        shards = np.sort(generator.integers(self.shards, size=(points, self.copies)), axis=1)
        distinct: NDArray[np.int64] = 1 + (np.diff(shards, axis=1) != 0).sum(axis=1)
        return distinct

    def _event_flags(self, holding: NDArray[np.int64]) -> tuple[bool, ...]:
        if not len(holding):
            return (False,) * len(self.thresholds)
        right = float((2 * holding > self.shards).mean())
        return tuple(right < threshold for threshold in self.thresholds)


def _holding_probability(inclusion: float, copies: int) -> float:
    return float(-np.expm1(copies * np.log1p(-inclusion))) if inclusion < 1 else 1.0


_HOW = ("less", "more")


@dataclass(frozen=True)
class WhiteBox:
    """Section 6 of *Adaptive Machine Unlearning*, compared with a retrained arm.

    Models are published. Each point is assigned to the shard of the model most confident in its
    true label, at random on a tie; points of the first half of the shards are deleted. The events:
    on average, models of those shards are right less often than the others, as in the paper; or
    more often, as when a model is surest of points that mislead it. And, rarer after retraining,
    each of them is right less often than each of the others, or more often.

    Attributes
    ----------
    estimator : object
        An unfitted scikit-learn classifier with ``predict_proba``.
    features : ndarray of float64, shape (points, features)
    codes : ndarray of int64, shape (points,)
        Labels from 0.
    test_features, test_codes : ndarray
        Test points on which models are compared.
    shards : int
        At least 2.
    inclusion : float or None
        Probability that a shard contains a point; None for 1 / shards.

    Raises
    ------
    ShardedError
        If the estimator has no probabilities, or there is only one shard; from `replay` if its
        models do not depend on points and random state alone, so that shards are not exchangeable.
    """

    estimator: Any
    features: NDArray[np.float64]
    codes: NDArray[np.int64]
    test_features: NDArray[np.float64]
    test_codes: NDArray[np.int64]
    shards: int = 6
    inclusion: float | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "predict_proba"):
            raise ShardedError(
                f"{type(self.estimator).__name__} has no predict_proba; use an estimator that "
                "has it"
            )
        if self.shards < 2:
            raise ShardedError(f"{self.shards} shards: expected at least 2, to compare halves")

    @property
    def events(self) -> tuple[str, ...]:
        """The events to look for in models."""
        means = tuple(f"models of targeted shards are correct {how} often" for how in _HOW)
        if self.shards == 2:
            return means
        return (*means, *(f"each of them {how} often than each of the others" for how in _HOW))

    @property
    def retrained_at_most(self) -> tuple[float, ...]:
        """Bounds from the exchangeability of redrawn shards: 1/2, or one over the number of halves.

        Derived in ``docs/sharded.md``. With an odd number of shards, means have no such bound.
        """
        means = (0.5 if self.shards % 2 == 0 else 1.0,) * 2
        if self.shards == 2:
            return means
        ways = math.comb(self.shards, self.shards // 2)
        return (*means, *(math.nextafter(1 / ways, 1.0),) * 2)

    def replay(self, seed: int, number: int) -> Trial:
        """Run one trial; the same arguments give the same trial."""
        rows = Rows.first(self.features, self.codes)
        shards = self._train_arm(seed, number, b"unlearned", rows)
        confidence = np.stack([self._confidence(model) for model in shards.models], axis=1)
        generator = np.random.default_rng([seed, number])
        # Noise far below any meaningful difference, to break ties.
        guessed = np.argmax(confidence + 1e-12 * generator.random(confidence.shape), axis=1)
        places = np.flatnonzero(guessed < self.shards // 2)
        unlearned = shards.delete(places)
        retrained = self._train_arm(seed, number, b"retrained", rows.without(places))
        if not retrained.repeats(self.test_features):
            raise ShardedError(
                f"{type(self.estimator).__name__}: retrained on the points of a shard with the "
                "same random_state, it answers differently, so shards are not alike; make it a "
                "function of both"
            )
        return Trial(
            seed,
            number,
            tuple(rows.ids[places].tolist()),
            self._event_flags(unlearned),
            self._event_flags(retrained),
        )

    def _train_arm(self, seed: int, number: int, arm: bytes, rows: Rows) -> Shards:
        key = hashlib.sha256(b"%d %d %s" % (seed, number, arm)).digest()
        inclusion = 1 / self.shards if self.inclusion is None else self.inclusion
        return Shards.train(self.estimator, key, self.shards, inclusion, rows)

    def _confidence(self, model: Any) -> NDArray[np.float64]:
        """Return a model's confidence in true labels; a constant model has none."""
        found = np.zeros(len(self.codes))
        if isinstance(model, int):
            return found
        scores = model.predict_proba(self.features)
        for column, label in enumerate(model.classes_):
            mine = self.codes == label
            found[mine] = scores[mine, column]
        return found

    def _event_flags(self, shards: Shards) -> tuple[bool, ...]:
        right = (shards.codes(self.test_features) == self.test_codes[:, None]).sum(axis=0)
        return halves(right)[: len(self.events)]


def halves(right: NDArray[np.int64]) -> tuple[bool, bool, bool, bool]:
    """Compare how many test points the models of the two halves of the shards get right."""
    half = len(right) // 2
    first, rest = right[:half], right[half:]
    targeted, others = int(first.sum()) * len(rest), int(rest.sum()) * half
    return (
        targeted < others,
        targeted > others,
        bool(first.max() < rest.min()),
        bool(first.min() > rest.max()),
    )
