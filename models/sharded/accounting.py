"""The guarantee after a number of predictions, and how many predictions are safe."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace
from scipy.optimize import minimize_scalar

from leaveout.errors import ShardedError
from leaveout.models.sharded.settings import SHARPEST, ServiceSettings

_SLACK = 2.0**-40
_MOST = 50.0
"""Nats; a larger value guarantees nothing, so larger values are not distinguished."""
_ROUNDS = 200


def round_up(value: float) -> float:
    """Return a number at least as large as the exact value.

    Fewer than a hundred operations of relative error 2^-52 each; 2^-40 of the result, plus 2^-40,
    covers that.
    """
    return value * (1.0 + _SLACK) + _SLACK if value > 0 else 0.0


def max_information(epsilon: float, seeds: int, tail: float) -> float:
    """Bound the max-information of an epsilon-private function of independent seeds.

    For any transcript, all but a share ``tail`` of the posterior is at most ``exp`` of this times
    the prior; see ``docs/sharded.md``.
    """
    whole = epsilon * seeds
    if tail <= 0:
        return round_up(whole)
    spread = seeds * epsilon**2 / 8 + epsilon * math.sqrt(seeds * math.log(1 / tail) / 2)
    return round_up(min(whole, spread))


def least_information(epsilon: float, seeds: int, excess: float) -> float:
    """Return k such that no seed set's posterior exceeds e^k times its prior plus ``excess``.

    Bounds the excess by moments (Canonne, Kamath and Steinke 2020, proposition 12); sharper than
    `max_information`.
    """
    whole = max_information(epsilon, seeds, excess)
    order = best_order(epsilon, seeds, excess)
    if order is None:
        return whole
    return min(whole, round_up(max(0.0, _at_order(order, epsilon, seeds, excess))))


def best_order(epsilon: float, seeds: int, excess: float) -> float | None:
    """Return the moment order used by `least_information`; None if none helps.

    Every order is sound; missing the optimum only loosens the bound.
    """
    if excess <= 0 or seeds * epsilon**2 <= 0:
        return None
    best = minimize_scalar(
        lambda log_order: _at_order(math.exp(log_order), epsilon, seeds, excess),
        bounds=(-7.0, 20.0),
        method="bounded",
    )
    return math.exp(float(best.x))


def _at_order(order: float, epsilon: float, seeds: int, excess: float) -> float:
    saved = order * math.log1p(1 / order) + math.log1p(order)
    return (1 + order) * seeds * epsilon**2 / 8 + (math.log(1 / excess) - saved) / order


def composed_information(
    epsilon: float, predictions: int, seeds: int, span: float, tail: float, labels: int | None
) -> float:
    """Bound the joint max-information of adaptive predictions, seeds and answers.

    Unlike `max_information`, on average over transcripts: for all but a share ``tail`` of seeds and
    transcripts; see ``docs/sharded.md``.
    """
    if not predictions or epsilon <= 0:
        return 0.0
    if tail <= 0:
        return math.inf
    whole = _of_span(predictions, span * seeds, 0.0, tail)
    if labels is None:
        return whole
    return min(whole, _concentrated_information(epsilon, predictions, seeds, span, tail, labels))


def _of_span(predictions: int, span: float, gap: float, tail: float) -> float:
    drift = predictions * (span**2 / 8 + gap)
    return round_up(drift + span * math.sqrt(predictions * math.log(1 / tail) / 2))


def _concentrated_information(
    epsilon: float, predictions: int, seeds: int, span: float, tail: float, labels: int
) -> float:
    """Bound it by the concentration of votes, as a fixed point approached from below."""
    gap = seeds * epsilon**2 / 8
    pairs = max(1, labels * (labels - 1))
    bound = 0.0
    for _ in range(_ROUNDS):
        log_far = math.log(2 * predictions * pairs / tail) + bound
        near = round_up(span * math.sqrt(seeds * log_far / 2))
        implied = _of_span(predictions, near, gap, tail / 2)
        if implied <= bound:
            return bound
        if implied > _MOST:
            return math.inf
        # Slightly more than implied, so that the iteration ends.
        bound = implied * (1 + 1e-9)
    return math.inf


_SEARCHED = 2**53


@dataclass(frozen=True)
class Unlearning:
    """The parameters of Definition 2.3 of *Adaptive Machine Unlearning*.

    Attributes
    ----------
    alpha : float
        Nats.
    beta, gamma : float
        Probability outside alpha's bound, and of update sequences that are not covered.
    """

    alpha: float
    beta: float
    gamma: float


EXACT = Unlearning(0.0, 0.0, 0.0)
"""The guarantee of shards when updates do not depend on answers (Lemma 5.1)."""


@dataclass(frozen=True)
class Guarantee(Unlearning):
    """The guarantee when updates depend on answers, and its derivation.

    Attributes
    ----------
    alpha, beta, gamma : float
        As in `Unlearning`.
    route : {"pure", "composed"}
        "pure" adds up the privacy of all predictions, which bounds what any transcript reveals;
        "composed" bounds what transcripts reveal on average, prediction by prediction.
    """

    route: Literal["pure", "composed"]


def adaptive_guarantee(base: Unlearning, information: float, tail: float) -> Unlearning:
    """Extend a guarantee to updates that depend on published answers.

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
    """Return the guarantee in the form of Theorem 5.1, to compare with `guarantee`."""
    bounded = max_information(epsilon, seeds, tail)
    if bounded >= max_information(epsilon, seeds, 0.0):
        tail = 0.0
    return adaptive_guarantee(EXACT, bounded, tail)


def guarantee(
    settings: ServiceSettings, predictions: int, beta: float = 1e-3, gamma: float = 1e-3
) -> Guarantee:
    """Return the least proved alpha after some predictions, with its beta and gamma.

    Derived in ``docs/sharded.md``; rounded upwards.

    Parameters
    ----------
    settings : ServiceSettings
        Settings with a private mechanism.
    predictions : int
        Number drawn since the last full retraining.
    beta, gamma : float
        Upper limits.

    Returns
    -------
    Guarantee
        Its alpha is finite, since adding up privacy always works.

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
    """Return the largest number of predictions for which the guarantee is proved.

    With one more prediction it is no longer proved. The proof is an upper bound: more may be safe.

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
    """Return the largest four-digit epsilon proved safe for some predictions.

    The next larger four-digit one is not proved safe, or exceeds the supported maximum.

    Parameters
    ----------
    settings : ServiceSettings
        Settings with a private mechanism; their epsilon and predictions do not matter.
    predictions : int
        At least 1.
    alpha, beta, gamma : float
        Numbers of the claim.

    Returns
    -------
    float or None
        None if there is none from 1e-12 up, as with alpha = beta = 0.

    Raises
    ------
    ShardedError
        If the mechanism is not private, or a number is out of range.
    """
    _check(settings, predictions, beta, gamma)

    def at(step: int) -> float:
        """Return the four-digit float with a given index."""
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
            "mechanism = 'majority' publishes what the seeds decide, so nothing bounds what "
            "answers reveal about them; use 'exponential' or 'noisy_max'"
        )
    if predictions < 0:
        raise ShardedError(f"{predictions} predictions: expected a number of at least 0")
    for name, value in (("beta", beta), ("gamma", gamma)):
        if not 0 <= value <= 1:
            raise ShardedError(f"{name} = {value!r}: expected a probability")
