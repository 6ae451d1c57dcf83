"""Threats to the training set, and how many edits each change counts as."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

UNBOUNDED = 2**60
"""The radius of what no number of edits changes; more than any number of edits that does."""


class Threat(StrEnum):
    """A kind of change; its value is its word in a specification."""

    EDITS = "edits"
    INSERTIONS = "insertions"
    REMOVALS = "removals"
    RELABELS = "relabels"
    MODIFICATIONS = "modifications"


@dataclass(frozen=True)
class Cost:
    """How many edits one change counts as, and why."""

    parts: int  # parts of the training set that one change can reach
    why: str

    def edits(self, changes: int) -> int:
        """Return how many edits a number of changes counts as, at most `UNBOUNDED`."""
        return min(self.parts * changes, UNBOUNDED)


def cost_of(threat: Threat, *, hash_reads_label: bool | None) -> Cost | None:
    """Return how many parts one change reaches; None if unknown.

    Every sample is in the part its hash names, whatever else the training set holds.
    """
    if threat is Threat.MODIFICATIONS:
        return Cost(2, "it is a removal and an insertion, and may move a sample to another part")
    if threat is Threat.RELABELS:
        if hash_reads_label is None:
            return None
        if hash_reads_label:
            return Cost(2, "the hash reads the label, so it moves a sample to another part")
        return Cost(1, "the hash does not read the label, so the sample stays in its part")
    return Cost(1, "the one selected by the hash of the sample")
