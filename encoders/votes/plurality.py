"""Parts to poison to change a plurality vote: a closed form (DPA and SS-DPA)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Ints
from leaveout.compiling import cached_njit


@dataclass(frozen=True, eq=False)
class Tally:
    """The counts of votes; ties go to the smaller label."""

    counts: NDArray[np.int32]  # shape (points, labels): votes for each label
    predictions: NDArray[np.int32]  # shape (points,)
    gaps: NDArray[np.int32]  # shape (points, labels)


def tally(votes: NDArray[np.int32], labels: int) -> Tally:
    """Count votes."""
    counts = _counts(np.ascontiguousarray(votes, dtype=np.int32), labels)
    predictions = counts.argmax(axis=1).astype(np.int32)
    best = np.take_along_axis(counts, predictions[:, None], axis=1)
    smaller = np.arange(labels) < predictions[:, None]
    gaps = (best - counts - smaller).astype(np.int32)
    np.put_along_axis(gaps, predictions[:, None], np.iinfo(np.int32).max, axis=1)
    return Tally(counts, predictions, gaps)


@cached_njit()
def _counts(votes: NDArray[np.int32], labels: int) -> NDArray[np.int32]:
    counts = np.zeros((votes.shape[0], labels), np.int32)
    for point in range(votes.shape[0]):
        for part in range(votes.shape[1]):
            counts[point, votes[point, part]] += 1
    return counts


@dataclass(frozen=True)
class Attack:
    """Votes that change the answer at one test point."""

    point: int
    edits: int  # cost in edits of the training set
    poisoned: tuple[int, ...]
    members: tuple[int, ...]  # members whose votes change
    votes: tuple[int, ...]  # their new votes
    before: int  # the answer before
    after: int  # the answer after


def recount(ballot: NDArray[np.int32], labels: int, attack: Attack) -> int:
    """Return the answer by a plain count after an attack."""
    changed = np.array(ballot)
    changed[list(attack.members)] = attack.votes
    return int(np.bincount(changed, minlength=labels).argmax())


def plurality_radii(tallied: Tally) -> NDArray[np.int32]:
    """Return how many poisoned parts each prediction survives, in the worst case.

    Half the smallest gap, rounded down (Levine and Feizi 2021, Theorems 1 and 2); it is exact, as
    enough members vote for the prediction to close the gap by 2 each.
    """
    radii: NDArray[np.int32] = (tallied.gaps.min(axis=1) // 2).astype(np.int32)
    return radii


def plurality_attack(votes: NDArray[np.int32], tallied: Tally, point: int) -> Attack:
    """Return an attack on one point that poisons one part more than it survives."""
    prediction = int(tallied.predictions[point])
    target = int(tallied.gaps[point].argmin())
    needed = int(tallied.gaps[point, target]) // 2 + 1
    ballot = votes[point]
    # First the members that voted for the prediction: their changes count twice.
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


def plurality_edits_to(counts: NDArray[np.int32], target: int) -> NDArray[np.int64]:
    """Return the fewest poisoned parts that make a label win, in the worst case.

    With r of them it has ``n + r`` votes; r suffice exactly if the others' excess over that is at
    most r, which bisection finds.
    """
    beyond = _beyond(counts, target)
    low = np.zeros(len(counts), np.int64)
    high: NDArray[np.int64] = (counts.sum(axis=1) - counts[:, target]).astype(np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        enough = np.maximum(beyond - middle[:, None], 0).sum(axis=1) <= middle
        low = np.where(enough, low, np.minimum(middle + 1, high))
        high = np.where(enough, middle, high)
    return high


def plurality_votes_to(ballot: NDArray[np.int32], labels: int, target: int) -> NDArray[np.int64]:
    """Return the fewest members, ascending, that must vote for a label to make it win."""
    counts = np.bincount(ballot, minlength=labels)[None].astype(np.int32)
    edits = int(plurality_edits_to(counts, target)[0])
    losses = np.maximum(_beyond(counts, target)[0] - edits, 0)
    # First the votes that other labels must lose, then any other votes.
    order = np.zeros(len(ballot), np.int64)
    for label in np.unique(ballot).tolist():
        members = np.flatnonzero(ballot == label)
        order[members] = np.arange(len(members)) >= losses[label]
    order[ballot == target] = 2
    found: NDArray[np.int64] = np.sort(np.argsort(order, kind="stable")[:edits])
    return found


def _beyond(counts: NDArray[np.int32], target: int) -> NDArray[np.int64]:
    """Return each label's excess of votes over what loses to the target; far less for itself."""
    wide = counts.astype(np.int64)
    beyond = wide - wide[:, [target]] + (np.arange(wide.shape[1]) < target)
    beyond[:, target] = np.iinfo(np.int64).min // 2
    return beyond


def family_radii(votes: Ints, tallied: Tally, sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Return how many edits each answer survives, exactly, shape (points,)."""
    return np.asarray(_edits(votes, tallied, sizes).min(axis=1) - 1)


def family_attack(votes: Ints, tallied: Tally, sizes: tuple[int, ...], point: int) -> Attack:
    """Return an attack on one point that makes one edit more than it survives."""
    labels = tallied.counts.shape[1]
    edits = _edits(votes[point : point + 1], tally(votes[point : point + 1], labels), sizes)[0]
    target, before, ballot = int(edits.argmin()), int(tallied.predictions[point]), votes[point]
    gain = 1 + (ballot == before).astype(int) - (ballot == target)
    poisoned, start = list[int](), 0
    for size in sizes:
        # First the members that voted for the prediction: their changes count twice.
        order = np.argsort(-gain[start : start + size], kind="stable")[: edits[target]]
        poisoned += (start + np.sort(order)).tolist()
        start += size
    changed = ballot.copy()
    changed[poisoned] = target
    # If a third label is tied with the prediction, that one may win.
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

    For the answer itself the number is out of reach. Poisoning the largest family suffices for any
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
    # The gain of a number of edits never decreases with it, so bisection finds the fewest.
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
