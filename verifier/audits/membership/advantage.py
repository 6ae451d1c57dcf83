"""The membership advantage: its estimation and presentation."""

from __future__ import annotations

from typing import Literal

from leaveout.errors import AuditError
from leaveout.verifier.audits.membership.by_events import advantage_of_events
from leaveout.verifier.audits.membership.by_records import advantage_of_records
from leaveout.verifier.audits.membership.by_trials import advantage_of_trials
from leaveout.verifier.audits.membership.events import Events
from leaveout.verifier.audits.membership.file import Audit
from leaveout.verifier.audits.membership.result import Advantage, nothing_known
from leaveout.verifier.audits.membership.statistics import LEAST_TRIALS

Unit = Literal["trials", "records"]
UNITS: tuple[Unit, ...] = ("trials", "records")


def advantage(audit: Audit, confidence: float, unit: Unit = "trials", seed: int = 0) -> Advantage:
    """Estimate how well an attacker distinguishes unlearning from retraining.

    The advantage is ``sup |Pr[E in the unlearned arm] - Pr[E in the retrained arm]|`` over the
    events "the attack scores at least t", for every attack and every t. The attacks are fixed
    before the trials that estimate: those of `ATTACKS`, and logistic regressions trained on the
    first third of the trials, which count for nothing else.

    Parameters
    ----------
    audit : Views or Events
    confidence : float
        With at least this probability the advantage lies between both bounds.
    unit : {"trials", "records"}
        ``trials``: the attacker sees all forgotten rows of a model together. ``records``: it sees
        one of them, drawn at random. Either way trials are the independent draws: rows answered
        by one model are not.
    seed : int
        Of the rows drawn to train attacks on, where there are very many.

    Raises
    ------
    AuditError
        If the confidence is not in (0, 1), or the audit has no rows to draw one from.
    """
    if not 0 < confidence < 1:
        raise AuditError(f"a confidence of {confidence} says nothing; give one in (0, 1), as 0.95")
    if isinstance(audit, Events):
        if unit == "records":
            raise AuditError(
                f"{audit.source}: counts events of trials and has no records; leave unit out"
            )
        return advantage_of_events(audit, confidence)
    trials = len(audit.trials)
    if trials < LEAST_TRIALS:
        return nothing_known(unit, trials)
    if unit == "records":
        return advantage_of_records(audit, confidence, seed)
    return advantage_of_trials(audit, confidence, seed)
