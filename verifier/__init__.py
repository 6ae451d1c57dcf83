"""Deciders, verdicts, reports and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leaveout.verifier.records import WitnessRecord
    from leaveout.verifier.report import Report, Result
    from leaveout.verifier.run import verify

__all__ = ["Report", "Result", "WitnessRecord", "verify"]


# Imported on first use, so that the command line's help does not wait for the engines.
def __getattr__(name: str) -> object:
    if name == "verify":
        from leaveout.verifier.run import verify

        return verify
    if name in __all__:
        from leaveout.verifier import report

        return getattr(report, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
