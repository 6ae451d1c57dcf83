"""Command-line words as text, as system bytes need not be UTF-8."""

from __future__ import annotations

import os
from pathlib import Path


def is_text(word: str) -> bool:
    """Return whether a word can be encoded as UTF-8."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def path_text(path: Path | str) -> str:
    """Return a path as printable text, with bytes that are not UTF-8 replaced."""
    return os.fsencode(path).decode(errors="replace")


def file_name(path: Path | str) -> str:
    """Return the last part of a path as printable text."""
    return path_text(Path(path).name)
