"""Deciders of the built-in functions that are not formulas over points, by subject."""

from __future__ import annotations

from typing import cast

from leaveout.names import find_reference
from leaveout.specs import Function
from leaveout.specs.deciders import Decider

_SUBJECTS = {
    "access": ("access", "idp"),
    "audit": ("audit", "membership_advantage"),
    "forest": ("forest", "points", "unlearn", "retrain", "caches_sound", "same_function"),
    "sharded": ("sharded", "unlearns"),
    "votes": (
        "ballots",
        "dpa",
        "ss_dpa",
        "finite_aggregation",
        "hash_bagging",
        "run_off",
        "certified_accuracy",
        "collective_accuracy",
        "targeted_robustness",
        "median_radius",
        "test_points",
        "radius",
        "answered_right",
    ),
}

DECIDERS = {
    name: f"{__name__}.{subject}:{name}" for subject, names in _SUBJECTS.items() for name in names
}
"""By function; a file is imported with the first call of one of its functions."""


def has_decider(function: Function) -> bool:
    """Return whether a function computes its calls, rather than being part of a formula."""
    return function.decider is not None or function.name in DECIDERS


def decider_of(function: Function) -> Decider:
    """Return what computes a function's calls."""
    given = function.decider
    return cast("Decider", find_reference(DECIDERS[function.name] if given is None else given))
