"""Claims in disjunctive form: cases of linear conditions that must hold together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from leaveout.verifier.points.pieces import (
    MOST,
    Lin,
    Pieces,
    TooManyError,
    Varying,
    add_pieces,
    scale_pieces,
)


@dataclass(frozen=True)
class Test:
    """``lin >= 0``, or ``lin > 0`` where strict."""

    lin: Lin
    strict: bool


Case = tuple[Test, ...]
Cases = tuple[Case, ...]
"""No case: never true. A case without tests: always."""

Comparison = tuple[Pieces, str, Pieces]
"""Two numbers and the operator between them."""

_MOST_JOINED = 64 * MOST
"""Most pairs of cases that are looked at where two claims are both to be true."""

NEVER: Cases = ()
ALWAYS: Cases = ((),)


def any_of(parts: Iterable[Cases]) -> Cases:
    """Return the cases in which at least one part is true."""
    found: dict[Case, None] = {}
    for part in parts:
        found.update(dict.fromkeys(part))
        if () in found:
            return ALWAYS
        if len(found) > MOST:
            raise TooManyError(f"more than {MOST:,} cases")
    return tuple(found)


def all_of(parts: Iterable[Cases]) -> Cases:
    """Return the cases in which all parts are true."""
    found: Cases = ALWAYS
    for part in parts:
        if len(found) * len(part) > _MOST_JOINED:
            raise TooManyError(f"more than {MOST:,} cases")
        joined: dict[Case, None] = {}
        for case in found:
            seen = set(case)
            for other in part:
                both = (*case, *(test for test in other if test not in seen))
                if not _contradicts(both):
                    joined[both] = None
            if len(joined) > MOST:
                raise TooManyError(f"more than {MOST:,} cases")
        found = tuple(joined)
    return found


def _contradicts(case: Case) -> bool:
    """Return whether two tests put a form both above and not above a number."""
    known: dict[Varying, list[Test]] = {}
    for test in case:
        if test.lin.is_constant and not _holds(test):
            return True
        for other in known.get(test.lin.opposite, ()):
            total = Lin(constant=test.lin.constant + other.lin.constant)
            if not _holds(Test(total, test.strict or other.strict)):
                return True
        known.setdefault(test.lin.variable_part, []).append(test)
    return False


def _holds(test: Test) -> bool:
    return test.lin.constant > 0 if test.strict else test.lin.constant >= 0


def compare(left: Pieces, operator: str, right: Pieces) -> Cases:
    """Return the cases in which a comparison of two numbers is true."""
    if operator == "==":
        return all_of([compare(left, ">=", right), compare(left, "<=", right)])
    if operator == "!=":
        return any_of([compare(left, ">", right), compare(left, "<", right)])
    if operator in {"<", "<="}:
        left, right = right, left
    strict = operator in {"<", ">"}
    difference = add_pieces(left, scale_pieces(right, Fraction(-1)))
    parts: list[Cases] = []
    for row in difference:
        tests = [Test(lin, strict) for lin in row]
        if any(test.lin.is_constant and not _holds(test) for test in tests):
            continue
        parts.append((tuple(test for test in tests if not test.lin.is_constant),))
    return any_of(parts)


OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""What is true where a comparison is not."""
