"""What the program's exit status says."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The status a command ends with.

    Of several verdicts the first that applies counts: refuted, then unknown, then proved.
    """

    PROVED = 0
    REFUTED = 1
    BAD_INPUT = 2
    UNKNOWN = 3
    UNFORESEEN = 4
    """An error of the program itself, which no user can cure."""
    INTERRUPTED = 130
    """By Ctrl-C, as shells have it, where there was nothing to tell yet."""
