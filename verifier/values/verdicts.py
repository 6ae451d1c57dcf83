"""Three-valued logic of claims: unknown persists unless it does not matter."""

from __future__ import annotations

from leaveout.specs.deciders import Decided

PROVED = Decided("proved")


class StoppedError(Exception):
    """Nothing can be said, for a reason that is not an error, such as time."""


def with_reason(reason: str, default: str = "the bounds do not tell") -> str:
    """Return a reason with the prefix of a known kind."""
    if reason.startswith(("time", "solver", "numerical")):
        return reason
    return f"numerical: {reason or default}"


def both(left: Decided, right: Decided) -> Decided:
    """Return the verdict of a conjunction."""
    for verdict in ("refuted", "unknown"):
        for each in (left, right):
            if each.verdict == verdict:
                return each
    return PROVED


def either(left: Decided, right: Decided) -> Decided:
    """Return the verdict of a disjunction."""
    for verdict in ("proved", "unknown"):
        for each in (left, right):
            if each.verdict == verdict:
                return each
    words = "; ".join(dict.fromkeys(each.witness for each in (left, right) if each.witness))
    facts = left.facts or right.facts
    return Decided("refuted", witness=words, facts=facts)


def negate(claim: Decided, text: str) -> Decided:
    """Return the verdict of a negation; ``text`` is the claim."""
    if claim.verdict == "unknown":
        return claim
    return PROVED if claim.verdict == "refuted" else Decided("refuted", witness=f"{text} holds")
