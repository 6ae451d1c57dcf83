"""Services of models on shards: what their answers reveal, and whether they unlearn.

Proofs are those of ``docs/sharded.md``; (alpha, beta, gamma)-unlearning is Definition 2.3 of
*Adaptive Machine Unlearning* (Gupta et al. 2021). What a proof chooses is in the certificate.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from .audits import Counts
from .numbers import Rejected, need
from .tails import MOST_TRIALS, Enclosure, at_least, exp, log, lower_ends, power, sqrt, upwards
from .values import Given

_MOST = 2**53
SHARPEST = 4096
"""Largest epsilon times shards for which answers are drawn as accurately as charged."""

_MECHANISMS = ("exponential", "noisy_max", "majority")
_KEYS = (
    "epsilon", "inclusion", "labels", "mechanism", "on_exhausted", "predictions", "rows", "shards",
)  # fmt: skip
_INACCURATE = Fraction(1, 2**100)  # far more than what drawing with 40 digits adds to an epsilon


@dataclass(frozen=True)
class Service:
    """The settings of a service."""

    shards: int  # number of models
    rows: int  # most points of the service
    mechanism: str
    inclusion: Enclosure  # of the probability that a shard contains a point
    epsilon: Fraction  # of one answer, when one shard's seed is replaced
    predictions: int  # most answers between two full retrainings; 0 with "majority"
    labels: int | None  # most labels

    @property
    def private(self) -> bool:
        """Whether answers are noisy."""
        return self.mechanism != "majority"

    @property
    def span(self) -> Fraction:
        """The most by which one seed moves ln(Pr[a] / Pr[b]) of two answers."""
        return self.epsilon if self.mechanism == "exponential" else 2 * self.epsilon


def service_of(given: Mapping[str, object], place: str) -> Service:
    """Return the service of some settings; a number is that written or the float nearest to it."""

    def check(key: str, fine: bool, expected: str) -> None:
        need(fine, f"{place}: {key} = {given.get(key)!r}: {expected}")

    def whole(key: str, least: int, most: int) -> int:
        value = given.get(key)
        fine = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        check(key, fine, f"expected a whole number from {least} to {most}")
        assert isinstance(value, int)
        return value

    def number(key: str, most: int) -> Enclosure:
        value = given.get(key)
        fine = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most
        check(key, fine, f"expected above 0 and at most {most}")
        assert isinstance(value, int | float)
        near = float(value)
        return Fraction(math.nextafter(near, 0)), Fraction(math.nextafter(near, math.inf))

    for key in given:
        check(key, key in _KEYS, f"expected only {', '.join(_KEYS)}")
    mechanism, after = given.get("mechanism"), given.get("on_exhausted", "refuse")
    check("mechanism", mechanism in _MECHANISMS, f"expected one of {', '.join(_MECHANISMS)}")
    check("on_exhausted", after in ("retrain", "refuse"), "expected retrain or refuse")
    shards, rows = whole("shards", 1, 100_000), whole("rows", 1, _MOST)
    labels = whole("labels", 2, _MOST) if "labels" in given else None
    epsilon, predictions = Fraction(0), 0
    if mechanism == "majority":
        for key in ("epsilon", "predictions"):
            check(key, not given.get(key, 0), "drop it: a majority vote has none")
    else:
        epsilon = number("epsilon", _MOST)[1] + _INACCURATE
        fine = epsilon <= Fraction(SHARPEST + 1, shards)
        check("epsilon", fine, f"expected above 0 and at most {SHARPEST} / shards")
        predictions = whole("predictions", 1, _MOST)
    held = number("inclusion", 1) if "inclusion" in given else None
    low, high = held or [(1 + Fraction(way, 2**52)) / shards for way in (-1, 1)]
    inclusion = low, min(Fraction(1), high)
    return Service(shards, rows, str(mechanism), inclusion, epsilon, predictions, labels)


def sharded(given: Given) -> Service:
    """Read the settings of a service, in TOML."""
    held = given.file()
    content = held.content()
    try:
        found = tomllib.loads(content.decode("utf-8").replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise Rejected(f"{held.path}: not TOML: {' '.join(str(error).split())}") from None
    return service_of(found, str(held.path))


def group_privacy_alpha(service: Service) -> Fraction:
    """Return the alpha of group privacy, with beta = gamma = 0.

    All n answers are n epsilon-private in one seed, so replacing all seeds moves the probability of
    any transcript by at most a factor e to the number of shards times that.
    """
    return service.shards * service.predictions * service.epsilon


def moments(service: Service, beta: Fraction, order: Fraction) -> Fraction:
    """Return the alpha that moments of the information prove for any transcript, with gamma = 0.

    With E = n epsilon and V = shards E^2 / 8 the information Z has E[e^(l Z)] <= exp(l (1 + l) V)
    for every order l > 0. Since (1 - e^-x)+ <= e^(l x) l^l / (1 + l)^(1 + l), the posterior exceeds
    e^k times the prior by at most exp(l (1 + l) V - l k) l^l / (1 + l)^(1 + l), which is beta for

        k = (1 + l) V + (ln(1 / beta) + l ln l - (1 + l) ln(1 + l)) / l.
    """
    need(beta > 0 and order > 0, "moments need a beta and an order above 0")
    variance = service.shards * (service.predictions * service.epsilon) ** 2 / 8
    needed = order * log(order)[1] - (1 + order) * log(1 + order)[0] - log(beta)[0]
    # A negative number proves more than is ever needed.
    return max(Fraction(0), (1 + order) * variance + needed / order)


def together(service: Service, beta: Fraction, gamma: Fraction) -> Fraction:
    """Return the alpha proved for all seeds jointly, on average over transcripts.

    Given earlier answers, the log-probability of an answer, relative to its mean over the seeds, is
    in an interval of length R = span * shards. So for seeds and n answers (Azuma, Hoeffding)

        Pr[Z > n R^2 / 8 + R sqrt(n ln(1 / b) / 2)] <= b,

    and with b = beta * gamma, Markov's inequality excludes a share gamma of transcripts.
    """
    tail, width, count = beta * gamma, service.span * service.shards, service.predictions
    need(tail > 0, "a bound on average needs a beta and a gamma above 0")
    return count * width**2 / 8 + width * sqrt(-count * log(tail)[0] / 2)[1]


def near_mean(
    service: Service, beta: Fraction, gamma: Fraction, bound: Fraction, share: Fraction
) -> Fraction | None:
    """Return ``bound`` if the concentration of votes near their mean proves it as an alpha.

    As in `together`, but of b = beta * gamma the sum of n steps gets b2 = ``share`` b, and the
    range of each step b1 = (b - b2) / (n e^K): with L labels it exceeds R = span sqrt(shards
    ln(L (L - 1) / b1) / 2) with at most this probability (McDiarmid). Valid values K are at least

        n (R^2 + shards epsilon^2) / 8 + R sqrt(n ln(1 / b2) / 2).
    """
    tail, count, labels = beta * gamma, service.predictions, service.labels or 1
    need(tail > 0 and labels > 1, "votes near their mean need labels, and a beta and gamma above 0")
    need(bound >= 0 and 0 < share < 1, "no bound of at least 0, or no share of the error")
    far = log(Fraction(labels * (labels - 1) * count))[1] + bound - log((1 - share) * tail)[0]
    square = service.span**2 * service.shards * far / 2
    drift = count * (square + service.shards * service.epsilon**2) / 8
    spread = sqrt(-square * count * log(share * tail)[0] / 2)[1]
    return bound if drift + spread <= bound else None


def answered_right(service: Service, copies: int) -> Enclosure:
    """Enclose the probability that more than half of the shards contain one of a point's copies."""
    least, most = service.inclusion
    held = 1 - power(1 - least, copies)[1], 1 - power(1 - most, copies)[0]
    half = service.shards // 2 + 1
    return at_least(half, service.shards, held[0])[0], at_least(half, service.shards, held[1])[1]


