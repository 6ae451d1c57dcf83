"""Certificates of services: the route of the accounting, or the attack."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.models.sharded.accounting import Guarantee
from leaveout.models.sharded.information import best_order, composed_information, round_up
from leaveout.models.sharded.settings import ServiceSettings
from leaveout.verifier.audits.adaptive import Duplicated
from leaveout.verifier.checker.services.functions import ROUTES


def proof_of_accounting(settings: ServiceSettings, shown: Guarantee) -> dict[str, NDArray[Any]]:
    """Return the route to a guarantee with its chosen numbers."""
    assert settings.predictions is not None
    each = round_up(settings.epsilon)
    if shown.route == "composed":
        span = each if settings.mechanism == "exponential" else 2 * each
        tail = shown.beta * shown.gamma * (1 - 2.0**-40)
        whole = composed_information(
            each, settings.predictions, settings.shards, span, tail, labels=None
        )
        if whole <= shown.alpha:
            return _route("together")
        return _route("near_mean", bound=shown.alpha, share=0.5)
    order = best_order(settings.predictions * each, settings.shards, shown.beta)
    return _route("added") if order is None else _route("moments", order=order)


def proof_of_attack(attack: Duplicated) -> dict[str, NDArray[Any]]:
    """Return the points and copies that refute a claim."""
    return {"points": np.array([attack.points]), "copies": np.array([attack.copies])}


def _route(name: str, **chosen: float) -> dict[str, NDArray[Any]]:
    return {
        "route": np.array([ROUTES.index(name)]),
        **{key: np.array([value]) for key, value in chosen.items()},
    }
