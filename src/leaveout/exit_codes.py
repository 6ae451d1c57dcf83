"""The exit statuses of the program."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit status of a command.

    The first that applies to a verdict counts: refuted, then unknown, then proved.
    """

    PROVED = 0
    REFUTED = 1
    BAD_INPUT = 2
    UNKNOWN = 3
    UNFORESEEN = 4
    """An error of the program itself, which no user can cure."""
    INTERRUPTED = 130
    """By Ctrl-C, as shells have it, where there was nothing to tell yet."""
