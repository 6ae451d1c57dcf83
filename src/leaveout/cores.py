"""The cores this process may use, and the machine's memory."""

from __future__ import annotations

import os


def cores() -> int:
    """Return the number of cores this process is bound to, if known, else of all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def memory_size() -> int | None:
    """Return the machine's memory in bytes; None if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
