"""How much a published transcript reveals of the seeds: explicit max-information."""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

_SLACK = 2.0**-40
_MOST = 50.0
"""Nats; more than this guarantees nothing, so no more is told apart."""
_ROUNDS = 200


def round_up(value: float) -> float:
    """Return a number at least as large as the exact value.

    Fewer than a hundred operations of relative error 2^-52 each; 2^-40 of the result, plus 2^-40,
    covers that.
    """
    return value * (1.0 + _SLACK) + _SLACK if value > 0 else 0.0


def max_information(epsilon: float, seeds: int, tail: float) -> float:
    """Bound the max-information of an epsilon-private function of independent seeds.

    For any transcript all but a share ``tail`` of the posterior is at most ``exp`` of this times
    the prior; see ``docs/sharded.md``.
    """
    whole = epsilon * seeds
    if tail <= 0:
        return round_up(whole)
    spread = seeds * epsilon**2 / 8 + epsilon * math.sqrt(seeds * math.log(1 / tail) / 2)
    return round_up(min(whole, spread))


def least_information(epsilon: float, seeds: int, excess: float) -> float:
    """Return k: no seed set's posterior exceeds e^k times its prior plus ``excess``.

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

    Every order is sound; missing the minimum only costs sharpness.
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

    On average over transcripts, unlike `max_information`: all but a share ``tail`` of seeds and
    transcript; see ``docs/sharded.md``.
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
    """Bound it using that votes concentrate, by a fixed point from below."""
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
        # A little more than implied, so that the search ends.
        bound = implied * (1 + 1e-9)
    return math.inf
