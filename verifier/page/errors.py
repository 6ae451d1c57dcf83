"""Errors of a request for a page."""

from __future__ import annotations

from leaveout.errors import LeaveoutError


class PageError(LeaveoutError):
    """A result file that cannot be shown, or a page that cannot be written."""
