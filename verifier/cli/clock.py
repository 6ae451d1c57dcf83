"""The start time of the program."""

from __future__ import annotations

import os
import time
from pathlib import Path

_LOADED = time.perf_counter()
_BEFORE = 0.3
"""Seconds an interpreter takes before it reaches this line, about, where the system cannot tell."""

_LONGEST = 60.0
"""Seconds before this line beyond which what the system tells is not believed."""


def since_start() -> float:
    """Return the seconds since the program started, from the system or estimated."""
    passed = time.perf_counter() - _LOADED
    told = _process_age()
    if told is not None and passed <= told <= passed + _LONGEST:
        return told
    return passed + _BEFORE


def _process_age() -> float | None:
    """Return the seconds since this process started, on Linux; else None."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        begun = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - begun
    except (OSError, ValueError, IndexError, AttributeError):
        return None
