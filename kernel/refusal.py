"""What the kernel says when a step does not hold."""

from __future__ import annotations


class Rejected(Exception):  # noqa: N818 - what a check says, not a failure of the program
    """A step does not hold."""
