"""The functions that the checker computes; no others are certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from leaveout.kernel.values import Given
from leaveout.names import find_reference

Checks: TypeAlias = Callable[[Given], object]
"""Computes a call: returns a Range, True, False or None for a claim, else an object."""


@dataclass(frozen=True)
class Known:
    """A function that the checker computes."""

    reference: str  # ``module:function``, imported when needed
    result: Literal["number", "claim", "object"]
    falling: tuple[str, ...] = ()
    samples: bool = False
    takes: tuple[str, ...] = ()  # its parameters, positional ones first
    places: int = 1  # number of positional ones

    @property
    def check(self) -> Checks:
        """The function itself."""
        return cast("Checks", find_reference(self.reference))


_KERNEL, _ROOMS = "leaveout.kernel", "leaveout.verifier.checker"
_DELETION = "leaveout.kernel.deletion"
_THREATS = ("edits", "insertions", "removals", "modifications", "relabels")


def _object(place: str, *takes: str, places: int = 1) -> Known:
    """Return a function whose result is neither a number nor a claim."""
    return Known(f"{_ROOMS}.{place}", "object", takes=takes, places=places)


def _number(place: str, *takes: str, falling: tuple[str, ...] = (), places: int = 1) -> Known:
    return Known(f"{_ROOMS}.{place}", "number", falling, takes=takes, places=places)


def _claim(place: str, *takes: str, places: int = 1) -> Known:
    return Known(f"{_ROOMS}.{place}", "claim", takes=takes, places=places)


FUNCTIONS: Mapping[str, Known] = {
    "access": _object("served.idp:access", "path"),
    "audit": Known(f"{_KERNEL}.audits:audit", "object", takes=("path",)),
    "ballots": _object("voting.functions:ballots", "path", "hash", "offsets", "families"),
    "dpa": _object("voting.functions:dpa", "ballots", "members"),
    "finite_aggregation": _object("voting.functions:finite_aggregation", "ballots", "certificate"),
    "forest": _object("forests:forest", "path"),
    "hash_bagging": _object("voting.functions:hash_bagging", "ballots"),
    "points": _object("forests:points", "path"),
    "retrain": Known(f"{_DELETION}:retrain", "object", takes=("forest", "record"), places=2),
    "run_off": _object("voting.functions:run_off", "ballots", "certificate"),
    "sharded": Known(f"{_KERNEL}.services:sharded", "object", takes=("path",)),
    "ss_dpa": _object("voting.functions:ss_dpa", "ballots"),
    "test_points": _object("voting.functions:test_points", "ballots"),
    "unlearn": Known(f"{_DELETION}:unlearn", "object", takes=("forest", "record"), places=2),
    "answered_right": _claim("voting.functions:answered_right", "votes", "point", places=2),
    "caches_sound": Known(f"{_DELETION}:caches_sound", "claim", takes=("forest",)),
    "certified_accuracy": _number(
        "voting.functions:certified_accuracy", "votes", *_THREATS, "label", falling=_THREATS
    ),
    "collective_accuracy": _number(
        "voting.functions:collective_accuracy", "votes", *_THREATS, "label", falling=_THREATS
    ),
    "idp": _claim("served.idp:idp", "access", "epsilon"),
    "median_radius": _number("voting.functions:median_radius", "votes", "against", "label"),
    "membership_advantage": Known(
        f"{_KERNEL}.audits:membership_advantage",
        "number",
        samples=True,
        takes=("audit", "unit"),
    ),
    "radius": _number("voting.functions:radius", "votes", "point", "against", "to", places=2),
    "same_function": _claim("forests:same_function", "forest", "other", "inputs", places=3),
    "targeted_robustness": _number(
        "voting.functions:targeted_robustness", "votes", "to", *_THREATS, "label", falling=_THREATS
    ),
    "unlearns": Known(
        f"{_KERNEL}.services:unlearns",
        "claim",
        samples=True,
        takes=("service", "updates", "alpha", "beta", "gamma"),
    ),
}
"""By name in the language."""
