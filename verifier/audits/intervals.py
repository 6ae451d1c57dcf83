"""What event counts imply about probabilities, and so about alpha."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from leaveout.kernel.tails import log
from leaveout.verifier.certify.audits import guess_end, lower_end

_LEAST_LEVEL = 1e-100
_KNOWN = 0.9
"""Share of the error for the unlearned arm if the other's probability is bounded anyway."""


def clopper_pearson(count: int, trials: int, confidence: float) -> tuple[float, float]:
    """Return the Clopper-Pearson interval (1934) of a probability.

    Parameters
    ----------
    count, trials : int
        Occurrences of the event, and independent trials.
    confidence : float
        Each end fails with probability at most (1 - confidence) / 2.

    Returns
    -------
    tuple of float
        Lower and upper end.

    Raises
    ------
    ValueError
        If there are no trials, or more events than trials.
    """
    _check(count, trials)
    each = _error(confidence) / 2
    rest = lower_end(trials - count, trials, each)
    return lower_end(count, trials, each), min(1.0, math.nextafter(1.0 - rest, math.inf))


def alpha_lower_bound(
    unlearned: int,
    unlearned_trials: int,
    retrained: int,
    retrained_trials: int,
    beta: float,
    confidence: float,
    retrained_at_most: float = 1.0,
) -> float:
    """Return an insufficient alpha: Pr[unlearned] > e^alpha Pr[retrained] + beta.

    Each arm gets half of the error probability; the arms need not be independent. If the retrained
    arm's probability is bounded without trials, the unlearned arm gets 9/10 of the error, whatever
    the outcome: choosing the share afterwards would fail more often.

    Parameters
    ----------
    unlearned, unlearned_trials : int
        Occurrences of the event after unlearning, and trials.
    retrained, retrained_trials : int
        The same, after retraining.
    beta : float
        Beta of the claim; add its gamma if the update sequence differs between trials.
    confidence : float
        Confidence with which every smaller alpha is refuted.
    retrained_at_most : float
        A proved bound of the event's probability after retraining, above 0; 1 if there is none.

    Returns
    -------
    float
        Nats; negative or ``-inf`` if no alpha is refuted.

    Raises
    ------
    ValueError
        If an arm has no trials, or more events than trials.
    """
    _check(unlearned, unlearned_trials)
    _check(retrained, retrained_trials)
    counts = (unlearned, unlearned_trials, retrained, retrained_trials)
    return _alpha_at(*counts, beta, _error(confidence), retrained_at_most)


def refutation_level(
    unlearned: int,
    unlearned_trials: int,
    retrained: int,
    retrained_trials: int,
    alpha: float,
    beta: float,
    retrained_at_most: float = 1.0,
) -> float:
    """Return the p-value of a claim: the lowest level at which its alpha is refuted."""
    _check(unlearned, unlearned_trials)
    _check(retrained, retrained_trials)

    counts = (unlearned, unlearned_trials, retrained, retrained_trials)

    def is_refuted(level: float, end: Callable[[int, int, float], float] = guess_end) -> bool:
        return _alpha_at(*counts, beta, level, retrained_at_most, end) > alpha

    low, high = math.log(_LEAST_LEVEL), 0.0
    if not is_refuted(1.0):
        return 1.0
    if is_refuted(_LEAST_LEVEL):
        high = low
    while high - low > 1e-9 * max(1.0, -low):
        middle = (low + high) / 2
        low, high = (low, middle) if is_refuted(math.exp(middle)) else (middle, high)
    # Found by guesses; what is returned is confirmed.
    while high < 0 and not is_refuted(math.exp(high), lower_end):
        high = min(0.0, high + 1e-9 * max(1.0, -high))
    return math.exp(high)


def holm(levels: Sequence[float], level: float) -> tuple[bool, ...]:
    """Return which claims Holm's procedure (1979) rejects."""
    order = sorted(range(len(levels)), key=lambda test: levels[test])
    fallen = [False] * len(levels)
    for place, test in enumerate(order):
        if levels[test] > level / (len(levels) - place):
            break
        fallen[test] = True
    return tuple(fallen)


def _alpha_at(
    unlearned: int,
    unlearned_trials: int,
    retrained: int,
    retrained_trials: int,
    beta: float,
    level: float,
    at_most: float,
    end: Callable[[int, int, float], float] = lower_end,
) -> float:
    share = 0.5 if at_most >= 1 else _KNOWN
    least = Fraction(end(unlearned, unlearned_trials, level * share)) - Fraction(beta)
    fewer = end(retrained_trials - retrained, retrained_trials, level * (1 - share))
    most = min(Fraction(at_most), 1 - Fraction(fewer))
    if least <= 0:
        return -math.inf
    alpha = log(least / most)[0]
    return math.nextafter(float(alpha), -math.inf)


def _error(confidence: float) -> float:
    """Return 1 minus a confidence as it is written."""
    return float(1 - Fraction(repr(float(confidence))))


def _check(count: int, trials: int) -> None:
    if trials < 1 or not 0 <= count <= trials:
        raise ValueError(f"{count} events in {trials} trials: expected 0 <= events <= trials, > 0")
