"""Falsifiers: attacks on unlearning services, and conclusions from their trials."""

from __future__ import annotations

from leaveout.verifier.audits.adaptive.trials import (
    Attack,
    Audit,
    Counts,
    Duplicated,
    Trial,
    WhiteBox,
    audit,
)
from leaveout.verifier.audits.intervals import (
    alpha_lower_bound,
    clopper_pearson,
    holm,
    refutation_level,
)

__all__ = [
    "Attack",
    "Audit",
    "Counts",
    "Duplicated",
    "Trial",
    "WhiteBox",
    "alpha_lower_bound",
    "audit",
    "clopper_pearson",
    "holm",
    "refutation_level",
]