def is_refuted(
    service: Service, copies: int, points: int, alpha: Fraction, beta: Fraction, gamma: Fraction
) -> bool:
    """Return whether a claim is false for points with copies and lookup models.

    Theorem 3.1 of *Adaptive Machine Unlearning*, with computed probabilities. A point is answered
    correctly with probability s, independently of others; such points are deleted with all copies,
    which changes no other answer. That none of the l remaining points is answered correctly has
    probability 1 after unlearning, and (1 - s)^l after retraining. So the claim fails for these
    updates if 1 > e^alpha (1 - s)^l + beta, that is if l > (alpha - ln(1 - beta)) / -ln(1 - s), and
    is false if that has probability above gamma; l is binomial, with probability 1 - s.
    """
    sized = copies >= 1 and 1 <= points <= MOST_TRIALS and copies * points <= service.rows
    if service.private or not sized or beta >= 1:
        return False
    least, most = answered_right(service, copies)
    rate = -log(1 - least)[1] if least < 1 else None
    if rate is not None and rate <= 0:
        return False
    enough = math.floor((alpha - log(1 - beta)[0]) / rate) + 1 if rate else 1
    return at_least(enough, points, 1 - most)[0] > gamma


ROUTES = ("added", "moments", "together", "near_mean")
"""The routes of a proof, by number."""

_MOST_ALPHA = 1000  # nats; counts cannot distinguish such probabilities

_SEEDS = (
    "rests on: each shard's points and training are drawn from its own seed, independently (a "
    "keyed hash stands in for that); a model is a function of its shard's points and that seed"
)
_SECRET = (
    "rests on: seeds, models, which shards an update retrains, and how long it takes stay secret; "
    "nothing but the answers is published"
)


