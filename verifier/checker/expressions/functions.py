"""The functions that the checker computes; no others are certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from leaveout.kernel.values import Ask, Given, nothing
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
    answers: str = ""  # ``module:function`` that answers what the function asks for

    @property
    def check(self) -> Checks:
        """The function itself."""
        return cast("Checks", find_reference(self.reference))

    @property
    def ask(self) -> Ask:
        """What answers its questions."""
        return cast("Ask", find_reference(self.answers)) if self.answers else nothing


_ROOMS = "leaveout.verifier.checker"
_VOTES = "leaveout.kernel.votes"
_HINTS = "leaveout.verifier.certify.votes:answer"
_THREATS = ("edits", "insertions", "removals", "modifications", "relabels")


def _object(place: str, *takes: str, places: int = 1) -> Known:
    """Return a function whose result is neither a number nor a claim."""
    return Known(f"{_ROOMS}.{place}", "object", takes=takes, places=places)


def _number(place: str, *takes: str, falling: tuple[str, ...] = (), places: int = 1) -> Known:
    return Known(f"{_ROOMS}.{place}", "number", falling, takes=takes, places=places)


def _votes(
    name: str, result: Literal["number", "claim", "object"], *takes: str, places: int = 1
) -> Known:
    """Return a function about votes."""
    falling = tuple(each for each in takes if each in _THREATS)
    return Known(f"{_VOTES}:{name}", result, falling, takes=takes, places=places, answers=_HINTS)


def _claim(place: str, *takes: str, places: int = 1) -> Known:
    return Known(f"{_ROOMS}.{place}", "claim", takes=takes, places=places)


FUNCTIONS: Mapping[str, Known] = {
    "access": _object("served.idp:access", "path"),
    "audit": _object("estimates.functions:audit", "path"),
    "ballots": _votes("ballots", "object", "path", "hash", "offsets", "families"),
    "dpa": _votes("dpa", "object", "ballots", "members"),
    "finite_aggregation": _votes("finite_aggregation", "object", "ballots", "certificate"),
    "forest": _object("ensembles.deletion:forest", "path"),
    "hash_bagging": _votes("hash_bagging", "object", "ballots"),
    "points": _object("ensembles.deletion:points", "path"),
    "retrain": _object("ensembles.deletion:retrain", "forest", "record", places=2),
    "run_off": _votes("run_off", "object", "ballots", "certificate"),
    "sharded": _object("services.functions:sharded", "path"),
    "ss_dpa": _votes("ss_dpa", "object", "ballots"),
    "test_points": _votes("test_points", "object", "ballots"),
    "unlearn": _object("ensembles.deletion:unlearn", "forest", "record", places=2),
    "answered_right": _votes("answered_right", "claim", "votes", "point", places=2),
    "caches_sound": _claim("ensembles.deletion:caches_sound", "forest"),
    "certified_accuracy": _votes("certified_accuracy", "number", "votes", *_THREATS, "label"),
    "collective_accuracy": _votes("collective_accuracy", "number", "votes", *_THREATS, "label"),
    "idp": _claim("served.idp:idp", "access", "epsilon"),
    "median_radius": _votes("median_radius", "number", "votes", "against", "label"),
    "membership_advantage": Known(
        f"{_ROOMS}.estimates.functions:membership_advantage",
        "number",
        samples=True,
        takes=("audit", "unit"),
    ),
    "radius": _votes("radius", "number", "votes", "point", "against", "to", places=2),
    "same_function": _claim("ensembles.same:same_function", "forest", "other", "inputs", places=3),
    "targeted_robustness": _votes(
        "targeted_robustness", "number", "votes", "to", *_THREATS, "label"
    ),
    "unlearns": Known(
        f"{_ROOMS}.services.functions:unlearns",
        "claim",
        samples=True,
        takes=("service", "updates", "alpha", "beta", "gamma"),
    ),
}
"""By name in the language."""
