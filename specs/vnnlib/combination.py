"""Bounds of inputs that follow from several relations together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

from leaveout.specs.vnnlib.formula import Atom, Place
from leaveout.specs.vnnlib.propagation import Found, Key

__all__ = ["MOST_RELATIONS", "combined_bound"]

MOST_RELATIONS = 400
"""That are combined."""
_DENOMINATOR = 10**6
_LARGEST = 1e30
"""Coefficient of a linear programme."""


def combined_bound(found: Found, relations: Sequence[Atom], key: Key) -> Fraction | None:
    """Bound an input by a sum of multiples of relations.

    A linear programme proposes the multiples; the sum is formed with exact numbers, so that what is
    returned holds whatever was proposed (weak duality).

    Parameters
    ----------
    found : mapping
        Bounds that hold wherever the relations do.
    relations : sequence of Atom
        As `leaveout.specs.vnnlib.propagation.is_relation` tells.
    key : (Place, bool)
        What to bound, and whether from above.

    Returns
    -------
    Fraction or None
        None where none was found.
    """
    multiples = _proposed(found, relations, key)
    if multiples is None:
        return None
    spot, upper = key
    # The sum of the multiples, plus or less the input, is a form that is not below it.
    terms: dict[Place, Fraction] = {spot: Fraction(1 if upper else -1)}
    constant = Fraction(0)
    for factor, atom in zip(multiples, relations, strict=True):
        if factor:
            constant += factor * atom.linear.constant
            for place, coefficient in atom.linear.terms.items():
                terms[place] = terms.get(place, Fraction(0)) + factor * coefficient
    most = _most(terms, found)
    if most is None:
        return None
    return constant + most if upper else -constant - most


def _most(terms: Mapping[Place, Fraction], found: Found) -> Fraction | None:
    """Return the most that a form is within bounds, None where nothing bounds it."""
    total = Fraction(0)
    for place, coefficient in terms.items():
        if coefficient:
            known = found.get((place, coefficient > 0))
            if known is None:
                return None
            total += coefficient * known[0]
    return total


def _proposed(found: Found, relations: Sequence[Atom], key: Key) -> list[Fraction] | None:
    spots = list(dict.fromkeys(spot for atom in relations for spot in atom.linear.terms))
    if key[0] not in spots or len(relations) > MOST_RELATIONS:
        return None
    column = {spot: i for i, spot in enumerate(spots)}
    matrix, right = np.zeros((len(relations), len(spots))), np.zeros(len(relations))
    try:
        for row, atom in enumerate(relations):
            right[row] = float(atom.linear.constant)
            for spot, coefficient in atom.linear.terms.items():
                matrix[row, column[spot]] = -float(coefficient)
        ends = [(_end(found, (spot, False)), _end(found, (spot, True))) for spot in spots]
    except OverflowError:
        return None
    if max(np.abs(matrix).max(), np.abs(right).max()) > _LARGEST:
        return None
    sought = np.zeros(len(spots))
    sought[column[key[0]]] = -1.0 if key[1] else 1.0
    result = linprog(sought, A_ub=matrix, b_ub=right, bounds=ends, options={"time_limit": 10.0})
    if result.status != 0:
        return None
    return [
        Fraction(max(0.0, -float(value))).limit_denominator(_DENOMINATOR)
        for value in result.ineqlin.marginals
    ]


def _end(found: Found, key: Key) -> float | None:
    known = found.get(key)
    return None if known is None else float(known[0])
