"""Whether a service of models on shards unlearns what it is asked to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import AuditError
from leaveout.kernel.services import ROUTES
from leaveout.models.sharded.accounting import (
    best_route,
    guarantee,
    safe_predictions,
    service_of,
)
from leaveout.models.sharded.planning import retrained_at_most
from leaveout.models.sharded.settings import ServiceSettings, read_settings
from leaveout.specs.deciders import Arguments, Decided
from leaveout.verifier.audits.adaptive import Audit, Duplicated, audit
from leaveout.verifier.audits.membership import Events

_OUTWARDS = 1e-6  # of alpha, so that a checker who rounds otherwise finds the same


def decide_counts(given: Arguments) -> Decided:
    """Compare event counts of both arms with (alpha, beta, gamma)-unlearning."""
    events = given["service"]
    if not isinstance(events, Events):
        raise AuditError(
            "the audit records the models' answers row by row; unlearns needs counts of events "
            "in trials, as leaveout audit --counts reads them, or a sharded service"
        )
    if given.confidence is None:
        raise AuditError(
            "a result counted in trials is never certain; add the confidence it must hold with, "
            "e.g. 'unlearns(A, ...) with confidence 0.95'"
        )
    alpha, beta, gamma = (given.number(name) for name in ("alpha", "beta", "gamma"))
    if given["updates"] == "oblivious":
        return Decided(
            "unknown",
            reason="numerical: counts do not show that updates depended on no answer; use "
            "updates = adaptive",
        )
    if beta >= 1 or gamma >= 1:
        return Decided("unknown", reason="numerical: counts cannot refute a beta or gamma of 1")
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
        f"in {one.retrained:,} of {one.retrained_trials:,} after retraining; hence alpha is "
        f"above {_down(lower)} with beta = {beta:g}, gamma = {gamma:g} and confidence {level}, "
        f"over all {len(shown):,} events"
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
        "service, each with its own seeds and with updates that the claim covers"
    )
    return Decided("refuted", witness=witness, note=note, facts=facts)


def _down(alpha: float) -> str:
    """Return a number as text with four decimals, rounded down."""
    return f"{math.floor(10_000 * alpha) / 10_000:g}"


def proof_of_accounting(
    settings: ServiceSettings, beta: float, gamma: float
) -> dict[str, NDArray[Any]]:
    """Return the route to a guarantee with its chosen numbers."""
    shown = best_route(service_of(settings), beta, gamma)
    return {
        "route": np.array([ROUTES.index(shown.route)]),
        **{key: np.array([value]) for key, value in shown.chosen.items()},
    }


def proof_of_attack(attack: Duplicated) -> dict[str, NDArray[Any]]:
    """Return the points and copies that refute a claim."""
    return {"points": np.array([attack.points]), "copies": np.array([attack.copies])}


_CONFIDENCE = 0.999
_RISK = 1e-6
_LEAST_TRIALS, _MOST_TRIALS = 400, 100_000
_LONGEST_SCRIPT = 1000  # ids of a deletion script that are listed in full

_SHARDS = (
    "rests on: each shard's points and training are drawn from its own seed, independently; a "
    "model is a function of its shard's points, in the order of their ids, and that seed"
)
_SECRET = (
    "rests on: seeds, models, which shards an update retrains, and how long it takes stay secret; "
    "nothing but the answers is published"
)
_KEYED = (
    "rests on: a keyed hash stands in for independent seeds, and the key is the system's randomness"
)


def sharded(given: Arguments) -> ServiceSettings:
    """Read the settings of a service."""
    return read_settings(given.path("path"))


def unlearns(given: Arguments) -> Decided:
    """Decide (alpha, beta, gamma)-unlearning, Definition 2.3 of *Adaptive Machine Unlearning*."""
    settings = given["service"]
    if not isinstance(settings, ServiceSettings):
        return decide_counts(given)
    beta, gamma = given.number("beta"), given.number("gamma")
    if given["updates"] == "oblivious":
        note = "updates that depend on no answer are unlearned with alpha = beta = gamma = 0"
        shards = _retraining_note(settings, None)
        asked = {name: given.number(name) for name in ("alpha", "beta", "gamma")}
        given.tell(asked | {f"{name}_shown": 0.0 for name in asked})
        return Decided("proved", note=f"{note} (Lemma 5.1)\n{shards}\n{_SHARDS}\n{_KEYED}")
    if beta >= 1 or gamma >= 1:
        return Decided("proved", note="with beta or gamma of 1 the claim holds for any service")
    if not settings.private:
        return _decide_by_attack(given, settings)
    return _decide_by_accounting(given, settings, beta, gamma)


def _decide_by_accounting(
    given: Arguments, settings: ServiceSettings, beta: float, gamma: float
) -> Decided:
    """Compare the accounting of all predictions with a claim."""
    assert settings.predictions is not None
    alpha = given.number("alpha")
    declared = settings.predictions
    shown = guarantee(settings, declared, beta, gamma)
    safe = safe_predictions(settings, alpha, beta, gamma)
    rests = (
        f"rests on: at most {declared:,} answers between two full retrainings, each drawn "
        f"by {settings.mechanism} with epsilon = {settings.epsilon:g} and charged before it is "
        f"given out\n{_SHARDS}\n{_SECRET}\n{_KEYED}"
    )
    facts: dict[str, int | float | str | tuple[int, ...]] = {
        "alpha": alpha,
        "beta": beta,
        "gamma": gamma,
        "predictions": declared,
        "safe_predictions": safe,
        "alpha_shown": shown.alpha,
        "beta_shown": shown.beta,
        "gamma_shown": shown.gamma,
        "route": shown.route,
    }
    if shown.alpha <= alpha:
        given.prove(lambda: proof_of_accounting(settings, beta, gamma))
        note = (
            f"after {declared:,} predictions alpha is at most {_up(shown.alpha)} with beta = "
            f"{shown.beta:g} and gamma = {shown.gamma:g}; at most {safe:,} are safe"
        )
        shards = _retraining_note(settings, settings.rows)
        return Decided("proved", note=f"{note}\n{shards}\n{rests}", facts=facts)
    first = guarantee(settings, safe + 1, beta, gamma)
    reason = (
        f"numerical: prediction {safe + 1:,} of {declared:,} is the first not shown to keep "
        f"alpha = {alpha:g}: {_up(first.alpha)} is shown there, with beta = {beta:g} and gamma = "
        f"{gamma:g}; the largest number shown to be safe is {safe:,}"
    )
    note = "the accounting is an upper bound, so exceeding it refutes nothing"
    return Decided("unknown", reason=reason, note=f"{note}\n{rests}", facts=facts)


def _decide_by_attack(given: Arguments, settings: ServiceSettings) -> Decided:
    """Attack a majority vote, for which nothing can be proved."""
    alpha, beta, gamma = (given.number(name) for name in ("alpha", "beta", "gamma"))
    attack = Duplicated.against(settings.shards, settings.probability, settings.rows)
    nothing = "numerical: nothing bounds what a majority vote reveals about the seeds"
    if attack is None:
        return Decided("unknown", reason=f"{nothing}, and too little is random for an attack")
    confidence = _CONFIDENCE if given.confidence is None else given.confidence
    wanted = 3 * math.exp(min(alpha, 20)) * math.log(4 / (1 - confidence))
    trials = min(max(_LEAST_TRIALS, math.ceil(wanted)), _MOST_TRIALS)
    found = audit(attack, trials, given.seed, seconds=given.seconds)
    (lower,) = found.alpha_lower_bounds(beta, gamma, confidence)
    if lower > alpha:
        given.prove(lambda: proof_of_attack(attack))
        return _refutation(attack, found, lower, confidence, given)
    shown = f"at least {lower:.3g}" if lower > 0 else "no lower bound of alpha"
    (counts,) = found.counts
    return Decided(
        "unknown",
        reason=(
            f"{nothing}, and {counts.unlearned_trials:,} trials of the attack on points in several "
            f"copies show {shown}, which does not refute alpha = {alpha:g}"
        ),
    )


def _refutation(
    attack: Duplicated, found: Audit, lower: float, confidence: float, given: Arguments
) -> Decided:
    alpha, beta, gamma = (given.number(name) for name in ("alpha", "beta", "gamma"))
    seed = given.seed
    (counts,), (trial,) = found.counts, found.shown
    assert trial is not None  # the unlearned arm is ahead, so some trial shows it
    share = attack.thresholds[0]
    script = trial.deleted[:_LONGEST_SCRIPT]
    witness = (
        f"{attack.points} points, {attack.copies} copies each, looked up by {attack.shards:,} "
        f"shards: after deleting those answered correctly, fewer than {share:.3g} of the rest "
        f"are correct: in {counts.unlearned:,} of {counts.unlearned_trials:,} trials after "
        f"unlearning, in {counts.retrained:,} of {counts.retrained_trials:,} after retraining; "
        f"hence alpha is above {lower:.4g} with confidence {confidence:g} (Clopper-Pearson, both "
        f"arms). Seed {seed}, trial {trial.number}, deletes {len(trial.deleted):,} rows, first "
        f"{', '.join(map(str, script[:6]))}"
    )
    note = (
        "the attack is that of Theorem 3.1: the data and the models, which look points up, are "
        "the attacker's choice, since the claim covers all of them\ncopy j of point i is row i "
        "* copies + j; each trial draws both arms afresh"
    )
    facts: dict[str, int | float | str | tuple[int, ...]] = {
        "alpha": alpha,
        "beta": beta,
        "gamma": gamma,
        "alpha_lower": math.nextafter(lower, -math.inf),
        "confidence": confidence,
        "points": attack.points,
        "copies": attack.copies,
        "shards": attack.shards,
        "threshold": share,
        "unlearned": counts.unlearned,
        "retrained": counts.retrained,
        "trials": counts.unlearned_trials,
        "seed": seed,
        "trial": trial.number,
        "rows_deleted": len(trial.deleted),
        "deleted": script,
    }
    return Decided("refuted", witness=witness, note=note, facts=facts)


def _retraining_note(settings: ServiceSettings, points: int | None) -> str:
    """Return a note on how many shards an update retrains."""
    most = retrained_at_most(settings.shards, settings.probability, _RISK, points)
    whose = "" if points is None else f" of any of {points:,} points"
    return (
        f"an update{whose} retrains at most {most:,} of {settings.shards:,} shards, except with "
        f"probability {_RISK:g}"
    )


def _up(alpha: float) -> str:
    """Return a number as text with four decimals, rounded up."""
    if not 0 < alpha < math.inf:
        return f"{alpha:g}"
    unit = 10.0 ** (math.floor(math.log10(alpha)) - 3)
    return f"{math.ceil(alpha / unit) * unit:.4g}"
