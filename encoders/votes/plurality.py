"""Parts to poison to change a plurality: a closed form (DPA and SS-DPA)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.votes.attack import Attack
from leaveout.encoders.votes.tally import Tally


def plurality_radii(tallied: Tally) -> NDArray[np.int32]:
    """Return how many poisoned parts each prediction survives, in the worst case.

    Half the smallest gap, rounded down (Levine and Feizi 2021, Theorems 1 and 2); it is exact, as
    enough members vote for the prediction to close the gap by 2 each.
    """
    radii: NDArray[np.int32] = (tallied.gaps.min(axis=1) // 2).astype(np.int32)
    return radii


def plurality_attack(votes: NDArray[np.int32], tallied: Tally, point: int) -> Attack:
    """Return an attack on one point with one part more than it survives."""
    prediction = int(tallied.predictions[point])
    target = int(tallied.gaps[point].argmin())
    needed = int(tallied.gaps[point, target]) // 2 + 1
    ballot = votes[point]
    # First those whose change counts twice.
    gain = 1 + (ballot == prediction).astype(int) - (ballot == target)
    parts = np.sort(np.argsort(-gain, kind="stable")[:needed])
    return Attack(
        point=point,
        edits=needed,
        poisoned=tuple(parts.tolist()),
        members=tuple(parts.tolist()),
        votes=(target,) * needed,
        before=prediction,
        after=target,
    )
