"""The functions of services: their settings, and whether they unlearn."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.expressions.given import Given
from leaveout.verifier.checker.rationals import upwards
from leaveout.verifier.checker.services.accounting import added, moments, near_mean, together
from leaveout.verifier.checker.services.copies import is_refuted
from leaveout.verifier.checker.services.settings import Service, read_service

__all__ = ["ROUTES", "sharded", "unlearns"]

ROUTES = ("added", "moments", "together", "near_mean")
"""What a proof may take, by its number."""

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
    """Decide (alpha, beta, gamma)-unlearning anew, as far as the proof shows it."""
    service = given.values.get("service")
    if not isinstance(service, Service):
        raise RejectedError("'service' is no service")
    alpha, beta, gamma = (given.number(name) for name in ("alpha", "beta", "gamma"))
    if min(alpha, beta, gamma) < 0:
        raise RejectedError("alpha, beta and gamma are numbers of at least 0")
    updates = given.word("updates", "adaptive", "oblivious")
    if updates is None:
        raise RejectedError("it is not said whether updates are adaptive or oblivious")
    if updates == "oblivious":
        given.tell("shown: updates that depend on no answer are unlearned exactly (Lemma 5.1)")
        given.tell(_SEEDS)
        return True
    if beta >= 1 or gamma >= 1:
        given.tell("shown: with beta or gamma of 1 or more the claim holds of any service")
        return True
    if service.private:
        return _accounted(given, service, alpha, beta, gamma)
    return _attacked(given, service, alpha, beta, gamma)


def _accounted(
    given: Given, service: Service, alpha: Fraction, beta: Fraction, gamma: Fraction
) -> bool | None:
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
        return added(service), "adding up the privacy of all answers"
    route = int(_only(given, "route", np.int64))
    if not 0 <= route < len(ROUTES):
        raise RejectedError(f"there is no route {route}, expected 0 to {len(ROUTES) - 1}")
    match ROUTES[route]:
        case "added":
            return added(service), "adding up the privacy of all answers"
        case "moments":
            order = _only(given, "order", np.float64)
            return moments(service, beta, order), f"moments of order {float(order):.4g}"
        case "together":
            return together(service, beta, gamma), "bounding all seeds and answers together"
        case _:
            bound, share = (_only(given, name, np.float64) for name in ("bound", "share"))
            found = near_mean(service, beta, gamma, bound, share)
            return found, "votes being near their mean"


def _attacked(
    given: Given, service: Service, alpha: Fraction, beta: Fraction, gamma: Fraction
) -> bool | None:
    """Refute a claim about a majority vote by chances that are computed: no trial counts."""
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


def _only(given: Given, name: str, dtype: type[np.generic]) -> Fraction:
    """Return the one number of an array of the proof."""
    found = given.array(name, dtype)
    if len(found) != 1:
        raise RejectedError(f"{name!r} of its proof holds {len(found)} numbers, expected 1")
    return Fraction(found[0].item())
