"""Functions of services: their settings, and whether they unlearn."""

from __future__ import annotations

import hashlib
import math
import tomllib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from leaveout.files import SETTINGS, read_whole, why_unread
from leaveout.kernel.values import Given
from leaveout.verifier.checker.errors import CertificateError, RejectedError
from leaveout.verifier.checker.estimates.file import Counts
from leaveout.verifier.checker.rationals import (
    EXACT_TRIALS,
    Enclosure,
    at_least,
    exp,
    least_probability,
    log,
    most_probability,
    power,
    sqrt,
    upwards,
)

_MOST = 2**53
_MOST_SHARDS = 100_000
_SHARPEST = 4096
"""Largest epsilon times shards for which answers are drawn as accurately as charged."""
_MECHANISMS = ("exponential", "noisy_max", "majority")
_KEYS = frozenset(
    ("shards", "mechanism", "rows", "inclusion", "epsilon", "predictions", "labels", "on_exhausted")
)
_INACCURATE = Fraction(1, 2**100)
"""Far more than what drawing with 40 digits adds to an epsilon."""


@dataclass(frozen=True)
class Service:
    """The settings of a service."""

    shards: int  # number of models
    rows: int  # most points of the service
    mechanism: str
    inclusion: Enclosure  # enclosure of the probability that a shard contains a point
    epsilon: Fraction
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


