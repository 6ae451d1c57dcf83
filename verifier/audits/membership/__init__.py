"""Audits of unlearning: how well an attacker tells unlearned models from retrained ones.

Running trials needs torch; importing this package does not.
"""

from __future__ import annotations

from leaveout.verifier.audits.membership.advantage import UNITS, Rate, Row, Unit, advantage, rates
from leaveout.verifier.audits.membership.file import (
    Audit,
    Events,
    join_arms,
    read_audit,
    read_counts,
    write_audit,
)
from leaveout.verifier.audits.membership.paired_trials import Arm, Plan, Trial, run_trials, views_of
from leaveout.verifier.audits.membership.result import (
    Advantage,
    Counted,
    Implied,
    Ranked,
    implied_guarantee,
)
from leaveout.verifier.audits.membership.views import Views

__all__ = [
    "UNITS",
    "Advantage",
    "Arm",
    "Audit",
    "Counted",
    "Events",
    "Implied",
    "Plan",
    "Ranked",
    "Rate",
    "Row",
    "Trial",
    "Unit",
    "Views",
    "advantage",
    "implied_guarantee",
    "join_arms",
    "rates",
    "read_audit",
    "read_counts",
    "run_trials",
    "views_of",
    "write_audit",
]
