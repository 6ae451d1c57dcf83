"""Finite Aggregation: the fewest poisoned buckets that make one label win."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from leaveout.bab.votes.finite_solving import least_whole
from leaveout.solvers import CanSolve, Problem

Counts = NDArray[np.int64]


def forces(
    ballot: NDArray[np.int32], labels: int, offsets: Counts, buckets: Counts, target: int
) -> bool:
    """Recount and return whether a label wins if all reached members vote for it."""
    changed = ballot.copy()
    changed[(buckets[:, None] + offsets).ravel() % len(ballot)] = target
    return bool(np.bincount(changed, minlength=labels).argmax() == target)


def finite_edits_to(
    ballot: NDArray[np.int32],  # shape (members,)
    labels: int,
    offsets: Counts,  # shape (d,)
    target: int,
    *,
    solver: CanSolve,
    seconds: float | None = None,
) -> tuple[int, Counts]:
    """Return how many buckets are needed to make a label win at one point, and some that do."""
    least, point = least_whole(_problem(ballot, labels, offsets, target), solver, seconds)
    everything = np.arange(len(ballot))
    found = everything if point is None else np.flatnonzero(point[: len(ballot)] > 0.5)
    if not forces(ballot, labels, offsets, found, target):
        found = everything
    return max(1, int(least)) if math.isfinite(least) else 1, found


def _problem(ballot: NDArray[np.int32], labels: int, offsets: Counts, target: int) -> Problem:
    """Return the programme: whether each bucket is poisoned, then how much of a member may vote.

    One row a member holds it back unless a bucket reaches it, one row a label makes it lose.
    """
    members = len(ballot)
    counts = np.bincount(ballot, minlength=labels)
    rivals = np.array([label for label in range(labels) if label != target])
    gains = (ballot != target) + (ballot[None] == rivals[:, None]).astype(np.float64)
    index = np.arange(members)
    reached = (index[:, None] - offsets) % members
    rows = np.concatenate([np.repeat(index, len(offsets)), index])
    columns = np.concatenate([reached.ravel(), members + index])
    values = np.concatenate([np.ones(members * len(offsets)), -np.ones(members)])
    held = coo_array((values, (rows, columns)), shape=(members, 2 * members)).toarray()
    beaten = np.hstack([np.zeros((labels - 1, members)), gains])
    needs = counts[rivals] - counts[target] + (rivals < target)
    return Problem(
        objective=np.repeat([1.0, 0.0], members),
        matrix=csr_array(np.vstack([held, beaten])),
        row_lower=np.concatenate([np.zeros(members), needs.astype(np.float64)]),
        row_upper=np.full(members + labels - 1, np.inf),
        lower=np.zeros(2 * members),
        upper=np.ones(2 * members),
        integer=np.repeat([True, False], members),
        names=tuple(f"{what}[{i}]" for what in ("bucket", "member") for i in range(members)),
    )
