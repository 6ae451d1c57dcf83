"""Whether event counts of trials made elsewhere refute unlearning."""

from __future__ import annotations

import math

from leaveout.errors import AuditError
from leaveout.specs.deciders import Arguments, Decided
from leaveout.verifier.audits.adaptive import Audit
from leaveout.verifier.audits.membership import Events

_OUTWARDS = 1e-6
"""Of alpha, so that a checker who rounds otherwise finds the same."""


def decide_counts(given: Arguments) -> Decided:
    """Compare event counts of both arms with (alpha, beta, gamma)-unlearning."""
    events = given["service"]
    if not isinstance(events, Events):
        raise AuditError(
            "the audit records what models answer, row by row; unlearns takes counts of events in "
            "trials, as leaveout audit --counts reads them, or a sharded service"
        )
    if given.confidence is None:
        raise AuditError(
            "what is counted in trials is never certain; say how surely it must hold, as in "
            "'unlearns(A, ...) with confidence 0.95'"
        )
    alpha, beta, gamma = (given.number(name) for name in ("alpha", "beta", "gamma"))
    if given["updates"] == "oblivious":
        return Decided(
            "unknown",
            reason="numerical: counts do not say that updates depended on no answer; ask of "
            "updates = adaptive",
        )
    if beta >= 1 or gamma >= 1:
        return Decided("unknown", reason="numerical: no counts refute a beta or gamma of 1")
    found = Audit.of_events(events)
    shown = found.alpha_lower_bounds(beta, gamma, given.confidence)
    place = max(range(len(shown)), key=shown.__getitem__)
    one, lower = found.counts[place], shown[place]
    if lower <= alpha + _OUTWARDS:
        said = f"alpha of at least {_down(lower)}" if lower > 0 else "no lower bound of alpha"
        return Decided(
            "unknown",
            reason=f"numerical: the counts of {len(shown):,} events show {said}, which does not "
            f"refute alpha = {alpha:g}; counts never prove a claim",
        )
    level = f"{given.confidence:.10g}"
    witness = (
        f"{one.event}: in {one.unlearned:,} of {one.unlearned_trials:,} trials after unlearning, "
        f"in {one.retrained:,} of {one.retrained_trials:,} after retraining; so alpha is above "
        f"{_down(lower)} with beta = {beta:g}, gamma = {gamma:g} and confidence {level}, over all "
        f"{len(shown):,} events"
    )
    facts: dict[str, int | float | str | tuple[int, ...]] = {
        "alpha": alpha,
        "beta": beta,
        "gamma": gamma,
        "alpha_lower": math.nextafter(lower, -math.inf),
        "confidence": given.confidence,
        "event": one.event,
        "unlearned": (one.unlearned, one.unlearned_trials),
        "retrained": (one.retrained, one.retrained_trials),
        "events": len(shown),
    }
    note = (
        "rests on: events, fixed before the trials, were counted in independent trials of the "
        "service, each with seeds of its own and updates that the claim covers"
    )
    return Decided("refuted", witness=witness, note=note, facts=facts)


def _down(alpha: float) -> str:
    """Return a number as text with four decimals, rounded down."""
    return f"{math.floor(10_000 * alpha) / 10_000:g}"
