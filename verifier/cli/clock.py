"""When the program started."""

from __future__ import annotations

import time

__all__ = ["since_start"]

_LOADED = time.perf_counter()
_BEFORE = 0.3
"""Seconds an interpreter takes before it reaches this line, about."""


def since_start() -> float:
    """Seconds since the program was started, about."""
    return time.perf_counter() - _LOADED + _BEFORE
