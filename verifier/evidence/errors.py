"""Errors of evidence, as a request or as a proof."""

from __future__ import annotations

from leaveout.errors import LeaveoutError
from leaveout.exit_codes import ExitCode


class EvidenceError(LeaveoutError):
    """Evidence that cannot be made or read, or an unusable key."""


class TamperedError(LeaveoutError):
    """Evidence whose signature, digests or claims are inconsistent."""

    exit_code = ExitCode.REFUTED
