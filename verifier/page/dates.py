"""The day shown for results that do not store one; the clock is never read."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

from leaveout.verifier.page.errors import PageError
from leaveout.verifier.page.model import Run

_WRITTEN = re.compile(r"\d{4}-\d{2}-\d{2}")


def day(text: str) -> str:
    """Return a day as given; empty if none is given."""
    if not text:
        return ""
    try:
        if _WRITTEN.fullmatch(text):
            return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise PageError(f"--date {text!r}: is no day; write year, month and day, as in 2026-11-23")


def check_day(text: str, runs: Sequence[Run]) -> None:
    """Raise if the results store a different day."""
    for run in runs:
        if text and run.day and run.day != text:
            raise PageError(
                f"--date {text}: {run.name} says itself that it was found on {run.day}; leave "
                "--date out"
            )
