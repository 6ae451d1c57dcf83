"""Deciders, verdicts, reports and the command line."""

from __future__ import annotations

from leaveout.verifier.report import Report, Result, WitnessRecord
from leaveout.verifier.run import verify

__all__ = ["Report", "Result", "WitnessRecord", "verify"]
