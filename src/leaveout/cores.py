"""How many cores this process may use, and how much memory the machine has."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores this process may use: those it is bound to where the system can say, else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def memory_size() -> int | None:
    """Bytes of this machine's memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
