"""Functions of audits: the file, and the attackers' membership advantage."""

from __future__ import annotations

from fractions import Fraction

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.estimates.file import Audit, Counts, Seen, read_trials
from leaveout.verifier.checker.estimates.intervals import of_events
from leaveout.verifier.checker.estimates.records import of_records
from leaveout.verifier.checker.estimates.trials import of_trials
from leaveout.verifier.checker.expressions.given import Given
from leaveout.verifier.checker.expressions.ranges import Range
from leaveout.verifier.checker.rationals import down, up

_LEAST_TRIALS = 4
_BITS = 64


def audit(given: Given) -> Audit:
    """Read what an attacker sees of both arms, or counts of events."""
    return read_trials(given.file().path)


def membership_advantage(given: Given) -> Range:
    """Recompute the bounds of the advantage from the file of trials."""
    held = given.values.get("audit")
    unit = given.word("unit", "trials", "records") or "trials"
    if given.confidence is None:
        raise RejectedError("a number estimated from trials is never certain")
    error = 1 - given.confidence
    if not 0 < error < 1:
        raise RejectedError(f"{given.confidence} is no confidence")
    if isinstance(held, Counts):
        if unit == "records":
            raise RejectedError("counts of events have no records")
        given.tell(
            "rests on: events, fixed before the trials, were counted in independent trials, each "
            "with models of its own; the counts are the file's"
        )
        return _outwards(*of_events(held, error))
    if not isinstance(held, Seen):
        raise RejectedError("'audit' is no audit")
    if held.trials < _LEAST_TRIALS:
        given.tell(f"{held.trials} trials tell nothing")
        return Range(Fraction(0), Fraction(1))
    lower, upper, words = (of_trials if unit == "trials" else of_records)(held, error)
    given.tell(
        f"computed anew: attacks chosen and trained on {int((~held.estimates).sum()):,} trials; "
        f"{int(held.estimates.sum()):,} others count; best on those that chose: {words}"
    )
    given.tell(
        "rests on: the trials of the file are independent, each with models of its own, and their "
        "numbers were given before they were run"
    )
    return _outwards(lower, upper)


def _outwards(lower: Fraction, upper: Fraction) -> Range:
    """Return the range with ends that are short."""
    return Range(max(Fraction(0), down(lower, _BITS)), min(Fraction(1), up(upper, _BITS)))
