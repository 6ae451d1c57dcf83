"""The guarantee after a number of predictions, and how many predictions are safe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from leaveout.errors import ShardedError
from leaveout.models.sharded.information import (
    composed_information,
    least_information,
    max_information,
    round_up,
)
from leaveout.models.sharded.settings import SHARPEST, ServiceSettings

_SEARCHED = 2**53


@dataclass(frozen=True)
class Unlearning:
    """The parameters of Definition 2.3 of *Adaptive Machine Unlearning*.

    Attributes
    ----------
    alpha : float
        Nats.
    beta, gamma : float
        Probabilities: of what alpha leaves out, and of update sequences left out.
    """

    alpha: float
    beta: float
    gamma: float


EXACT = Unlearning(0.0, 0.0, 0.0)
"""What Lemma 5.1 gives of shards when updates do not depend on answers."""


@dataclass(frozen=True)
class Guarantee(Unlearning):
    """The guarantee when updates depend on answers, and its derivation.

    Attributes
    ----------
    alpha, beta, gamma : float
        As of `Unlearning`.
    route : {"pure", "composed"}
        Whether the privacy of all predictions is added up and then bounds what any transcript
        tells; or what transcripts tell is bounded on average, prediction after prediction.
    """

    route: Literal["pure", "composed"]


def adaptive_guarantee(base: Unlearning, information: float, tail: float) -> Unlearning:
    """Extend a guarantee to updates that depend on what is published.

    Theorem 4.1 of *Adaptive Machine Unlearning*, explicit, for max-information on average: Markov
    splits ``tail`` into two equal roots.
    """
    root = math.sqrt(tail)
    left_out = math.exp(min(0.0, math.log(base.beta) + information)) if base.beta else 0.0
    return Unlearning(
        round_up(base.alpha + information),
        min(1.0, round_up(left_out + root)),
        min(1.0, round_up(base.gamma + root)),
    )


def published_guarantee(epsilon: float, seeds: int, tail: float) -> Unlearning:
    """Return the guarantee in the shape of Theorem 5.1, to compare with `guarantee`."""
    bounded = max_information(epsilon, seeds, tail)
    if bounded >= max_information(epsilon, seeds, 0.0):
        tail = 0.0
    return adaptive_guarantee(EXACT, bounded, tail)


def guarantee(
    settings: ServiceSettings, predictions: int, beta: float = 1e-3, gamma: float = 1e-3
) -> Guarantee:
    """Return the least alpha shown after some predictions, with its beta and gamma.

    Derived in ``docs/sharded.md``; rounded upwards.

    Parameters
    ----------
    settings : ServiceSettings
        With a private mechanism.
    predictions : int
        Drawn since the last full retraining.
    beta, gamma : float
        At most this much of each is used.

    Returns
    -------
    Guarantee
        Its alpha is finite: privacy adds up whatever else fails.

    Raises
    ------
    ShardedError
        If the mechanism is not private, or a number is out of range.
    """
    _check(settings, predictions, beta, gamma)
    if not predictions:
        return Guarantee(0.0, 0.0, 0.0, "pure")
    each = round_up(settings.epsilon)
    pure = least_information(predictions * each, settings.shards, beta)
    composed = composed_information(
        each,
        predictions,
        settings.shards,
        each if settings.mechanism == "exponential" else 2 * each,
        beta * gamma * (1 - 2.0**-40),
        settings.labels,
    )
    if composed < pure:
        return Guarantee(composed, beta, gamma, "composed")
    spared = pure >= max_information(predictions * each, settings.shards, 0.0)
    return Guarantee(pure, 0.0 if spared else beta, 0.0, "pure")


def safe_predictions(settings: ServiceSettings, alpha: float, beta: float, gamma: float) -> int:
    """Return the largest number of predictions that the guarantee is shown for.

    The prediction after it is the first to break it. What is shown is an upper bound: more may in
    truth be safe.

    Raises
    ------
    ShardedError
        If the mechanism is not private, or a number is out of range.
    """
    _check(settings, 0, beta, gamma)
    if math.isnan(alpha) or alpha < 0:
        raise ShardedError(f"alpha = {alpha!r}: expected a number of at least 0")

    def holds(count: int) -> bool:
        return guarantee(settings, count, beta, gamma).alpha <= alpha

    high = 1
    while holds(high):
        high *= 2
        if high > _SEARCHED:
            return high // 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def largest_epsilon(
    settings: ServiceSettings, predictions: int, alpha: float, beta: float, gamma: float
) -> float | None:
    """Return the largest four-digit epsilon shown safe for some predictions.

    The next larger one of four digits is not, or is more than answers are drawn with.

    Parameters
    ----------
    settings : ServiceSettings
        With a private mechanism; its own epsilon and predictions do not matter.
    predictions : int
        At least 1.
    alpha, beta, gamma : float
        Of the claim.

    Returns
    -------
    float or None
        None if there is none from 1e-12 on, as with alpha = beta = 0.

    Raises
    ------
    ShardedError
        If the mechanism is not private, or a number is out of range.
    """
    _check(settings, predictions, beta, gamma)

    def at(step: int) -> float:
        """Return a four-digit float by its number."""
        power, digits = divmod(step, 9000)
        return float(f"{1000 + digits}e{power - 15}")

    def holds(step: int) -> bool:
        epsilon = at(step)
        if epsilon * settings.shards > SHARPEST:
            return False
        tried = replace(settings, epsilon=epsilon, predictions=predictions)
        return guarantee(tried, predictions, beta, gamma).alpha <= alpha

    low, high = 0, 9000 * 17
    if not predictions or not holds(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return at(low)


def _check(settings: ServiceSettings, predictions: int, beta: float, gamma: float) -> None:
    if not settings.private:
        raise ShardedError(
            "mechanism = 'majority' publishes what the seeds decide, so that nothing bounds what "
            "answers tell of them; take 'exponential' or 'noisy_max'"
        )
    if predictions < 0:
        raise ShardedError(f"{predictions} predictions: expected a number of at least 0")
    for name, value in (("beta", beta), ("gamma", gamma)):
        if not 0 <= value <= 1:
            raise ShardedError(f"{name} = {value!r}: expected a probability")
