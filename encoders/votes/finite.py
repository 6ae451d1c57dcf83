"""Ballots of Finite Aggregation: votes, the members of each bucket, and their checks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from leaveout.arrays import Ints
from leaveout.compiling import cached_njit
from leaveout.errors import SpecError
from leaveout.solvers import Problem

Counts = NDArray[np.int64]


@cached_njit(nogil=True)
def gaps(votes: Ints, found: Counts) -> int:
    """Fill in the gain that each label must exceed to win; return the prediction."""
    found[:] = 0
    for vote in votes:
        found[vote] += 1
    best = int(np.argmax(found))
    most = found[best]
    for label in range(len(found)):
        found[label] = most - found[label] - (label < best)
    found[best] = -1
    return best


@cached_njit(nogil=True)
def published_edits(
    votes: Ints, offsets: Counts, best: int, gap: Counts, hits: Ints, edits: Counts
) -> None:
    """Fill in the fewest edits towards each label, if the gains of buckets added up."""
    members, spread = len(votes), len(offsets)
    hits[:] = 0
    for i in range(members):
        row = hits[votes[i]]
        for offset in offsets:
            h = i - offset
            row[h if h >= 0 else h + members] += 1
    buckets = np.zeros(2 * spread + 1, np.int64)
    for label in range(len(gap)):
        edits[label] = members + 1
        if label == best:
            continue
        buckets[:] = 0
        for h in range(members):
            buckets[spread + hits[best, h] - hits[label, h]] += 1
        needed, used = gap[label] + 1, 0
        for gain in range(2 * spread, 0, -1):
            if buckets[gain] * gain >= needed:
                edits[label] = used + (needed + gain - 1) // gain
                break
            needed -= buckets[gain] * gain
            used += buckets[gain]


@cached_njit(nogil=True)
def published_all(votes: Ints, offsets: Counts, labels: int, found: Ints) -> None:
    """Fill in each point's least edits by the published argument, shape (points,)."""
    hits = np.zeros((labels, votes.shape[1]), np.int32)
    gap, edits = np.zeros(labels, np.int64), np.zeros(labels, np.int64)
    for j in range(votes.shape[0]):
        best = gaps(votes[j], gap)
        published_edits(votes[j], offsets, best, gap, hits, edits)
        found[j] = edits.min()


def check_ballots(
    votes: ArrayLike, labels: int, offsets: ArrayLike
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return votes and offsets as compiled code expects them, or raise."""
    ballots, spots = np.asarray(votes), np.asarray(offsets)
    if labels < 2:
        raise SpecError(
            f"finite aggregation: a vote needs at least two labels, but there are {labels}"
        )
    if ballots.ndim != 2 or not ballots.shape[1]:
        raise SpecError(
            f"finite aggregation: votes have the shape {ballots.shape}, expected (points, "
            "members) with at least one member"
        )
    if ballots.dtype.kind not in "iu":
        raise SpecError(f"finite aggregation: votes are {ballots.dtype}, expected integers")
    if ballots.size and not (ballots.min() >= 0 and ballots.max() < labels):
        wrong = ballots[(ballots < 0) | (ballots >= labels)][0]
        raise SpecError(f"finite aggregation: a vote is for {wrong}; expected 0 to {labels - 1}")
    members = ballots.shape[1]
    if spots.ndim != 1 or not spots.size or spots.dtype.kind not in "iu":
        raise SpecError("finite aggregation: offsets must be a flat list of at least one integer")
    if spots.min() < 0 or spots.max() >= members or len(np.unique(spots)) < len(spots):
        raise SpecError(
            f"finite aggregation: offsets must be distinct, each from 0 to {members - 1}, one less "
            "than the number of members"
        )
    return np.ascontiguousarray(ballots, dtype=np.int32), spots.astype(np.int64)


def checked_row(
    votes: ArrayLike, labels: int, offsets: ArrayLike
) -> tuple[NDArray[np.int32], NDArray[np.int64], int, NDArray[np.int64]]:
    """Return one point's votes, offsets, prediction, and the gains that labels must exceed."""
    ballots, spots = check_ballots(np.asarray(votes)[None], labels, offsets)
    gap = np.zeros(labels, np.int64)
    best = int(gaps(ballots[0], gap))
    return ballots[0], spots, best, gap


def finite_problem(
    votes: ArrayLike,  # shape (members,)
    labels: int,
    offsets: ArrayLike,  # shape (d,)
    target: int,
    *,
    least: int = 0,
    most: int | None = None,
    fit: NDArray[np.bool_] | None = None,  # shape (members,)
) -> Problem:
    """Return the programme for the fewest buckets that put a label ahead of the prediction.

    That suffices: whichever label wins then, it is not the prediction.
    """
    ballot, spots, best, gap = checked_row(votes, labels, offsets)
    members, spread = len(ballot), len(spots)
    most = members if most is None else most
    if not 0 <= target < labels or target == best:
        raise SpecError(
            f"finite aggregation: label {target} cannot be the target of an attack: expected a "
            f"label other than {best}, from 0 to {labels - 1}"
        )
    if least > most:
        raise SpecError(
            f"finite aggregation: no number of buckets is at least {least} and at most {most}"
        )
    gain = 1.0 + (ballot == best) - (ballot == target)
    index = np.arange(members)
    reached = (index[:, None] - spots) % members
    rows = [
        np.repeat(index, spread),
        index,
        np.full(members, members),
        np.full(members, 1 + members),
    ]
    columns = [reached.ravel(), members + index, members + index, index]
    values = [np.ones(members * spread), -np.ones(members), gain, np.ones(members)]
    # Half a bucket of slack, so that no tolerance excludes an attack of exactly this size.
    lower = np.concatenate([np.zeros(members), [gap[target] + 1.0, least - 0.5]])
    upper = np.concatenate([np.full(members + 1, np.inf), [most + 0.5]])
    return Problem(
        objective=np.repeat([1.0, 0.0], members),
        matrix=csr_array(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
            shape=(members + 2, 2 * members),
        ),
        row_lower=lower,
        row_upper=upper,
        lower=np.zeros(2 * members),
        upper=np.concatenate([np.ones(members) if fit is None else fit, np.ones(members)]),
        integer=np.repeat([True, False], members),
        names=tuple(f"{what}[{i}]" for what in ("bucket", "member") for i in range(members)),
    )
