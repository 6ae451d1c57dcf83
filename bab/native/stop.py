"""Reasons for ending an unsettled search."""

from __future__ import annotations

from enum import StrEnum

from leaveout.bab.native.options import NativeOptions
from leaveout.bab.result import Reason


class Stop(StrEnum):
    """Why a search ended; the first reason counts."""

    INTERRUPTED = "interrupted"
    FAILED = "failed"
    LATE = "late"
    NODES = "nodes"

    def why(self, options: NativeOptions, failure: str) -> tuple[Reason, str]:
        """Return the reason for the result, and a sentence on it."""
        match self:
            case Stop.INTERRUPTED:
                return "time", "interrupted"
            case Stop.FAILED:
                return "solver", failure
            case Stop.LATE:
                return "time", f"stopped after its share of {options.seconds:.4g} s"
            case Stop.NODES:
                return "time", f"stopped after {options.nodes} nodes"
