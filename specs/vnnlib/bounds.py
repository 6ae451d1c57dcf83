"""The box of a query: bounds that the file states for single inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice

import numpy as np

from leaveout.encoders.box import Box
from leaveout.specs.text.errors import Slip
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.combination import combined_bound, contradictory
from leaveout.specs.vnnlib.formula import Atom, Linear, Place
from leaveout.specs.vnnlib.propagation import MOST_STEPS, Found, Key, is_relation, propagate
from leaveout.specs.vnnlib.rounding import above, below, is_exact

_LARGEST = Fraction(float(np.finfo(np.float32).max))
_MOST_SOUGHT = 200
"""Bounds for each of which a linear programme is solved."""
_MOST_COPIED = 5_000_000
_MOST_STEPS_OF_CASES = 10 * MOST_STEPS
_NOTHING = Atom(Linear(), False, Position())


def bound_of(atom: Atom) -> tuple[Place, bool, Fraction] | None:
    """Return the input that an inequality bounds, whether from above, and the bound."""
    if len(atom.linear.terms) != 1:
        return None
    ((spot, coefficient),) = atom.linear.terms.items()
    if spot.output:
        return None
    return spot, coefficient < 0, -atom.linear.constant / coefficient


@dataclass
class Bounds:
    """The tightest bounds so far, exact; keyed by input and side."""

    found: Found = field(default_factory=dict)
    hull: set[Key] = field(default_factory=set)

    def tighten(self, atom: Atom) -> bool:
        """Apply an inequality that always holds; return whether the box expresses it fully."""
        bound = bound_of(atom)
        if bound is None:
            return False
        spot, upper, value = bound
        known = self.found.get((spot, upper))
        if known is None or (value < known[0] if upper else value > known[0]):
            self.found[spot, upper] = value, atom
        return not atom.strict and is_exact(value)

    def follow(
        self, relations: Sequence[Atom], missing: Iterable[Key] | None, steps: int = MOST_STEPS
    ) -> bool:
        """Apply relations of inputs, and derive missing bounds from their sums.

        Parameters
        ----------
        relations : sequence of Atom
        missing : iterable of (Place, bool), optional
            None to look at no sums.
        steps : int
            As of `propagate`.

        Returns
        -------
        bool
            False if nothing is within the bounds and meets the relations.
        """
        if not propagate(self.found, relations, steps):
            return False
        if missing is None:
            return True
        if len(relations) > 1 and contradictory(self.found, relations):
            return False
        added = False
        for key in islice((each for each in missing if each not in self.found), _MOST_SOUGHT):
            value = combined_bound(self.found, relations, key)
            if value is None:
                # Without this one the others are of no use.
                break
            self.found[key] = value, relations[0]
            added = True
        return not added or propagate(self.found, relations, steps)

    def widen(
        self, cases: Sequence[Sequence[Atom]], relations: Sequence[Atom], missing: set[Key]
    ) -> list[bool]:
        """Bound unbounded inputs by the hull of all cases; return which are satisfiable.

        Parameters
        ----------
        cases : sequence of sequence of Atom
        relations : sequence of Atom
            Of inputs, that hold in all of them, and that `follow` has taken in.
        missing : set of (Place, bool)

        Returns
        -------
        list of bool
            Of each case, whether it may be met.
        """
        hull: Found = {}
        possible = []
        # Where cases are many, what relations say of one is sought for less long, or not at all.
        follows = len(cases) * len(self.found) <= _MOST_COPIED
        steps = _MOST_STEPS_OF_CASES // len(cases)
        sought = missing if len(cases) * max(1, len(missing)) <= _MOST_SOUGHT else None
        left = set(missing)
        for case in cases:
            related = [atom for atom in case if follows and is_relation(atom)]
            if follows and relations and (related or missing):
                related += relations
            own = Bounds(dict(self.found) if related else {})
            for atom in case:
                own.tighten(atom)
            met = own.consistent() and (not related or own.follow(related, sought, steps))
            possible.append(met)
            if not met:
                continue
            left &= own.found.keys()
            for key in left:
                value, atom = own.found[key]
                known = hull.get(key)
                if known is None or (value > known[0] if key[1] else value < known[0]):
                    hull[key] = value, atom
        self.hull = left & hull.keys()
        self.found.update((key, hull[key]) for key in self.hull)
        return possible

    def consistent(self) -> bool:
        """Return whether no lower bound exceeds its upper bound."""
        for (spot, upper), (value, _) in self.found.items():
            if upper:
                lower = self.found.get((spot, False))
                if lower is not None and lower[0] > value:
                    return False
        return True

    def close(self, missing: Iterable[Key]) -> None:
        """Bound the unbounded inputs on which nothing depends."""
        for key in missing:
            self.found.setdefault(key, (Fraction(0), _NOTHING))

    def says(self, atom: Atom) -> bool:
        """Return whether a case's bound equals the hull's, so that the box expresses it."""
        bound = bound_of(atom)
        if bound is None or atom.strict or bound[:2] not in self.hull or not is_exact(bound[2]):
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