def read_service(path: Path, sha256: str) -> Service:
    """Read a file of settings."""
    try:
        content = read_whole(path, SETTINGS)
    except OSError as error:
        raise CertificateError(f"{path}: {why_unread(error)}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RejectedError(f"{path}: not the file that the certificate is about")
    try:
        given = tomllib.loads(content.decode("utf-8").replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise RejectedError(f"{path}: not TOML: {' '.join(str(error).split())}") from None
    return _Reader(path, given).service()


@dataclass(frozen=True)
class _Reader:
    path: Path
    given: dict[str, object]

    def service(self) -> Service:
        for key in self.given:
            if key not in _KEYS:
                raise self._wrong(key, f"expected only {', '.join(sorted(_KEYS))}")
        mechanism = self.given.get("mechanism")
        if mechanism not in _MECHANISMS or not isinstance(mechanism, str):
            raise self._wrong("mechanism", f"expected one of {', '.join(_MECHANISMS)}")
        if self.given.get("on_exhausted", "refuse") not in ("retrain", "refuse"):
            raise self._wrong("on_exhausted", "expected retrain or refuse")
        shards = self._whole("shards", 1, _MOST_SHARDS)
        rows = self._whole("rows", 1, _MOST)
        labels = self._whole("labels", 2, _MOST) if "labels" in self.given else None
        epsilon, predictions = Fraction(0), 0
        if mechanism == "majority":
            for key in ("epsilon", "predictions"):
                if self.given.get(key, 0):
                    raise self._wrong(key, "drop it: a majority vote has none")
        else:
            epsilon = self._number("epsilon", _MOST)[1] + _INACCURATE
            if not _INACCURATE < epsilon <= Fraction(_SHARPEST + 1, shards):
                raise self._wrong("epsilon", f"expected above 0 and at most {_SHARPEST} / shards")
            predictions = self._whole("predictions", 1, _MOST)
        return Service(
            shards, rows, mechanism, self._inclusion(shards), epsilon, predictions, labels
        )

    def _inclusion(self, shards: int) -> Enclosure:
        if "inclusion" not in self.given:
            # The service computes with the nearest float.
            exactly, least = Fraction(1, shards), Fraction(1, 2**52)
            return exactly * (1 - least), min(Fraction(1), exactly * (1 + least))
        low, high = self._number("inclusion", 1)
        return low, min(Fraction(1), high)

    def _whole(self, key: str, least: int, most: int) -> int:
        value = self.given.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self._wrong(key, f"expected a whole number from {least} to {most}")
        return value

    def _number(self, key: str, most: int) -> Enclosure:
        """Return an enclosure of the written number and of the float that the service reads."""
        value = self.given.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong(key, "expected a number")
        if not 0 < value <= most:
            raise self._wrong(key, f"expected above 0 and at most {most}")
        near = float(value)
        return (
            Fraction(math.nextafter(near, 0)),
            Fraction(math.nextafter(near, math.inf)),
        )

    def _wrong(self, key: str, expected: str) -> RejectedError:
        return RejectedError(f"{self.path}: {key} = {self.given.get(key)!r}: {expected}")


def group_privacy_alpha(service: Service) -> Fraction:
    """Return the alpha of group privacy, with beta = gamma = 0.

    Answers are ``predictions * epsilon``-private in one seed, so all seeds together move any
    transcript's probability by at most a factor e to ``shards`` times that.
    """
    return service.shards * service.predictions * service.epsilon


def moments(service: Service, beta: Fraction, order: Fraction) -> Fraction | None:
    """Return the alpha that moments of the information prove for any transcript, with gamma = 0.

    With E = predictions * epsilon and V = shards E^2 / 8 the information Z has E[e^(l Z)] <=
    exp(l (1 + l) V) for every order l > 0. Since (1 - e^-x)+ <= e^(l x) l^l / (1 + l)^(1 + l), the
    posterior exceeds e^k times the prior by at most

        exp(l (1 + l) V - l k) l^l / (1 + l)^(1 + l),

    which is beta where k = (1 + l) V + (ln(1 / beta) + l ln l - (1 + l) ln(1 + l)) / l.
    """
    if beta <= 0 or order <= 0:
        return None
    variance = service.shards * (service.predictions * service.epsilon) ** 2 / 8
    needed = order * log(order)[1] - (1 + order) * log(1 + order)[0] - log(beta)[0]
    # A negative number proves more than is ever needed.
    return max(Fraction(0), (1 + order) * variance + needed / order)


def together(service: Service, beta: Fraction, gamma: Fraction) -> Fraction | None:
    """Return the alpha proved for all seeds jointly, on average over transcripts.

    Given earlier answers, the log-probability of a prediction's answer, relative to its mean over
    the seeds, is in an interval of length R = span * shards. So for seeds and n answers

        Pr[Z > n R^2 / 8 + R sqrt(n ln(1 / b) / 2)] <= b,

    and with b = beta * gamma, Markov's inequality excludes a share gamma of transcripts.
    """
    tail = beta * gamma
    if tail <= 0:
        return None
    width, count = service.span * service.shards, service.predictions
    return count * width**2 / 8 + width * sqrt(-count * log(tail)[0] / 2)[1]


def near_mean(
    service: Service, beta: Fraction, gamma: Fraction, bound: Fraction, share: Fraction
) -> Fraction | None:
    """Return ``bound`` if the concentration of votes near their mean proves it as an alpha.

    From b = beta * gamma, the sum of n steps gets the error b2 = ``share`` b, and the range of each
    step b1 = (b - b2) / (n e^K): with L labels it exceeds R = span sqrt(shards ln(L (L - 1) / b1) /
    2) with at most this probability (McDiarmid). Valid values of K are at least

        n (R^2 + shards epsilon^2) / 8 + R sqrt(n ln(1 / b2) / 2).
    """
    tail, count = beta * gamma, service.predictions
    if service.labels is None or tail <= 0 or bound < 0 or not 0 < share < 1:
        return None
    pairs = service.labels * (service.labels - 1)
    far = log(Fraction(pairs * count))[1] + bound - log((1 - share) * tail)[0]
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
    service: Service,
    copies: int,
    points: int,
    alpha: Fraction,
    beta: Fraction,
    gamma: Fraction,
) -> bool:
    """Return whether a claim is false for points with copies and lookup models.

    Theorem 3.1 of *Adaptive Machine Unlearning*, with computed probabilities. A point is answered
    correctly if more than half of the shards contain a copy, which has probability s, independently
    of other points. Such points are deleted with all copies, which does not change the answers at
    other points. Let E be the event that none of the l remaining points is answered correctly.
    After unlearning it has probability 1, for retrained models (1 - s)^l. So if l is large enough
    for

        1 > e^alpha (1 - s)^l + beta,

    the claim fails for these updates; it is false if that has probability above gamma. l is
    binomial over all points, with probability 1 - s.
    """
    if service.private or copies < 1 or not 1 <= points <= EXACT_TRIALS:
        return False
    if copies * points > service.rows or alpha > EXACT_TRIALS // 2:
        return False
    least, most = answered_right(service, copies)
    factor = exp(alpha)[1]

    def refutes(left: int) -> bool:
        """Return whether the attack refutes the claim with this many remaining points."""
        return factor * power(1 - least, left)[1] + beta < 1

    if not refutes(points):
        return False
    # With more remaining points the attack proves more.
    low, high = 0, points
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(middle) else (middle, high)
    return at_least(high, points, 1 - most)[0] > gamma


ROUTES = ("added", "moments", "together", "near_mean")
"""The routes of a proof, by number."""

_MOST_ALPHA = 1000
"""Nats; counts cannot distinguish such probabilities."""

_SEEDS = (
    "rests on: each shard's points and training are drawn from its own seed, independently (a "
    "keyed hash stands in for that); a model is a function of its shard's points and that seed"
)
_SECRET = (
    "rests on: seeds, models, which shards an update retrains, and how long it takes stay secret; "
    "nothing but the answers is published"
)
_ATTACK = (
    "rests on: the data, the updates and the models, which look points up, are the attacker's "
    "choice, since the claim covers all of them; points are in a shard independently of each "
    "other"
)


def sharded(given: Given) -> Service:
    """Read the settings of a service."""
    held = given.file()
    return read_service(held.path, held.sha256)


def unlearns(given: Given) -> bool | None:
    """Decide (alpha, beta, gamma)-unlearning again, as far as the proof allows."""
    service = given.values.get("service")
    if not isinstance(service, Service | Counts):
        raise RejectedError("'service' is neither a service nor counts of events")
    alpha, beta, gamma = (given.number(name) for name in ("alpha", "beta", "gamma"))
    if min(alpha, beta, gamma) < 0:
        raise RejectedError("alpha, beta and gamma must be at least 0")
    updates = given.word("updates", "adaptive", "oblivious")
    if updates is None:
        raise RejectedError("it does not state whether updates are adaptive or oblivious")
    if isinstance(service, Counts):
        return (
            _refute_by_counts(given, service, alpha, beta + gamma)
            if updates == "adaptive"
            else None
        )
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
    """Prove a claim by the accounting of the proof's route, if that suffices."""
    shown, words = _route(given, service, beta, gamma)
    if shown is None or shown > alpha:
        least = "nothing" if shown is None else f"alpha of at most {upwards(shown)}"
        given.tell(f"the proof shows {least} by {words}, which is not enough")
        return None
    given.tell(
        f"shown: alpha is at most {upwards(shown)} after {service.predictions:,} answers, "
        f"by {words}"
    )
    given.tell(
        f"rests on: at most {service.predictions:,} answers between two full retrainings, each "
        f"drawn by {service.mechanism} with the epsilon of the settings and charged before it is "
        "given out"
    )
    given.tell(_SEEDS)
    given.tell(_SECRET)
    return True


def _route(
    given: Given, service: Service, beta: Fraction, gamma: Fraction
) -> tuple[Fraction | None, str]:
    """Return the alpha proved by the proof's route, and a description of the route."""
    if not given.proof:
        return group_privacy_alpha(service), "adding up the privacy of all answers"
    route = int(_only(given, "route", np.int64))
    if not 0 <= route < len(ROUTES):
        raise RejectedError(f"no route {route}; expected 0 to {len(ROUTES) - 1}")
    match ROUTES[route]:
        case "added":
            return group_privacy_alpha(service), "adding up the privacy of all answers"
        case "moments":
            order = _only(given, "order", np.float64)
            return moments(service, beta, order), f"moments of order {float(order):.4g}"
        case "together":
            return together(service, beta, gamma), "bounding all seeds and answers together"
        case _:
            bound, share = (_only(given, name, np.float64) for name in ("bound", "share"))
            found = near_mean(service, beta, gamma, bound, share)
            return found, "votes being near their mean"


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
        f"shown: of {points:,} points in {copies:,} copies, those answered correctly are "
        "deleted; with a probability above gamma, the claim fails for the event that none of "
        "the rest is answered correctly; its probability is 1 after unlearning, and was "
        "computed from retrained models"
    )
    given.tell(_ATTACK)
    return False


