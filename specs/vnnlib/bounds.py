"""The box of a query: its bounds of single inputs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from typing import TypeAlias

import numpy as np

from leaveout.encoders.box import Box
from leaveout.specs.text.errors import Position, Slip
from leaveout.specs.vnnlib.formula import Atom, Linear, Place
from leaveout.specs.vnnlib.rounding import above, below, finite_above, finite_below, is_exact

Key: TypeAlias = tuple[Place, bool]
"""An input, and whether the bound is an upper one."""
Found: TypeAlias = MutableMapping[Key, tuple[Fraction, Atom]]
"""The tightest known bounds, and the inequality behind each."""

MOST_STEPS = 300_000  # most terms visited before propagation stops
_MOST_UPDATES = 8
"""Updates of one bound: relations such as ``x <= y / 2`` and ``y <= x`` tighten without end."""
_MOST_BITS = 256  # most bits of a bound that is kept exactly


def is_relation(atom: Atom) -> bool:
    """Return whether an inequality relates several inputs, rather than bounding one."""
    terms = atom.linear.terms
    return (atom.strict or len(terms) > 1) and not any(spot.output for spot in terms)


def propagate(found: Found, relations: Sequence[Atom], steps: int = MOST_STEPS) -> bool:
    """Tighten bounds by interval arithmetic on each relation, until little changes.

    Activity bounds: Savelsbergh, ORSA Journal on Computing 6, 1994, section 1.1.
    """
    touching: dict[Place, list[int]] = {}
    for i, atom in enumerate(relations):
        for spot in atom.linear.terms:
            touching.setdefault(spot, []).append(i)
    waiting, queued = deque(range(len(relations))), set(range(len(relations)))
    updates: Counter[Key] = Counter()
    while waiting:
        i = waiting.popleft()
        queued.discard(i)
        atom = relations[i]
        steps -= len(atom.linear.terms)
        if steps < 0:
            break
        changed = _tighten(found, atom, updates)
        if changed is None:
            return False
        for spot in changed:
            for j in touching[spot]:
                if j not in queued:
                    queued.add(j)
                    waiting.append(j)
    return True


def _tighten(found: Found, atom: Atom, updates: Counter[Key]) -> list[Place] | None:
    """Apply one relation; return the inputs with new bounds, None if contradictory."""
    most, open_terms = atom.linear.constant, []
    parts: dict[Place, Fraction] = {}
    for spot, coefficient in atom.linear.terms.items():
        known = found.get((spot, coefficient > 0))
        if known is None:
            open_terms.append(spot)
        else:
            parts[spot] = coefficient * known[0]
            most += parts[spot]
    if len(open_terms) > 1:
        return []
    if not open_terms and (most <= 0 if atom.strict else most < 0):
        return None
    changed = []
    for spot in open_terms or parts:
        coefficient = atom.linear.terms[spot]
        upper = coefficient < 0
        limit = (parts.get(spot, Fraction(0)) - most) / coefficient
        value = _shorten_bound(limit, upper)
        known = found.get((spot, upper))
        if value is None or updates[spot, upper] >= _MOST_UPDATES:
            continue
        if known is not None and (value >= known[0] if upper else value <= known[0]):
            continue
        found[spot, upper] = value, atom
        updates[spot, upper] += 1
        other = found.get((spot, not upper))
        if other is not None and (value < other[0] if upper else value > other[0]):
            return None
        changed.append(spot)
    return changed


def _shorten_bound(value: Fraction, upper: bool) -> Fraction | None:
    """Return a bound, rounded outwards to float64 if long; None beyond the finite range."""
    if value.numerator.bit_length() + value.denominator.bit_length() <= _MOST_BITS:
        return value
    return finite_above(value) if upper else finite_below(value)


_MOST_RELATIONS = 400  # most relations that are combined
_DENOMINATOR = 10**6
_SECONDS = 2.0
_LARGEST_MULTIPLIER = 1e30  # largest coefficient of a linear programme


def combined_bound(found: Found, relations: Sequence[Atom], key: Key) -> Fraction | None:
    """Bound an input by a sum of multiples of relations.

    A linear programme proposes the multiples; the exact sum is valid whatever was proposed (weak
    duality).
    """
    spot, upper = key
    sought = Fraction(1 if upper else -1)
    multiples = _propose_multipliers(found, relations, {spot: -float(sought)})
    if multiples is None:
        return None
    # Whatever its multiples, the sum plus or minus the input is never below the input's form.
    most = _most_of_sum(multiples, relations, {spot: sought}, found)
    return None if most is None else sought * most


def contradictory(found: Found, relations: Sequence[Atom]) -> bool:
    """Return whether a sum of multiples of relations can never hold.

    By Farkas' lemma; the linear programme maximises the least satisfied relation.
    """
    multiples = _propose_multipliers(found, relations, {})
    if multiples is None:
        return False
    most = _most_of_sum(multiples, relations, {}, found)
    strict = any(factor and atom.strict for factor, atom in zip(multiples, relations, strict=True))
    return most is not None and (most <= 0 if strict else most < 0)


def _most_of_sum(
    multiples: Sequence[Fraction],
    relations: Sequence[Atom],
    start: Mapping[Place, Fraction],
    found: Found,
) -> Fraction | None:
    """Return the maximum of a form plus multiples of relations; None if unbounded."""
    terms, constant = dict(start), Fraction(0)
    for factor, atom in zip(multiples, relations, strict=True):
        if factor:
            constant += factor * atom.linear.constant
            for place, coefficient in atom.linear.terms.items():
                terms[place] = terms.get(place, Fraction(0)) + factor * coefficient
    most = _most(terms, found)
    return None if most is None else constant + most


def _most(terms: Mapping[Place, Fraction], found: Found) -> Fraction | None:
    """Return the maximum of a form within bounds; None if unbounded."""
    total = Fraction(0)
    for place, coefficient in terms.items():
        if coefficient:
            known = found.get((place, coefficient > 0))
            if known is None:
                return None
            total += coefficient * known[0]
    return total


def _propose_multipliers(
    found: Found, relations: Sequence[Atom], costs: Mapping[Place, float]
) -> list[Fraction] | None:
    """Return multipliers of the relations that minimise costs.

    Without costs, they maximise the least satisfied relation.
    """
    from scipy.optimize import linprog

    spots = list(dict.fromkeys(spot for atom in relations for spot in atom.linear.terms))
    if not costs.keys() <= set(spots) or not 0 < len(relations) <= _MOST_RELATIONS:
        return None
    column = {spot: i for i, spot in enumerate(spots)}
    matrix, right = np.zeros((len(relations), len(spots) + 1)), np.zeros(len(relations))
    try:
        for row, atom in enumerate(relations):
            right[row] = float(atom.linear.constant)
            for spot, coefficient in atom.linear.terms.items():
                matrix[row, column[spot]] = -float(coefficient)
        ends = [(_end(found, (spot, False)), _end(found, (spot, True))) for spot in spots]
    except OverflowError:
        return None
    if max(np.abs(matrix).max(), np.abs(right).max()) > _LARGEST_MULTIPLIER:
        return None
    sought = np.zeros(len(spots) + 1)
    for spot, cost in costs.items():
        sought[column[spot]] = cost
    if not costs:
        matrix[:, -1], sought[-1] = 1.0, -1.0
    slack = (None, 1.0) if not costs else (0.0, 0.0)
    result = linprog(
        sought, A_ub=matrix, b_ub=right, bounds=[*ends, slack], options={"time_limit": _SECONDS}
    )
    if result.status != 0:
        return None
    return [
        Fraction(max(0.0, -float(value))).limit_denominator(_DENOMINATOR)
        for value in result.ineqlin.marginals
    ]


def _end(found: Found, key: Key) -> float | None:
    known = found.get(key)
    return None if known is None else float(known[0])


_LARGEST = Fraction(float(np.finfo(np.float32).max))
_MOST_SOUGHT = 200  # most bounds for which a linear programme is solved
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
        """Apply an inequality that always holds; return whether the box expresses it exactly."""
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
        """Apply relations between inputs, and derive missing bounds from their sums."""
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
                # If one input stays unbounded, bounds of the others do not help.
                break
            self.found[key] = value, relations[0]
            added = True
        return not added or propagate(self.found, relations, steps)

    def widen(
        self, cases: Sequence[Sequence[Atom]], relations: Sequence[Atom], missing: set[Key]
    ) -> list[bool]:
        """Bound unbounded inputs by the hull of all cases; return which are satisfiable."""
        hull: Found = {}
        possible = []
        # With many cases, relations within each are propagated for less time, or not at all.
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
        """Return whether a case's bound equals the hull's, so that the box already expresses it."""
        bound = bound_of(atom)
        if bound is None or atom.strict or bound[:2] not in self.hull or not is_exact(bound[2]):
            return False
        return self.found[bound[:2]][0] == bound[2]

    def largest(self, spot: Place) -> Fraction:
        """Return the largest magnitude of an input."""
        return max(abs(self.found[spot, upper][0]) for upper in (False, True))

    def box(self, spots: Sequence[Place]) -> tuple[Box, bool]:
        """Return the box of inputs in this order, and whether it is empty.

        An empty box has swapped bounds. Bounds that float64 cannot represent are rounded outwards.
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
