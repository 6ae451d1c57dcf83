"""Bounds implied by relations of several inputs, exact or rounded outwards."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import MutableMapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from leaveout.specs.vnnlib.formula import Atom, Place
from leaveout.specs.vnnlib.rounding import finite_above, finite_below

Key: TypeAlias = tuple[Place, bool]
"""An input, and whether it is bounded from above."""
Found: TypeAlias = MutableMapping[Key, tuple[Fraction, Atom]]
"""The tightest bounds known, and the inequality each is from."""

MOST_STEPS = 300_000
"""Terms looked at before it is left at what is known."""
_MOST_UPDATES = 8
"""Of one bound: relations such as ``x <= y / 2`` and ``y <= x`` tighten without end."""
_MOST_BITS = 256
"""Of a bound that is kept exactly."""


def is_relation(atom: Atom) -> bool:
    """Return whether an inequality relates inputs only, beyond the bound of one."""
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
