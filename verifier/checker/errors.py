"""Errors of a certificate: it is unreadable, or does not prove its claim."""

from __future__ import annotations

from leaveout.errors import LeaveoutError
from leaveout.exit_codes import ExitCode
from leaveout.kernel.numbers import Rejected

OUT_OF_RANGE = "its numbers leave the range of float64, so they prove nothing"


class CertificateError(LeaveoutError):
    """A certificate, or a file it names, is missing, damaged or in another format."""


class RejectedError(Rejected, LeaveoutError):
    """A certificate does not prove its claim; the message names the first part that fails."""

    exit_code = ExitCode.REFUTED
