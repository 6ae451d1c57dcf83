"""Consequences of several relations of inputs together: bounds and contradictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

from leaveout.specs.vnnlib.formula import Atom, Place
from leaveout.specs.vnnlib.propagation import Found, Key

_MOST_RELATIONS = 400
"""That are combined."""
_DENOMINATOR = 10**6
_SECONDS = 2.0
_LARGEST_MULTIPLIER = 1e30
"""Coefficient of a linear programme."""


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
    # The sum of the multiples, plus or less the input, is a form that is not below it.
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
