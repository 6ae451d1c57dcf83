"""The membership advantage in trials of an unlearner against retraining."""

from __future__ import annotations

from leaveout.errors import AuditError
from leaveout.specs.deciders import Arguments, Bounds, Evidence, Facts
from leaveout.verifier.audits.membership import (
    UNITS,
    Advantage,
    Audit,
    Events,
    Ranked,
    Views,
    read_audit,
)
from leaveout.verifier.audits.membership import advantage as estimate

_OUTWARDS = 1e-9  # quantiles of the beta distribution are computed to about 1e-12


def audit(given: Arguments) -> Audit:
    """Read what an attacker sees of both arms."""
    return read_audit(given.path("path"))


def membership_advantage(given: Arguments) -> Bounds:
    """Return an attacker's advantage in telling who was deleted, beyond retraining."""
    held = given["audit"]
    if not isinstance(held, Views | Events):
        raise TypeError(f"'audit' is a {type(held).__name__}, not an audit")
    if given.confidence is None:
        raise AuditError(
            "a number estimated from trials is never certain; add the confidence it must hold "
            "with, e.g. 'membership_advantage(A) <= 0.1 with confidence 0.95'"
        )
    word = given.get("unit", UNITS[0])
    unit = next((unit for unit in UNITS if unit == word), None)
    if unit is None:
        raise TypeError(f"'unit' is {word!r}, expected one of {', '.join(UNITS)}")
    found = estimate(held, given.confidence, unit)
    given.tell({"lower": found.lower, "upper": found.upper, **_facts(found)})
    return Bounds(
        max(0.0, found.lower - _OUTWARDS),
        min(1.0, found.upper + _OUTWARDS),
        reason=f"numerical: {_few(found)}",
        note=_note(found, given.confidence),
        evidence=lambda: Evidence(found.attack, _facts(found)),
    )


def _few(found: Advantage) -> str:
    if not found.estimating:
        return found.attack
    more = "more trials narrow the interval"
    return f"an estimate from {found.estimating:,} independent trials; {more}"


def _note(found: Advantage, confidence: float) -> str:
    if not found.estimating:
        return found.attack
    level = f"{confidence:.10g}"
    unit = {
        "trials": "the attacker sees all forgotten rows of a model together",
        "records": "the attacker sees one forgotten row, drawn at random",
        "events": "each event counted is one trial with its own models",
    }[found.unit]
    spent = found.trials - found.estimating
    chose = f"; {spent:,} others selected and trained the attacks" if spent else ""
    lines = [
        f"membership advantage against retraining in [{found.lower:.4f}, {found.upper:.4f}] with "
        f"confidence {level}, over all attacks of the audit and all thresholds",
        f"unit {found.unit}: {unit}; {found.estimating:,} independent trials count{chose}",
        f"best attack: {found.attack}",
    ]
    if found.implied is not None and found.implied.beta > 0:
        shown = found.implied
        lines.append(
            f"implied with confidence {shown.confidence:.10g}: alpha above {shown.alpha:.4f} where "
            f"beta is 0, beta above {shown.beta:.4f} where alpha is 0 ({shown.counted})"
        )
    if found.ranked is not None and found.lower > 0:
        lines.append(_due(found.ranked))
    return "\n".join(lines)


def _due(ranked: Ranked) -> str:
    level = f"with confidence {ranked.confidence:.10g} ({ranked.counted})"
    if ranked.lower > 0:
        return (
            f"at least {ranked.lower:.4f} of this is due to who was deleted, not to the whole "
            f"model being different, {level}"
        )
    return (
        "none of this is shown to be due to who was deleted rather than to the whole model "
        f"being different, {level}"
    )


def _facts(found: Advantage) -> Facts:
    facts: dict[str, int | float | str | tuple[int, ...]] = {
        "unit": found.unit,
        "trials": found.trials,
        "estimating": found.estimating,
        "attack": found.attack,
    }
    if found.implied is not None:
        counted = found.implied.counted
        facts |= {
            "event": counted.event,
            "unlearned": (counted.unlearned, counted.unlearned_trials),
            "retrained": (counted.retrained, counted.retrained_trials),
            "alpha_above": found.implied.alpha,
            "beta_above": found.implied.beta,
        }
    return facts
