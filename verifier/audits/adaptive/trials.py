"""Trials of an attack beside a retrained arm, and what they refute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from leaveout.deadline import Deadline
from leaveout.verifier.audits.intervals import alpha_lower_bound, holm, refutation_level
from leaveout.verifier.audits.membership.events import Events


@dataclass(frozen=True)
class Trial:
    """One trial, reproducible from the attack, the seed and the number.

    Attributes
    ----------
    seed, number : int
    deleted : tuple of int
        The deletion script: ids, in order.
    unlearned, retrained : tuple of bool
        Which events happened, of models that unlearned it and of models that never saw it, the
        seeds of which are new.
    """

    seed: int
    number: int
    deleted: tuple[int, ...]
    unlearned: tuple[bool, ...]
    retrained: tuple[bool, ...]


class Attack(Protocol):
    """An adaptive deletion, with events that distinguish unlearning from retraining."""

    @property
    def events(self) -> tuple[str, ...]:
        """The events to look for in models."""
        ...

    @property
    def retrained_at_most(self) -> tuple[float, ...]:
        """Proved bounds of each event's probability after any retraining; or 1."""
        ...

    def replay(self, seed: int, number: int) -> Trial:
        """Run one trial, deterministically."""
        ...


@dataclass(frozen=True)
class Counts:
    """How often an event happened."""

    event: str
    unlearned: int  # in each arm
    retrained: int  # in each arm
    unlearned_trials: int
    retrained_trials: int
    retrained_at_most: float = 1.0

    @property
    def arms(self) -> tuple[int, int, int, int]:
        """Events and trials of the unlearned arm, then of the retrained one."""
        return self.unlearned, self.unlearned_trials, self.retrained, self.retrained_trials


@dataclass(frozen=True)
class Audit:
    """The outcome of trials.

    Attributes
    ----------
    counts : tuple of Counts
        An event each.
    shown : tuple of (Trial or None)
        For each event a trial in which it happened after unlearning and not after retraining.
    """

    counts: tuple[Counts, ...]
    shown: tuple[Trial | None, ...]

    @classmethod
    def of_events(cls, events: Events) -> Audit:
        """Return the outcome of trials that were run and counted elsewhere.

        Nothing is taken to be bounded after retraining: that its shards were exchangeable, no file
        can show.
        """
        columns = (
            events.unlearned_hits,
            events.retrained_hits,
            events.unlearned_trials,
            events.retrained_trials,
        )
        counts = zip(events.names, *(column.tolist() for column in columns), strict=True)
        return cls(tuple(Counts(*one) for one in counts), (None,) * len(events.names))

    def alpha_lower_bounds(self, beta: float, gamma: float, confidence: float) -> tuple[float, ...]:
        """Return an insufficient alpha per event, jointly with some confidence.

        Update sequences differ between trials, and a share gamma of them is exempt, so that beta
        + gamma is what an event may have beyond e^alpha times its chance after retraining.
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
        No trial starts later; those there are count.
    progress : callable or None
        Called with trials done and trials asked for.

    Raises
    ------
    TimeoutError
        If there was no time for a single trial.
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
        raise TimeoutError("no trial could be run in the time given")
    counts = tuple(
        Counts(event, after, anew, done, done, at_most)
        for event, after, anew, at_most in zip(
            events, unlearned, retrained, attack.retrained_at_most, strict=True
        )
    )
    return Audit(counts, tuple(shown))
