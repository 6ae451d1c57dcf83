"""The day that a page is told; it asks no clock, so that the same files make the same page."""

from __future__ import annotations

import datetime
import re

from leaveout.verifier.page.errors import PageError

__all__ = ["day"]

_WRITTEN = re.compile(r"\d{4}-\d{2}-\d{2}")


def day(text: str) -> str:
    """Return a day as it was written; nothing of nothing.

    Raises
    ------
    PageError
        If there is no such day, or it is written otherwise.
    """
    if not text:
        return ""
    try:
        if _WRITTEN.fullmatch(text):
            return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise PageError(f"--date {text!r}: is no day; write year, month and day, as in 2026-11-23")
