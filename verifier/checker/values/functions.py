"""The functions that the checker computes by itself; of others nothing is certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from leaveout.references import find_reference
from leaveout.verifier.checker.values.given import Given

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


_VOTES = "leaveout.verifier.checker.votes.functions:"
_THREATS = ("edits", "insertions", "removals", "modifications", "relabels")

FUNCTIONS: Mapping[str, Known] = {
    "ballots": Known(f"{_VOTES}ballots", "object"),
    "dpa": Known(f"{_VOTES}dpa", "object"),
    "ss_dpa": Known(f"{_VOTES}ss_dpa", "object"),
    "finite_aggregation": Known(f"{_VOTES}finite_aggregation", "object"),
    "run_off": Known(f"{_VOTES}run_off", "object"),
    "certified_accuracy": Known(f"{_VOTES}certified_accuracy", "number", _THREATS),
    "collective_accuracy": Known(
        "leaveout.verifier.checker.votes.collective:collective_accuracy", "number", _THREATS
    ),
    "median_radius": Known(f"{_VOTES}median_radius", "number"),
    "radius": Known(f"{_VOTES}radius", "number"),
    "answered_right": Known(f"{_VOTES}answered_right", "claim"),
    "test_points": Known(f"{_VOTES}test_points", "object"),
}
"""By the name the language gives them."""