def unlearns(given: Given) -> bool | None:
    """Decide (alpha, beta, gamma)-unlearning, as far as the proof allows."""
    service = given.values.get("service")
    if not isinstance(service, Service | Counts):
        raise Rejected("'service' is neither a service nor counts of events")
    alpha, beta, gamma = (given.number(name) for name in ("alpha", "beta", "gamma"))
    need(min(alpha, beta, gamma) >= 0, "alpha, beta and gamma must be at least 0")
    updates = given.word("updates", "adaptive", "oblivious")
    need(updates, "it does not state whether updates are adaptive or oblivious")
    if isinstance(service, Counts):
        if updates == "oblivious":
            return None
        return _refute_by_counts(given, service, alpha, beta + gamma)
    if updates == "oblivious":
        given.tell("shown: updates that depend on no answer are unlearned exactly (Lemma 5.1)")
        given.tell(_SEEDS)
        return True
    if beta >= 1 or gamma >= 1:
        given.tell("shown: with beta or gamma of 1 or more the claim holds for any service")
        return True
    if service.private:
        return _prove_by_accounting(given, service, alpha, beta, gamma)
    return _refute_by_attack(given, service, alpha, beta, gamma)


def _prove_by_accounting(
    given: Given, service: Service, alpha: Fraction, beta: Fraction, gamma: Fraction
) -> bool | None:
    """Prove a claim by the route of the proof, if that suffices."""
    route = int(_only(given, "route", np.int64)) if given.proof else 0
    need(0 <= route < len(ROUTES), f"no route {route}; expected 0 to {len(ROUTES) - 1}")
    shown: Fraction | None
    if ROUTES[route] == "added":
        shown, words = group_privacy_alpha(service), "adding up the privacy of all answers"
    elif ROUTES[route] == "moments":
        order = _only(given, "order", np.float64)
        shown, words = moments(service, beta, order), f"moments of order {float(order):.4g}"
    elif ROUTES[route] == "together":
        shown, words = together(service, beta, gamma), "bounding all seeds and answers together"
    else:
        bound, share = (_only(given, name, np.float64) for name in ("bound", "share"))
        shown, words = near_mean(service, beta, gamma, bound, share), "votes being near their mean"
    if shown is None or shown > alpha:
        least = "nothing" if shown is None else f"alpha of at most {upwards(shown)}"
        given.tell(f"the proof shows {least} by {words}, which is not enough")
        return None
    answers = f"{service.predictions:,} answers"
    given.tell(f"shown: alpha is at most {upwards(shown)} after {answers}, by {words}")
    given.tell(
        f"rests on: at most {answers} between two full retrainings, each drawn by "
        f"{service.mechanism} with the epsilon of the settings and charged before it is given out"
    )
    given.tell(_SEEDS)
    given.tell(_SECRET)
    return True


def _refute_by_attack(
    given: Given, service: Service, alpha: Fraction, beta: Fraction, gamma: Fraction
) -> bool | None:
    """Refute a claim about a majority vote by computed probabilities, without trials."""
    if not given.proof:
        given.tell("nothing bounds what a majority vote reveals, and the proof contains no attack")
        return None
    copies, points = (int(_only(given, name, np.int64)) for name in ("copies", "points"))
    if not is_refuted(service, copies, points, alpha, beta, gamma):
        given.tell(f"{points:,} points in {copies:,} copies are not shown to refute the claim")
        return None
    given.tell(
        f"shown: of {points:,} points in {copies:,} copies, those answered correctly are deleted; "
        "with a probability above gamma, the claim fails for the event that none of the rest is "
        "answered correctly; its probability is 1 after unlearning, and was computed from "
        "retrained models"
    )
    given.tell(
        "rests on: the data, the updates and the models, which look points up, are the attacker's "
        "choice, since the claim covers all of them; points are in a shard independently of each "
        "other"
    )
    return False


def _refute_by_counts(
    given: Given, counts: Counts, alpha: Fraction, left_out: Fraction
) -> bool | None:
    """Refute a claim by events counted in both arms; counts never prove one.

    Both ends of all events share the error (Bonferroni); gamma is added to beta, as a share gamma
    of updates is exempt.
    """
    error = given.error() / (2 * len(counts.unlearned))
    if alpha > _MOST_ALPHA:
        given.tell(f"counts cannot refute an alpha above {_MOST_ALPHA}")
        return None
    factor, events = exp(alpha)[1], range(len(counts.unlearned))
    fewer = [(trials - hits, trials) for hits, trials in counts.retrained]
    ends = lower_ends([*counts.unlearned, *fewer], error, given.ask)
    for event, least, rest in zip(events, ends, ends[len(events) :], strict=False):
        if least > factor * (1 - rest) + left_out:
            one, two = counts.unlearned[event], counts.retrained[event]
            given.tell(
                f"shown: an event happened in {one[0]:,} of {one[1]:,} trials after unlearning "
                f"and in {two[0]:,} of {two[1]:,} after retraining, which the claim rules out "
                "(Clopper-Pearson, over all events of the file)"
            )
            given.tell(
                "rests on: events, fixed before the trials, were counted in independent trials "
                "of the service, each with its own seeds and with updates that the claim covers; "
                "the counts are those of the file"
            )
            return False
    given.tell("no counted event is shown to refute the claim")
    return None


def _only(given: Given, name: str, dtype: type[np.generic]) -> Fraction:
    """Return the single number in an array of the proof."""
    found = given.array(name, dtype)
    need(len(found) == 1, f"array {name!r} of its proof has {len(found)} numbers, expected 1")
    return Fraction(found[0].item())
