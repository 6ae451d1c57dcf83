"""The box of a query: what the file says of single inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from leaveout.encoders.box import Box
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.combination import combined_bound
from leaveout.specs.vnnlib.formula import Atom, Linear, Place
from leaveout.specs.vnnlib.propagation import Found, Key, is_relation, propagate
from leaveout.specs.vnnlib.rounding import above, below

__all__ = ["Bounds", "bound_of"]

_LARGEST = Fraction(float(np.finfo(np.float32).max))
_MOST_SOUGHT = 200
"""Linear programmes for the cases of a query."""
_NOTHING = Atom(Linear(), False, Position())


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

    found: Found = field(default_factory=dict)
    hull: set[Key] = field(default_factory=set)

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

    def follow(self, relations: Sequence[Atom], missing: Iterable[Key]) -> bool:
        """Take in what relations of inputs say, and seek bounds that are missing in their sums.

        Returns
        -------
        bool
            False if nothing is within the bounds and meets the relations.
        """
        if not propagate(self.found, relations):
            return False
        added = False
        for key in missing:
            if key not in self.found:
                value = combined_bound(self.found, relations, key)
                if value is not None:
                    self.found[key] = value, relations[0]
                    added = True
        return not added or propagate(self.found, relations)

    def widen(
        self, cases: Sequence[Sequence[Atom]], relations: Sequence[Atom], missing: set[Key]
    ) -> list[bool]:
        """Bound what has no bound by the hull of what all the cases say.

        Parameters
        ----------
        cases : sequence of sequence of Atom
        relations : sequence of Atom
            Of inputs, that hold in all of them.
        missing : set of (Place, bool)

        Returns
        -------
        list of bool
            Of each case, whether it may be met.
        """
        hull: Found = {}
        possible = []
        # What sums of relations say is sought where the cases are few.
        sought = missing if len(cases) * len(missing) <= _MOST_SOUGHT else set[Key]()
        left = set(missing)
        first = True
        for case in cases:
            own = Bounds()
            related = [atom for atom in case if is_relation(atom)]
            if related or relations:
                own.found = dict(self.found)
            for atom in case:
                own.tighten(atom)
            possible.append(own.consistent() and self._followed(own, related, relations, sought))
            if not possible[-1]:
                continue
            left &= own.found.keys()
            for key in left:
                value, atom = own.found[key]
                known = hull.get(key)
                if first or known is None or (value > known[0] if key[1] else value < known[0]):
                    hull[key] = value, atom
            first = False
        self.found.update((key, hull[key]) for key in left if key in hull)
        self.hull = left & hull.keys()
        return possible

    def _followed(
        self, own: Bounds, related: list[Atom], common: Sequence[Atom], sought: set[Key]
    ) -> bool:
        """Take in relations of one case."""
        return not (related or common) or own.follow([*related, *common], sought - own.found.keys())

    def consistent(self) -> bool:
        """Whether no lower bound is above its upper bound."""
        for (spot, upper), (value, _) in self.found.items():
            if upper:
                lower = self.found.get((spot, False))
                if lower is not None and lower[0] > value:
                    return False
        return True

    def close(self, missing: Iterable[Key]) -> None:
        """Give what has no bound one, where nothing is asked of it."""
        for key in missing:
            self.found.setdefault(key, (Fraction(0), _NOTHING))

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
