"""Prove what a trained model owes to any one training point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leaveout.version import VERSION

if TYPE_CHECKING:
    from leaveout.models.train import leave_one_out
    from leaveout.verifier import Report, verify

__all__ = ["Report", "__version__", "leave_one_out", "verify"]

__version__ = VERSION


def __getattr__(name: str) -> object:
    if name in {"Report", "verify"}:
        import leaveout.verifier as verifier

        return getattr(verifier, name)
    if name == "leave_one_out":
        from leaveout.models.train.own import leave_one_out

        return leave_one_out
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
