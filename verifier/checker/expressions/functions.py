"""The functions of the language that are checked; no others are certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from leaveout.kernel.values import Ask, Given, nothing
from leaveout.names import find_reference

Checks: TypeAlias = Callable[[Given], object]
"""Computes a call: returns a Range, True, False or None for a claim, else an object."""

Result: TypeAlias = Literal["number", "claim", "object"]


@dataclass(frozen=True)
class Known:
    """A function that is checked."""

    reference: str  # ``module:function``, imported when needed
    result: Result
    takes: tuple[str, ...]  # its parameters, positional ones first
    falling: tuple[str, ...] = ()
    samples: bool = False
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


_KERNEL, _CERTIFY = "leaveout.kernel", "leaveout.verifier.certify"
_CHECKER = "leaveout.verifier.checker"
_AUDITS = f"{_CERTIFY}.audits:answer"
_THREATS = ("edits", "insertions", "removals", "modifications", "relabels")


def _votes(name: str, result: Result, *takes: str, places: int = 1) -> Known:
    falling = tuple(each for each in takes if each in _THREATS)
    answers = f"{_CERTIFY}.votes:answer"
    return Known(f"{_KERNEL}.votes:{name}", result, takes, falling, places=places, answers=answers)


def _deletion(name: str, result: Result, *takes: str, places: int = 1) -> Known:
    return Known(f"{_KERNEL}.deletion:{name}", result, takes, places=places)


FUNCTIONS: Mapping[str, Known] = {
    "access": Known(f"{_CHECKER}.served.idp:access", "object", ("path",)),
    "audit": Known(f"{_KERNEL}.audits:audit", "object", ("path",)),
    "ballots": _votes("ballots", "object", "path", "hash", "offsets", "families"),
    "dpa": _votes("dpa", "object", "ballots", "members"),
    "finite_aggregation": _votes("finite_aggregation", "object", "ballots", "certificate"),
    "forest": Known(f"{_CHECKER}.forests:forest", "object", ("path",)),
    "hash_bagging": _votes("hash_bagging", "object", "ballots"),
    "points": Known(f"{_CHECKER}.forests:points", "object", ("path",)),
    "retrain": _deletion("retrain", "object", "forest", "record", places=2),
    "run_off": _votes("run_off", "object", "ballots", "certificate"),
    "sharded": Known(f"{_KERNEL}.services:sharded", "object", ("path",)),
    "ss_dpa": _votes("ss_dpa", "object", "ballots"),
    "test_points": _votes("test_points", "object", "ballots"),
    "unlearn": _deletion("unlearn", "object", "forest", "record", places=2),
    "answered_right": _votes("answered_right", "claim", "votes", "point", places=2),
    "caches_sound": _deletion("caches_sound", "claim", "forest"),
    "certified_accuracy": _votes("certified_accuracy", "number", "votes", *_THREATS, "label"),
    "collective_accuracy": _votes("collective_accuracy", "number", "votes", *_THREATS, "label"),
    "idp": Known(f"{_CHECKER}.served.idp:idp", "claim", ("access", "epsilon")),
    "median_radius": _votes("median_radius", "number", "votes", "against", "label"),
    "membership_advantage": Known(
        f"{_KERNEL}.audits:membership_advantage",
        "number",
        ("audit", "unit"),
        samples=True,
        answers=_AUDITS,
    ),
    "radius": _votes("radius", "number", "votes", "point", "against", "to", places=2),
    "same_function": Known(
        f"{_CHECKER}.forests:same_function",
        "claim",
        ("forest", "other", "inputs"),
        places=3,
        answers=f"{_CERTIFY}.forests:rules_of_boxes",
    ),
    "targeted_robustness": _votes(
        "targeted_robustness", "number", "votes", "to", *_THREATS, "label"
    ),
    "unlearns": Known(
        f"{_KERNEL}.services:unlearns",
        "claim",
        ("service", "updates", "alpha", "beta", "gamma"),
        samples=True,
        answers=_AUDITS,
    ),
}
"""By name in the language."""
