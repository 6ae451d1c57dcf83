"""The functions of the language that are checked; no others are certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Literal, TypeAlias, cast

from ..threats import THREATS
from ..values import Given
from ..votes import count_ballots
from ..voting import FUNCTIONS as COUNTED

Checks: TypeAlias = Callable[[Given], object]
"""Computes a call: returns a Range, True, False or None for a claim, else an object."""

Result: TypeAlias = Literal["number", "claim", "object"]


@dataclass(frozen=True)
class Known:
    """A function that is checked."""

    reference: str | Checks  # or ``module:function`` of the kernel, imported when needed
    result: Result
    takes: tuple[str, ...]  # its parameters, positional ones first
    falling: tuple[str, ...] = ()
    samples: bool = False
    places: int = 1  # number of positional ones

    @property
    def check(self) -> Checks:
        """The function itself."""
        if not isinstance(self.reference, str):
            return self.reference
        module, _, name = self.reference.partition(":")
        return cast("Checks", getattr(import_module(f"..{module}", __package__), name))


def _votes(name: str, result: Result, *takes: str, places: int = 1) -> Known:
    falling = tuple(each for each in takes if each in THREATS)
    return Known(f"votes:{name}", result, takes, falling, places=places)


def _deletion(name: str, result: Result, *takes: str, places: int = 1) -> Known:
    return Known(f"deletion:{name}", result, takes, places=places)


FUNCTIONS: Mapping[str, Known] = {
    "access": Known("claims.guards:access", "object", ("path",)),
    "audit": Known("audits:audit", "object", ("path",)),
    "ballots": _votes("ballots", "object", "path", "hash", "offsets", "families"),
    "forest": Known("claims.forests:forest", "object", ("path",)),
    "points": Known("claims.forests:points", "object", ("path",)),
    "retrain": _deletion("retrain", "object", "forest", "record", places=2),
    "sharded": Known("services:sharded", "object", ("path",)),
    "test_points": _votes("test_points", "object", "ballots"),
    "unlearn": _deletion("unlearn", "object", "forest", "record", places=2),
    "answered_right": _votes("answered_right", "claim", "votes", "point", places=2),
    "caches_sound": _deletion("caches_sound", "claim", "forest"),
    "certified_accuracy": _votes("certified_accuracy", "number", "votes", *THREATS, "label"),
    "collective_accuracy": _votes("collective_accuracy", "number", "votes", *THREATS, "label"),
    "idp": Known("claims.guards:idp", "claim", ("access", "epsilon")),
    "median_radius": _votes("median_radius", "number", "votes", "against", "label"),
    "membership_advantage": Known(
        "audits:membership_advantage", "number", ("audit", "unit"), samples=True
    ),
    "radius": _votes("radius", "number", "votes", "point", "against", "to", places=2),
    "same_function": Known(
        "claims.forests:same_function", "claim", ("forest", "other", "inputs"), places=3
    ),
    "targeted_robustness": _votes(
        "targeted_robustness", "number", "votes", "to", *THREATS, "label"
    ),
    "unlearns": Known(
        "services:unlearns", "claim", ("service", "updates", "alpha", "beta", "gamma"), samples=True
    ),
    **{
        name: Known(partial(count_ballots, name), "object", ("ballots", *scheme.options))
        for name, scheme in COUNTED.items()
    },
}
"""By name in the language."""