def _refute_by_counts(
    given: Given, counts: Counts, alpha: Fraction, left_out: Fraction
) -> bool | None:
    """Refute a claim by events counted in both arms; counts never prove one.

    Both ends of both arms of all events share the error; gamma is added to beta, as a share gamma
    of updates is exempt.
    """
    if given.confidence is None:
        raise RejectedError("a result counted in trials always needs a confidence")
    error = (1 - given.confidence) / (2 * len(counts.unlearned))
    if not 0 < error < 1:
        raise RejectedError(f"{given.confidence} is not a confidence")
    if alpha > _MOST_ALPHA:
        given.tell(f"counts cannot refute an alpha above {_MOST_ALPHA}")
        return None
    factor = exp(alpha)[1]
    for unlearned, retrained in zip(counts.unlearned, counts.retrained, strict=True):
        least, most = least_probability(*unlearned, error), most_probability(*retrained, error)
        if least > factor * most + left_out:
            given.tell(
                f"shown: an event happened in {unlearned[0]:,} of {unlearned[1]:,} trials after "
                f"unlearning and in {retrained[0]:,} of {retrained[1]:,} after retraining, which "
                "the claim rules out (Clopper-Pearson, over all events of the file)"
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
    if len(found) != 1:
        raise RejectedError(f"array {name!r} of its proof has {len(found)} numbers, expected 1")
    return Fraction(found[0].item())
