"""Edits that change a plurality of members of several families (hash bagging).

An edit poisons one member of each family, whichever it likes, so that r edits poison the r members
of every family that gain a label the most (Chen et al. 2022, "On collective robustness of bagging
against data poisoning", section 5, bound them by 2 r a family; here they are counted).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders.votes.attack import Attack
from leaveout.encoders.votes.tally import Tally, tally

Ints = NDArray[np.int32]


def family_radii(votes: Ints, tallied: Tally, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Return how many edits each answer survives, exactly, shape (points,)."""
    return np.asarray(_edits(votes, tallied, sizes).min(axis=1) - 1)


def family_attack(votes: Ints, tallied: Tally, sizes: tuple[int, ...], point: int) -> Attack:
    """Return an attack on one point with one edit more than it survives."""
    labels = tallied.counts.shape[1]
    edits = _edits(votes[point : point + 1], tally(votes[point : point + 1], labels), sizes)[0]
    target, before, ballot = int(edits.argmin()), int(tallied.predictions[point]), votes[point]
    gain = 1 + (ballot == before).astype(int) - (ballot == target)
    poisoned, start = list[int](), 0
    for size in sizes:
        # First those whose change counts twice.
        order = np.argsort(-gain[start : start + size], kind="stable")[: edits[target]]
        poisoned += (start + np.sort(order)).tolist()
        start += size
    changed = ballot.copy()
    changed[poisoned] = target
    # Where a third label had as many votes as the one answered, that one may win.
    after = int(np.bincount(changed, minlength=labels).argmax())
    return Attack(
        point=point,
        edits=int(edits[target]),
        poisoned=tuple(poisoned),
        members=tuple(poisoned),
        votes=(target,) * len(poisoned),
        before=before,
        after=after,
    )


def _edits(votes: Ints, tallied: Tally, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the fewest edits for each label to pass the answer, shape (points, labels).

    For the answer itself it is more than possible. Poisoning the largest family suffices for any
    label.
    """
    points, labels = tallied.counts.shape
    twos, ones, start = [], [], 0
    for size in sizes:
        counts = tally(votes[:, start : start + size], labels).counts.astype(np.int64)
        own = np.take_along_axis(counts, tallied.predictions[:, None].astype(np.int64), axis=1)
        twos.append(np.broadcast_to(own, counts.shape))
        ones.append(size - own - counts)
        start += size
    low, high = np.ones((points, labels), np.int64), np.full((points, labels), max(sizes))
    # The gain of so many edits never falls, so halving finds where it suffices.
    while (low < high).any():
        middle = (low + high) // 2
        gained = np.zeros((points, labels), np.int64)
        for two, one in zip(twos, ones, strict=True):
            gained += 2 * np.minimum(middle, two) + np.minimum(np.maximum(middle - two, 0), one)
        enough = gained > tallied.gaps
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
        low = np.minimum(low, high)
    np.put_along_axis(high, tallied.predictions[:, None].astype(np.int64), max(sizes) + 1, axis=1)
    return high
