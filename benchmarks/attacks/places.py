"""Where a case writes its files."""

from __future__ import annotations

import tempfile
from pathlib import Path

__all__ = ["folder"]


def folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that is gone after use; in memory, where there is such a place."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
