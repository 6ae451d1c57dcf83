"""The box of a query: what the file says of single inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from leaveout.encoders.box import Box
from leaveout.specs.text.errors import Slip
from leaveout.specs.vnnlib.formula import Atom, Place
from leaveout.specs.vnnlib.rounding import above, below

__all__ = ["Bounds", "bound_of"]

_LARGEST = Fraction(float(np.finfo(np.float32).max))


def bound_of(atom: Atom) -> tuple[Place, bool, Fraction] | None:
    """Return the input an inequality bounds alone, whether from above, and the bound."""
    if len(atom.linear.terms) != 1:
        return None
    ((spot, coefficient),) = atom.linear.terms.items()
    if spot.output:
        return None
    return spot, coefficient < 0, -atom.linear.constant / coefficient


@dataclass
class Bounds:
    """The tightest bounds found so far, exact; keys are an input and whether it is from above."""

    found: dict[tuple[Place, bool], tuple[Fraction, Atom]] = field(default_factory=dict)
    hull: set[tuple[Place, bool]] = field(default_factory=set)

    def tighten(self, atom: Atom) -> bool:
        """Take in an inequality that always holds; return whether the box says all of it."""
        bound = bound_of(atom)
        if bound is None:
            return False
        spot, upper, value = bound
        known = self.found.get((spot, upper))
        if known is None or (value < known[0] if upper else value > known[0]):
            self.found[spot, upper] = value, atom
        return not atom.strict

    def widen(self, cases: Sequence[Iterable[Atom]], missing: set[tuple[Place, bool]]) -> None:
        """Bound what has no bound by the hull of what all the cases say."""
        hull: dict[tuple[Place, bool], tuple[Fraction, Atom]] = {}
        for number, case in enumerate(cases):
            own = Bounds()
            for atom in case:
                own.tighten(atom)
            missing = missing & own.found.keys()
            for key in missing:
                value, atom = own.found[key]
                if number and (value <= hull[key][0] if key[1] else value >= hull[key][0]):
                    continue
                hull[key] = value, atom
        self.found.update((key, hull[key]) for key in missing if key in hull)
        self.hull = missing & hull.keys()

    def says(self, atom: Atom) -> bool:
        """Whether a bound of a case is that of the hull, so that the box says it."""
        bound = bound_of(atom)
        if bound is None or atom.strict or bound[:2] not in self.hull:
            return False
        return self.found[bound[:2]][0] == bound[2]

    def largest(self, spot: Place) -> Fraction:
        """Return the largest magnitude of an input."""
        return max(abs(self.found[spot, upper][0]) for upper in (False, True))

    def box(self, spots: Sequence[Place]) -> tuple[Box, bool]:
        """Return the box of inputs in this order, and whether it is empty.

        Of an empty one the bounds are swapped. Bounds that are no float64 are rounded outwards.

        Raises
        ------
        Slip
            If a bound is beyond the range of float32.
        """
        empty = False
        lower, upper = np.empty(len(spots)), np.empty(len(spots))
        for i, spot in enumerate(spots):
            low, high = (self._within(spot, side) for side in (False, True))
            if low > high:
                empty, low, high = True, high, low
            lower[i], upper[i] = below(low), above(high)
        return Box(lower, upper), empty

    def _within(self, spot: Place, upper: bool) -> Fraction:
        value, atom = self.found[spot, upper]
        if abs(value) > _LARGEST:
            raise Slip(atom.at, "this bound is beyond the range of float32")
        return value
