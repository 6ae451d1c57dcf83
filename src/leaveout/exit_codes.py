"""The exit codes of the program."""

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
    """An internal error of the program, which the user cannot fix."""
    INTERRUPTED = 130
    """Ended by Ctrl-C, as in shells, before there was any result."""
