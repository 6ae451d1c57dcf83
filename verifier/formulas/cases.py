"""Claims as cases: each a conjunction of linear conditions, together all ways to be true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from leaveout.verifier.formulas.pieces import MOST, Lin, Pieces, TooManyError, added, scaled

__all__ = ["ALWAYS", "NEVER", "OPPOSITE", "Case", "Cases", "Test", "all_of", "any_of", "compare"]


@dataclass(frozen=True)
class Test:
    """``lin >= 0``, or ``lin > 0`` where strict."""

    lin: Lin
    strict: bool


Case = tuple[Test, ...]
Cases = tuple[Case, ...]
"""No case: never true. A case without tests: always."""

NEVER: Cases = ()
ALWAYS: Cases = ((),)


def any_of(parts: Iterable[Cases]) -> Cases:
    """Return the cases in which one part is true."""
    found: list[Case] = []
    for part in parts:
        found += [case for case in part if case not in found]
        if len(found) > MOST:
            raise TooManyError(f"more than {MOST:,} cases")
        if () in found:
            return ALWAYS
    return tuple(found)


def all_of(parts: Iterable[Cases]) -> Cases:
    """Return the cases in which all parts are true."""
    found: list[Case] = [()]
    for part in parts:
        joined: list[Case] = []
        for case in found:
            for other in part:
                both = (*case, *(test for test in other if test not in case))
                if not _contradicts(both):
                    joined.append(both)
        if len(joined) > MOST:
            raise TooManyError(f"more than {MOST:,} cases")
        found = joined
    return tuple(_once(found))


def _once(cases: list[Case]) -> list[Case]:
    kept: list[Case] = []
    for case in cases:
        if case not in kept:
            kept.append(case)
    return kept


def _contradicts(case: Case) -> bool:
    """Whether two tests say that one form is above and not above one number."""
    for i, test in enumerate(case):
        if test.lin.is_constant and not _holds(test):
            return True
        for other in case[:i]:
            total = test.lin.plus(other.lin)
            if total.is_constant and not _holds(Test(total, test.strict or other.strict)):
                return True
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
    difference = added(left, scaled(right, -1.0))
    parts: list[Cases] = []
    for row in difference:
        tests = [Test(lin, strict) for lin in row]
        if any(test.lin.is_constant and not _holds(test) for test in tests):
            continue
        parts.append((tuple(test for test in tests if not test.lin.is_constant),))
    return any_of(parts)


OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""What is true where a comparison is not."""
