"""Results of an estimate of the membership advantage."""

from __future__ import annotations

from dataclasses import dataclass

from leaveout.verifier.audits.intervals import alpha_lower_bound, clopper_pearson
from leaveout.verifier.audits.membership.statistics import LEAST_TRIALS

LOWER_SHARE = 0.8
"""Of what may fail, the part of the lower end; the upper end grows only with its logarithm."""


@dataclass(frozen=True)
class Counted:
    """How often one event happened in either arm."""

    event: str
    sees: str
    unlearned: int  # trials in which it happened
    retrained: int  # trials in which it happened
    unlearned_trials: int
    retrained_trials: int

    def __str__(self) -> str:
        return (
            f"{self.event}: in {self.unlearned} of {self.unlearned_trials} unlearned and "
            f"{self.retrained} of {self.retrained_trials} retrained trials"
        )

    def opposite(self) -> Counted:
        """Return the counts of the event's absence."""
        return Counted(
            f"not ({self.event})",
            self.sees,
            self.unlearned_trials - self.unlearned,
            self.retrained_trials - self.retrained,
            self.unlearned_trials,
            self.retrained_trials,
        )


@dataclass(frozen=True)
class Implied:
    """What an event implies for ``Pr[E | unlearned] <= e^alpha Pr[E | retrained] + beta``."""

    alpha: float  # with beta = 0, alpha is at least this
    beta: float  # with alpha = 0, beta is at least this
    confidence: float  # of each of the two alone
    counted: Counted  # of the event, fixed before the trials counted


@dataclass(frozen=True)
class Ranked:
    """What attacks achieve that rank forgotten rows among unseen rows."""

    lower: float  # the advantage of such attacks is at least this
    confidence: float  # of this alone
    counted: Counted


@dataclass(frozen=True)
class Advantage:
    """Bounds on the membership advantage.

    Attributes
    ----------
    lower, upper : float
        In [0, 1].
    unit : str
        ``trials``, ``records`` or ``events``.
    trials : int
        Independent trials in the audit, in the smaller arm.
    estimating : int
        Those the bounds rest on; the others chose and trained attacks.
    attack : str
        The attack that the lower bound rests on, and what it found.
    implied : Implied or None
        From an event about the model after forgetting alone, which is what such guarantees are
        about; None where no event was counted.
    ranked : Ranked or None
        What is due to who was deleted, and not to the whole model being different; None where no
        rows that no model saw are recorded, or no event was counted.
    """

    lower: float
    upper: float
    unit: str
    trials: int
    estimating: int
    attack: str
    implied: Implied | None = None
    ranked: Ranked | None = None


def nothing_known(unit: str, trials: int) -> Advantage:
    """Return the vacuous result of too few trials."""
    return Advantage(
        0.0,
        1.0,
        unit,
        trials,
        0,
        f"{trials} trial{'s' * (trials != 1)}: one model per arm is one draw per arm, however "
        f"many rows it answers; record at least {LEAST_TRIALS}, preferably 20 or more",
    )


def implied_guarantee(counted: Counted, confidence: float) -> Implied:
    """Return the least alpha and the least beta that counts allow.

    ``alpha >= ln(Pr[E | unlearned] / Pr[E | retrained])`` and ``beta >= Pr[E | unlearned] -
    Pr[E | retrained]``, each probability at the end of its Clopper-Pearson interval that makes
    the claim weaker, each with half the error. An event that unlearning makes *rarer* counts
    through its opposite: a model that is too quiet shows as well as one that leaks.
    """
    counts = (counted.unlearned, counted.unlearned_trials)
    others = (counted.retrained, counted.retrained_trials)
    alpha = alpha_lower_bound(*counts, *others, 0.0, confidence)
    return Implied(max(0.0, alpha), more_often(counted, confidence), confidence, counted)


def more_often(counted: Counted, confidence: float) -> float:
    """Return a lower bound of an event's excess probability when unlearned, at least 0."""
    # Each end of an interval fails with half of 1 - confidence.
    low = clopper_pearson(counted.unlearned, counted.unlearned_trials, confidence)[0]
    high = clopper_pearson(counted.retrained, counted.retrained_trials, confidence)[1]
    return max(0.0, low - high)
