"""Threats to the training set, and the number of edits that each change counts as."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

UNBOUNDED = 2**60
"""The radius of an answer that no number of edits changes; above every finite radius."""


class Threat(StrEnum):
    """A kind of change; the value is its keyword in specifications."""

    EDITS = "edits"
    INSERTIONS = "insertions"
    REMOVALS = "removals"
    RELABELS = "relabels"
    MODIFICATIONS = "modifications"


@dataclass(frozen=True)
class Cost:
    """The number of edits that one change counts as."""

    parts: int  # parts of the training set that one change can affect
    why: str

    def edits(self, changes: int) -> int:
        """Return how many edits a number of changes counts as, at most `UNBOUNDED`."""
        return min(self.parts * changes, UNBOUNDED)


def cost_of(threat: Threat, *, hash_reads_label: bool | None) -> Cost | None:
    """Return how many parts one change can affect; None if unknown.

    Every sample is in the part that its hash selects, whatever else the training set contains.
    """
    if threat is Threat.MODIFICATIONS:
        return Cost(2, "it is a removal and an insertion, and may move a sample to another part")
    if threat is Threat.RELABELS:
        if hash_reads_label is None:
            return None
        if hash_reads_label:
            return Cost(2, "the hash reads the label, so it moves a sample to another part")
        return Cost(1, "the hash does not read the label, so the sample stays in its part")
    return Cost(1, "the one that the hash selects")
