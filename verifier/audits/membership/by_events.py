"""The advantage shown by counted events."""

from __future__ import annotations

from leaveout.verifier.audits.intervals import clopper_pearson
from leaveout.verifier.audits.membership.events import Events
from leaveout.verifier.audits.membership.result import Advantage, Counted, implied


def advantage_of_events(events: Events, confidence: float) -> Advantage:
    """Estimate the largest difference of an event's probabilities in the two arms.

    Clopper-Pearson bounds, with the error shared by both sides of both arms of all events
    (Bonferroni).
    """
    each = 1 - (1 - confidence) / (2 * len(events.names))
    lower, upper, best = 0.0, 0.0, _event_counts(events, 0)
    for index in range(len(events.names)):
        counted = _event_counts(events, index)
        low, high = clopper_pearson(counted.unlearned, counted.unlearned_trials, each)
        least, most = clopper_pearson(counted.retrained, counted.retrained_trials, each)
        upper = max(upper, high - least, most - low)
        shown = max(low - most, least - high)
        if shown > lower:
            lower, best = shown, counted
    if best.unlearned * best.retrained_trials < best.retrained * best.unlearned_trials:
        best = best.opposite()
    # The event and its direction were chosen from the same counts: one of 2 k.
    shared = 1 - (1 - confidence) / (2 * len(events.names))
    trials = min(int(events.unlearned_trials.min()), int(events.retrained_trials.min()))
    found = implied(best, shared)
    return Advantage(lower, upper, "events", trials, trials, str(best), found)


def _event_counts(events: Events, index: int) -> Counted:
    """Return the counts of one event."""
    return Counted(
        events.names[index],
        "after",
        int(events.unlearned_hits[index]),
        int(events.retrained_hits[index]),
        int(events.unlearned_trials[index]),
        int(events.retrained_trials[index]),
    )
