"""Results of an estimate of the membership advantage."""

from __future__ import annotations

from dataclasses import dataclass

from leaveout.kernel.audits import LEAST_TRIALS
from leaveout.verifier.audits.intervals import alpha_lower_bound, clopper_pearson


@dataclass(frozen=True)
class Counted:
    """How often an event occurred in each arm."""

    event: str
    unlearned: int  # trials of the unlearned arm in which it occurred
    retrained: int  # trials of the retrained arm in which it occurred
    unlearned_trials: int
    retrained_trials: int
    retrained_at_most: float = 1.0  # a proved bound of its probability after retraining

    def __str__(self) -> str:
        return (
            f"{self.event}: in {self.unlearned} of {self.unlearned_trials} unlearned and "
            f"{self.retrained} of {self.retrained_trials} retrained trials"
        )

    @property
    def arms(self) -> tuple[int, int, int, int]:
        """Events and trials of the unlearned arm, then of the retrained one."""
        return self.unlearned, self.unlearned_trials, self.retrained, self.retrained_trials

    def opposite(self) -> Counted:
        """Return the counts of the event's absence."""
        return Counted(
            f"not ({self.event})",
            self.unlearned_trials - self.unlearned,
            self.retrained_trials - self.retrained,
            self.unlearned_trials,
            self.retrained_trials,
        )


@dataclass(frozen=True)
class Implied:
    """What an event implies about ``Pr[E | unlearned] <= e^alpha Pr[E | retrained] + beta``."""

    alpha: float  # least alpha if beta = 0
    beta: float  # least beta if alpha = 0
    confidence: float  # of each of the two separately
    counted: Counted  # the event, fixed before the counted trials


@dataclass(frozen=True)
class Ranked:
    """The result of attacks that rank forgotten rows among unseen rows."""

    lower: float  # lower bound of these attacks' advantage
    confidence: float  # of this bound alone
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
        Independent trials of the audit, in the smaller arm.
    estimating : int
        Trials used for the bounds; the others chose and trained attacks.
    attack : str
        The attack behind the lower bound, and its finding.
    implied : Implied or None
        From an event about only the model after forgetting, as in such guarantees; None if no event
        was counted.
    ranked : Ranked or None
        The part due to which rows were deleted, rather than to different models overall; None if no
        unseen rows are recorded, or no event was counted.
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

    ``alpha >= ln(Pr[E | unlearned] / Pr[E | retrained])`` and ``beta >= Pr[E | unlearned] - Pr[E |
    retrained]``, each probability at the end of its Clopper-Pearson interval that makes the claim
    weaker, each with half the error. An event that unlearning makes *rarer* counts through its
    complement: a model that hides too much is detected, too.
    """
    alpha = alpha_lower_bound(*counted.arms, 0.0, confidence)
    return Implied(max(0.0, alpha), more_often(counted, confidence), confidence, counted)


def more_often(counted: Counted, confidence: float) -> float:
    """Return a lower bound of an event's excess probability when unlearned, at least 0."""
    # Each end of an interval fails with half of 1 - confidence.
    low = clopper_pearson(counted.unlearned, counted.unlearned_trials, confidence)[0]
    high = clopper_pearson(counted.retrained, counted.retrained_trials, confidence)[1]
    return max(0.0, low - high)
