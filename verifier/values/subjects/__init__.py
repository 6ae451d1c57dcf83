"""What computes the built-in functions that are no formulas over points, a file a subject."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace

from leaveout.specs import Function
from leaveout.specs.deciders import Arguments, Decider

__all__ = ["with_deciders"]

_MODULES: Mapping[str, tuple[str, ...]] = {
    "votes": (
        "ballots",
        "dpa",
        "ss_dpa",
        "finite_aggregation",
        "run_off",
        "certified_accuracy",
        "collective_accuracy",
        "median_radius",
        "test_points",
        "radius",
        "answered_right",
    ),
    "access": ("access", "idp"),
    "audit": ("audit", "membership_advantage"),
    "sharded": ("sharded", "unlearns"),
    "forest": ("forest", "points", "unlearn", "retrain", "caches_sound", "same_function"),
}
"""Functions by the module that has a decider of the same name for each."""


def with_deciders(table: Mapping[str, Function]) -> dict[str, Function]:
    """Return a table of functions in which those that are decided here have their deciders.

    Parameters
    ----------
    table : mapping of str to Function
        One that has a decider keeps it.
    """
    return {
        name: replace(function, decider=_decider(name)) if _is_ours(function) else function
        for name, function in table.items()
    }


def _is_ours(function: Function) -> bool:
    return function.decider is None and any(function.name in names for names in _MODULES.values())


def _decider(name: str) -> Decider:
    """Return a decider that imports what it needs once it is called."""
    module = next(module for module, names in _MODULES.items() if name in names)

    def decide(given: Arguments) -> object:
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)(given)

    return decide
