"""Deciders of the built-in functions that are not formulas over points, by subject."""

from __future__ import annotations

from functools import partial
from typing import cast

from leaveout.kernel.voting import FUNCTIONS as COUNTED
from leaveout.names import find_reference
from leaveout.specs import Function
from leaveout.specs.deciders import Decider
from leaveout.specs.table import votes

_SUBJECTS = {
    "access": ("access", "idp"),
    "audit": ("audit", "membership_advantage"),
    "forest": ("forest", "points", "unlearn", "retrain", "caches_sound", "same_function"),
    "sharded": ("sharded", "unlearns"),
    "votes": tuple(each.name for each in votes.FUNCTIONS),
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
    if given is None and function.name in COUNTED:
        from leaveout.verifier.values.subjects.votes import count_ballots

        return partial(count_ballots, function.name)
    return cast("Decider", find_reference(DECIDERS[function.name] if given is None else given))
