"""Prove how much any one training record can change a model's answers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from leaveout.version import VERSION

if TYPE_CHECKING:
    from leaveout.models.train import leave_one_out
    from leaveout.verifier import Report, verify
    from leaveout.verifier.compare import compare

__all__ = ["Report", "__version__", "compare", "leave_one_out", "verify"]

__version__ = VERSION

_SILENT = {
    "ORT_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Environment variables that turn off the telemetry of libraries."""

# Every process imports this module first. A value set by the user is kept.
for _name, _value in _SILENT.items():
    os.environ.setdefault(_name, _value)


def __getattr__(name: str) -> object:
    if name in {"Report", "verify"}:
        import leaveout.verifier as verifier

        return getattr(verifier, name)
    if name == "compare":
        from leaveout.verifier.compare import compare

        return compare
    if name == "leave_one_out":
        from leaveout.models.boosting import leave_one_out

        return leave_one_out
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
