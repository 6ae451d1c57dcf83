"""What members with thresholds withstand, counted in changes of a given kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.votes.threat import Cost, Threat
from leaveout.models.votes.ballots import NEVER
from leaveout.models.votes.origin import Against


@dataclass(frozen=True, eq=False)
class Known:
    """Lower and upper bounds on thresholds, in units of an attack."""

    at_least: NDArray[np.int32]  # shape (points, parts, labels)
    enough: NDArray[np.int32]  # shape (points, parts, labels)
    gap: str = ""  # why the two differ; empty where they do not

    @property
    def is_exact(self) -> bool:
        """Whether the fewest changes are known for every vote."""
        return not self.gap


def reach_of(
    against: Against, threat: Threat, *, hash_reads_label: bool | None, alone: bool
) -> Cost | None:
    """Return how many units one change costs; None if thresholds do not bound it.

    Thresholds in edits bound every kind of change. Others bound their own kind alone, and relabels
    only where these stay in their part.
    """
    stays = alone or hash_reads_label is False
    if against != "edits":
        if threat.value != against or (threat is Threat.RELABELS and not stays):
            return None
        return Cost(1, f"thresholds of members count {against}")
    if threat is Threat.RELABELS and stays:
        where = "there is no other part" if alone else "the hash does not read the label"
        return Cost(1, f"{where}; thresholds count edits, and it is 2 edits of its part")
    if threat is Threat.MODIFICATIONS and alone:
        return Cost(1, "there is no other part; thresholds count edits, and it is 2 edits of it")
    if threat in (Threat.RELABELS, Threat.MODIFICATIONS):
        return Cost(2, "thresholds of members count edits, and it is a removal and an insertion")
    return Cost(1, "the one that the hash of the sample names")


def known_of(
    thresholds: NDArray[np.int32],  # shape (points, parts, labels)
    against: Against,
    exact_to: int | None,
    threat: Threat,
    cost: Cost,
) -> Known:
    """Return the bounds of thresholds for one kind of change."""
    if threat.value != against:
        at_least = thresholds
        if threat in (Threat.RELABELS, Threat.MODIFICATIONS) and cost.parts == 1:
            at_least = np.where(thresholds == NEVER, NEVER, (thresholds + 1) // 2).astype(np.int32)
        own = np.where(thresholds == 0, np.int32(0), np.int32(NEVER))
        gap = (
            f"thresholds count {against}, which bound {threat.value} from one side only; give "
            f"thresholds against {threat.value}"
            if threat.value in ("insertions", "removals", "relabels")
            else f"thresholds count {against}, which bound {threat.value} from one side only"
        )
        return Known(at_least, own, gap)
    if exact_to is None or not (thresholds > exact_to).any():
        return Known(thresholds, thresholds)
    enough = np.where(thresholds > exact_to, np.int32(NEVER), thresholds)
    return Known(thresholds, enough, f"thresholds are exact to {exact_to} only")
