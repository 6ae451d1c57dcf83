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


FUNCTIONS: Mapping[str, Known] = {
    "sharded": Known("leaveout.verifier.checker.services.functions:sharded", "object"),
    "unlearns": Known("leaveout.verifier.checker.services.functions:unlearns", "claim"),
    "audit": Known("leaveout.verifier.checker.estimates.functions:audit", "object"),
    "membership_advantage": Known(
        "leaveout.verifier.checker.estimates.functions:membership_advantage", "number", samples=True
    ),
}
"""By the name the language gives them."""
