"""What the kernel says of a step that does not hold, and of a file that cannot be used."""

from __future__ import annotations


class Rejected(Exception):  # noqa: N818 - what a check says, not a failure of the program
    """A step does not hold."""


class Unreadable(Exception):  # noqa: N818 - likewise
    """A certificate, or a file it names, is missing, damaged or in another format."""
