"""Whether a service of models on shards unlearns what it is asked to."""

from __future__ import annotations

import math

from leaveout.models.sharded.accounting import guarantee, safe_predictions
from leaveout.models.sharded.runtime import retrained_at_most
from leaveout.models.sharded.settings import ServiceSettings, read_settings
from leaveout.specs.deciders import Arguments, Decided
from leaveout.verifier.audits.adaptive import Audit, Duplicated, audit
from leaveout.verifier.values.subjects.counted import decide_counts
from leaveout.verifier.values.subjects.sharded_proofs import proof_of_accounting, proof_of_attack

_CONFIDENCE = 0.999
_RISK = 1e-6
_LEAST_TRIALS, _MOST_TRIALS = 400, 100_000
_LONGEST_SCRIPT = 1000
"""Ids of a deletion script that are listed in full."""

_SHARDS = (
    "rests on: each shard's points and training are drawn from its own seed, independently; a "
    "model is a function of its shard's points, in the order of their ids, and that seed"
)
_SECRET = (
    "rests on: seeds, models, which shards an update retrains, and how long it takes stay secret; "
    "nothing but the answers is published"
)
_KEYED = "rests on: a keyed hash stands for independent seeds, and the key is the system's chance"


def read_service(given: Arguments) -> ServiceSettings:
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
        given.tell(
            _claim_numbers(given) | {"alpha_shown": 0.0, "beta_shown": 0.0, "gamma_shown": 0.0}
        )
        return Decided("proved", note=f"{note} (Lemma 5.1)\n{shards}\n{_SHARDS}\n{_KEYED}")
    if beta >= 1 or gamma >= 1:
        return Decided("proved", note="with beta or gamma of 1 the claim holds of any service")
    if not settings.private:
        return _decide_by_attack(given, settings)
    return _decide_by_accounting(given, settings, beta, gamma)


def _claim_numbers(given: Arguments) -> dict[str, float]:
    """Return alpha, beta and gamma of a claim."""
    return {name: given.number(name) for name in ("alpha", "beta", "gamma")}


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
        given.prove(lambda: proof_of_accounting(settings, shown))
        note = (
            f"after {declared:,} predictions alpha is at most {_up(shown.alpha)} with beta = "
            f"{shown.beta:g} and gamma = {shown.gamma:g}; {safe:,} are safe at most"
        )
        shards = _retraining_note(settings, settings.rows)
        return Decided("proved", note=f"{note}\n{shards}\n{rests}", facts=facts)
    first = guarantee(settings, safe + 1, beta, gamma)
    reason = (
        f"numerical: prediction {safe + 1:,} of {declared:,} is the first that is not shown to "
        f"keep alpha = {alpha:g}: {_up(first.alpha)} is shown then, with beta = {beta:g} and gamma "
        f"= {gamma:g}; the largest number shown to be safe is {safe:,}"
    )
    note = "the accounting is an upper bound, so that exceeding it refutes nothing"
    return Decided("unknown", reason=reason, note=f"{note}\n{rests}", facts=facts)


def _decide_by_attack(given: Arguments, settings: ServiceSettings) -> Decided:
    """Attack a majority vote, for which nothing can be proved."""
    alpha, beta, gamma = (given.number(name) for name in ("alpha", "beta", "gamma"))
    attack = Duplicated.against(settings.shards, settings.probability, settings.rows)
    nothing = "numerical: nothing bounds what a majority vote tells of the seeds"
    if attack is None:
        return Decided("unknown", reason=f"{nothing}, and too little is random to attack it")
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
    """Return the refutation by an attack."""
    alpha, beta, gamma = (given.number(name) for name in ("alpha", "beta", "gamma"))
    seed = given.seed
    (counts,), (trial,) = found.counts, found.shown
    assert trial is not None  # the unlearned arm is ahead, so some trial shows it
    share = attack.thresholds[0]
    script = trial.deleted[:_LONGEST_SCRIPT]
    witness = (
        f"{attack.points} points, {attack.copies} copies each, looked up by {attack.shards:,} "
        f"shards: delete those answered right, then fewer than {share:.3g} of the rest are "
        f"right: in {counts.unlearned:,} of {counts.unlearned_trials:,} trials after unlearning, "
        f"in {counts.retrained:,} of {counts.retrained_trials:,} after retraining; so alpha is "
        f"above {lower:.4g} with confidence {confidence:g} (Clopper-Pearson, both arms). "
        f"Seed {seed}, trial {trial.number}, deletes {len(trial.deleted):,} rows, first "
        f"{', '.join(map(str, script[:6]))}"
    )
    note = (
        "the attack is that of Theorem 3.1: the data and the models, which look points up, are the "
        "attacker's choice, as the claim is of all of them\n"
        "copy j of point i is row i * copies + j; both arms are drawn anew in each trial"
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
        f"an update{whose} trains at most {most:,} of {settings.shards:,} shards again, except "
        f"with probability {_RISK:g}"
    )


def _up(alpha: float) -> str:
    """Return a number as text with four decimals, rounded up."""
    if not 0 < alpha < math.inf:
        return f"{alpha:g}"
    unit = 10.0 ** (math.floor(math.log10(alpha)) - 3)
    return f"{math.ceil(alpha / unit) * unit:.4g}"
