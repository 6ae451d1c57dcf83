"""The functions that the checker computes by itself; of others nothing is certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from leaveout.references import find_reference
from leaveout.verifier.checker.expressions.given import Given

__all__ = ["FUNCTIONS", "Checks", "Known"]

Checks: TypeAlias = Callable[[Given], object]
"""Computes a call: a `Range`, True, False or None for a claim, else an object."""


@dataclass(frozen=True)
class Known:
    """A function that the checker computes.

    Attributes
    ----------
    reference : str
        ``module:function``, imported once it is needed.
    result : {"number", "claim", "object"}
    falling : tuple of str
        Parameters, whole numbers from 0, with which its number falls, so that a ``find`` may ask
        for one.
    samples : bool
        Whether its number is estimated, so that it holds with a confidence alone.
    """

    reference: str
    result: Literal["number", "claim", "object"]
    falling: tuple[str, ...] = ()
    samples: bool = False

    @property
    def check(self) -> Checks:
        """The function itself."""
        return cast("Checks", find_reference(self.reference))


_ROOMS = "leaveout.verifier.checker"
_THREATS = ("edits", "insertions", "removals", "modifications", "relabels")


def _objects(room: str, *names: str) -> dict[str, Known]:
    """Return functions of a room that are neither numbers nor claims."""
    return {name: Known(f"{_ROOMS}.{room}:{name}", "object") for name in names}


FUNCTIONS: Mapping[str, Known] = {
    **_objects("estimates.functions", "audit"),
    **_objects("ensembles.deletion", "forest", "points", "retrain", "unlearn"),
    **_objects("services.functions", "sharded"),
    **_objects(
        "voting.functions",
        *("ballots", "dpa", "finite_aggregation", "run_off", "ss_dpa", "test_points"),
    ),
    **_objects("served.access", "access"),
    "idp": Known(f"{_ROOMS}.served.idp:idp", "claim"),
    "answered_right": Known(f"{_ROOMS}.voting.functions:answered_right", "claim"),
    "caches_sound": Known(f"{_ROOMS}.ensembles.deletion:caches_sound", "claim"),
    "certified_accuracy": Known(
        f"{_ROOMS}.voting.functions:certified_accuracy", "number", falling=_THREATS
    ),
    "collective_accuracy": Known(
        f"{_ROOMS}.voting.collective:collective_accuracy", "number", falling=_THREATS
    ),
    "median_radius": Known(f"{_ROOMS}.voting.functions:median_radius", "number"),
    "membership_advantage": Known(
        f"{_ROOMS}.estimates.functions:membership_advantage", "number", samples=True
    ),
    "radius": Known(f"{_ROOMS}.voting.functions:radius", "number"),
    "same_function": Known(f"{_ROOMS}.ensembles.same:same_function", "claim"),
    "unlearns": Known(f"{_ROOMS}.services.functions:unlearns", "claim"),
}
"""By the name the language gives them."""
