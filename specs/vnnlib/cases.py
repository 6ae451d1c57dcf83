"""Conversion of a formula to cases: what always holds, and the alternatives."""

from __future__ import annotations

from itertools import chain

from leaveout.specs.text.errors import Slip
from leaveout.specs.text.source import Position
from leaveout.specs.vnnlib.formula import All, Atom, Formula

MOST_CASES = 10_000
_MOST_MULTIPLIED = 256
"""Cases that several disjunctions are multiplied out to; more are met one by one."""

_MOST_LEFT = 1_000

LARGEST = 5_000_000
"""Conditions of all cases together."""


def conjuncts(formula: Formula) -> tuple[list[Atom], list[Formula]]:
    """Separate what holds in every case."""
    atoms: list[Atom] = []
    rest: list[Formula] = []
    stack = [formula]
    while stack:
        each = stack.pop()
        if isinstance(each, Atom):
            atoms.append(each)
        elif isinstance(each, All):
            stack.extend(reversed(each.parts))
        else:
            rest.append(each)
    return atoms, rest


def _count(formula: Formula) -> tuple[int, int]:
    """Return the number of cases, and their total number of inequalities."""
    if isinstance(formula, Atom):
        return 1, 1
    counts = [_count(part) for part in formula.parts]
    if not isinstance(formula, All):
        return sum(cases for cases, _ in counts), sum(size for _, size in counts)
    cases, size = 1, 0
    for more, its_size in counts:
        cases, size = cases * more, size * more + cases * its_size
        if cases > MOST_CASES or size > LARGEST:
            return MOST_CASES + 1, LARGEST + 1
    return cases, size


def _expand(formula: Formula) -> list[tuple[Atom, ...]]:
    """Return the cases of a formula."""
    if isinstance(formula, Atom):
        return [(formula,)]
    parts = [_expand(part) for part in formula.parts]
    if not isinstance(formula, All):
        return list(chain.from_iterable(parts))
    found: list[list[Atom]] = [[]]
    for part in parts:
        if len(part) == 1:
            for left in found:
                left.extend(part[0])
        else:
            found = [[*left, *right] for left in found for right in part]
    return [tuple(each) for each in found]


def alternatives(rest: list[Formula], at: Position) -> list[tuple[Atom, ...]]:
    """Write disjunctions as cases."""
    whole = All(tuple(rest))
    cases, size = _count(whole)
    if cases > MOST_CASES:
        raise Slip(at, f"the query comes apart into more than {MOST_CASES:,} cases")
    if size > LARGEST:
        raise Slip(at, f"the cases of the query have more than {LARGEST:,} conditions together")
    return _expand(whole)


def split_disjunctions(rest: list[Formula], at: Position) -> tuple[list[Formula], list[Formula]]:
    """Split disjunctions into those to multiply out and those to keep.

    The largest is multiplied out, so that its bounds on inputs are known in all cases.
    """
    if _count(All(tuple(rest)))[0] <= _MOST_MULTIPLIED:
        return rest, []
    kept: list[Formula] = []
    left: list[Formula] = []
    cases = 1
    for each in sorted(rest, key=lambda formula: -_count(formula)[0]):
        count = _count(each)[0]
        if kept and cases * count > _MOST_MULTIPLIED:
            left.append(each)
        else:
            kept.append(each)
            cases *= count
    if len(left) > _MOST_LEFT:
        wrong = f"the query has more than {_MOST_LEFT:,} disjunctions that hold together"
        raise Slip(at, wrong)
    return kept, left
