"""Functions of services: their settings, and whether they unlearn."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from leaveout.verifier.checker.binomials import least_probability, most_probability
from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.estimates.file import Counts
from leaveout.verifier.checker.expressions.given import Given
from leaveout.verifier.checker.rationals import exp, upwards
from leaveout.verifier.checker.services.accounting import (
    group_privacy_alpha,
    moments,
    near_mean,
    together,
)
from leaveout.verifier.checker.services.copies import is_refuted
from leaveout.verifier.checker.services.settings import Service, read_service

ROUTES = ("added", "moments", "together", "near_mean")
"""What a proof may take, by its number."""

_MOST_ALPHA = 1000
"""Nats; no counts tell such chances apart."""

_SEEDS = (
    "rests on: each shard's points and training are drawn from its own seed, independently, and a "
    "keyed hash stands for that; a model is a function of its shard's points and that seed"
)
_SECRET = (
    "rests on: seeds, models, which shards an update retrains, and how long it takes stay secret; "
    "nothing but the answers is published"
)
_ATTACK = (
    "rests on: the data, the updates and the models, which look points up, are the attacker's "
    "choice, as the claim is of all of them; points are in a shard independently of each other"
)


def sharded(given: Given) -> Service:
    """Read the settings of a service."""
    held = given.file()
    return read_service(held.path, held.sha256)


def unlearns(given: Given) -> bool | None:
    """Decide (alpha, beta, gamma)-unlearning again, as far as the proof shows it."""
    service = given.values.get("service")
    if not isinstance(service, Service | Counts):
        raise RejectedError("'service' is no service, and no counts of events")
    alpha, beta, gamma = (given.number(name) for name in ("alpha", "beta", "gamma"))
    if min(alpha, beta, gamma) < 0:
        raise RejectedError("alpha, beta and gamma are numbers of at least 0")
    updates = given.word("updates", "adaptive", "oblivious")
    if updates is None:
        raise RejectedError("it is not said whether updates are adaptive or oblivious")
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
        given.tell("shown: with beta or gamma of 1 or more the claim holds of any service")
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
    """Return the alpha that the proof's route shows, and what the route is."""
    if not given.proof:
        return group_privacy_alpha(service), "adding up the privacy of all answers"
    route = int(_only(given, "route", np.int64))
    if not 0 <= route < len(ROUTES):
        raise RejectedError(f"there is no route {route}, expected 0 to {len(ROUTES) - 1}")
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
    """Refute a claim about a majority vote by computed chances, without trials."""
    if not given.proof:
        given.tell("nothing bounds what a majority vote tells, and the proof names no attack")
        return None
    copies, points = (int(_only(given, name, np.int64)) for name in ("copies", "points"))
    if not is_refuted(service, copies, points, alpha, beta, gamma):
        given.tell(f"{points:,} points in {copies:,} copies are not shown to refute the claim")
        return None
    given.tell(
        f"shown: of {points:,} points in {copies:,} copies those answered right are deleted; with "
        "a chance above gamma the claim fails for the event that none of the rest is answered "
        "right; its chance is 1 after unlearning, and was computed of models trained anew"
    )
    given.tell(_ATTACK)
    return False


def _refute_by_counts(
    given: Given, counts: Counts, alpha: Fraction, left_out: Fraction
) -> bool | None:
    """Refute a claim by events counted in both arms, which never prove one.

    Each end of either arm of each event gets a share of the error; gamma is added to beta, as a
    share gamma of updates is exempt.
    """
    if given.confidence is None:
        raise RejectedError("what is counted in trials is never certain")
    error = (1 - given.confidence) / (2 * len(counts.unlearned))
    if not 0 < error < 1:
        raise RejectedError(f"{given.confidence} is no confidence")
    if alpha > _MOST_ALPHA:
        given.tell(f"no counts refute an alpha above {_MOST_ALPHA}")
        return None
    factor = exp(alpha)[1]
    for unlearned, retrained in zip(counts.unlearned, counts.retrained, strict=True):
        least, most = least_probability(*unlearned, error), most_probability(*retrained, error)
        if least > factor * most + left_out:
            given.tell(
                f"shown: an event happened in {unlearned[0]:,} of {unlearned[1]:,} trials after "
                f"unlearning and in {retrained[0]:,} of {retrained[1]:,} after retraining, which "
                "the claim does not allow (Clopper-Pearson, over all events of the file)"
            )
            given.tell(
                "rests on: events, fixed before the trials, were counted in independent trials of "
                "the service, each with seeds of its own and updates that the claim covers; the "
                "counts are the file's"
            )
            return False
    given.tell("no event that was counted is shown to refute the claim")
    return None


def _only(given: Given, name: str, dtype: type[np.generic]) -> Fraction:
    """Return the one number of an array of the proof."""
    found = given.array(name, dtype)
    if len(found) != 1:
        raise RejectedError(f"{name!r} of its proof holds {len(found)} numbers, expected 1")
    return Fraction(found[0].item())
