"""Prove what a trained model owes to any one training point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leaveout.version import VERSION

if TYPE_CHECKING:
    from leaveout.verifier import Report, verify

__all__ = ["Report", "__version__", "verify"]

__version__ = VERSION


def __getattr__(name: str) -> object:
    if name in {"Report", "verify"}:
        import leaveout.verifier as verifier

        return getattr(verifier, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
