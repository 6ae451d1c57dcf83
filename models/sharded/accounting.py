"""The guarantee after a number of predictions, and how many predictions are safe."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import msgspec
from msgspec.structs import asdict

from leaveout.errors import ShardedError
from leaveout.kernel.services import (
    Service,
    group_privacy_alpha,
    moments,
    near_mean,
    together,
)
from leaveout.kernel.services import service_of as kernel_service
from leaveout.models.sharded.settings import SHARPEST, ServiceSettings

_FINEST = Fraction(1, 2)
"""Share of the error for the sum of all steps, where votes are near their mean."""


def round_up(value: Fraction) -> float:
    """Return the nearest float that is not smaller."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def service_of(settings: ServiceSettings) -> Service:
    """Return a service as the kernel knows it."""
    given = {key: value for key, value in asdict(settings).items() if value is not None}
    if settings.mechanism == "majority":
        given.pop("epsilon")
    return kernel_service(given, "settings")


@dataclass(frozen=True)
class Shown:
    """An alpha that the kernel shows, by a route with numbers of its own."""

    alpha: Fraction
    route: str
    chosen: dict[str, float]


def any_transcript(service: Service, beta: float) -> Shown:
    """Bound what any transcript reveals, with gamma = 0."""
    added = Shown(group_privacy_alpha(service), "added", {})
    order = best_order(service, beta)
    if order is None:
        return added
    shown = moments(service, Fraction(beta), Fraction(order))
    return Shown(shown, "moments", {"order": order}) if shown < added.alpha else added


def best_order(service: Service, beta: float) -> float | None:
    """Return the order l of least alpha, V l^2 + ln(1 + l) = ln(1 / beta); every l is sound."""
    variance = float(service.shards * (service.predictions * service.epsilon) ** 2 / 8)
    if beta <= 0 or variance <= 0:
        return None
    wanted = -math.log(beta)
    low, high = -60.0, 60.0
    for _ in range(60):
        middle = (low + high) / 2
        order = math.exp(middle)
        enough = variance * order**2 + math.log1p(order) >= wanted
        low, high = (low, middle) if enough else (middle, high)
    return math.exp(high)


def on_average(service: Service, beta: float, gamma: float) -> Shown | None:
    """Bound what transcripts reveal on average, prediction by prediction; None if nothing is."""
    tail = beta * gamma
    if tail <= 0:
        return None
    numbers = Fraction(beta), Fraction(gamma)
    whole = Shown(together(service, *numbers), "together", {})
    bound = near_bound(service, tail)
    if bound is None or bound >= whole.alpha:
        return whole
    share = float(_FINEST)
    if near_mean(service, *numbers, Fraction(bound), _FINEST) is None:
        return whole
    return Shown(Fraction(bound), "near_mean", {"bound": bound, "share": share})


def near_bound(service: Service, tail: float) -> float | None:
    """Return about the least bound that votes near their mean allow; None if there is none.

    With R^2 = c (A + K) the bound K of `near_mean` solves a quadratic equation in u = sqrt(A + K),
    (1 - n c / 8) u^2 - sqrt(n c B / 2) u - (A + n shards epsilon^2 / 8) = 0.
    """
    if service.labels is None:
        return None
    count, labels = service.predictions, service.labels
    c = float(service.span**2) * service.shards / 2
    own = math.log(labels * (labels - 1) * count) - math.log1p(-float(_FINEST)) - math.log(tail)
    rest = -math.log(float(_FINEST)) - math.log(tail)
    square, line = 1 - count * c / 8, math.sqrt(count * c * rest / 2)
    if square <= 0:
        return None
    level = own + count * service.shards * float(service.epsilon) ** 2 / 8
    u = (line + math.sqrt(line**2 + 4 * square * level)) / (2 * square)
    # More than is lost by rounding the difference, so that the kernel confirms it.
    return (u**2 - own) * (1 + 2.0**-40) + u**2 * 2.0**-48


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
    return _guarantee(service_of(settings), predictions, beta, gamma)


def _guarantee(service: Service, predictions: int, beta: float, gamma: float) -> Guarantee:
    shown = best_route(replace(service, predictions=predictions), beta, gamma)
    alpha = round_up(shown.alpha)
    if shown.route in ("together", "near_mean"):
        return Guarantee(alpha, beta, gamma, "composed")
    return Guarantee(alpha, beta if shown.route == "moments" else 0.0, 0.0, "pure")


def best_route(service: Service, beta: float, gamma: float) -> Shown:
    """Return the least alpha that some route shows."""
    pure, composed = any_transcript(service, beta), on_average(service, beta, gamma)
    return composed if composed is not None and composed.alpha < pure.alpha else pure


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

    service = service_of(settings)

    def holds(count: int) -> bool:
        return _guarantee(service, count, beta, gamma).alpha <= alpha

    high = 1
    while holds(high):
        high *= 2
        if high > _SEARCHED:
            return high // 2
    return _last(holds, high // 2, high)


def _last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the last number that holds, from ``low``, which does, to ``high``, which does not."""
    return low + bisect_left(range(low + 1, high), True, key=lambda each: not holds(each))


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
        tried = service_of(msgspec.structs.replace(settings, epsilon=epsilon, predictions=1))
        return _guarantee(tried, predictions, beta, gamma).alpha <= alpha

    return at(_last(holds, 0, 9000 * 17)) if predictions and holds(0) else None


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
