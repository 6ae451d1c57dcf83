"""Proofs about Finite Aggregation: logs for lower bounds of radii, attacks for upper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.errors import RejectedError
from leaveout.verifier.checker.voting.spread import falls_to, follow_log
from leaveout.verifier.checker.voting.tallies import Counts, Votes

_Proof = Mapping[str, NDArray[Any]]


def proved_edits(
    votes: Votes, labels: int, offsets: tuple[int, ...], published: Counts, proof: _Proof
) -> Counts:
    """Return how many hash values pass no label before the answer, shape (points, labels)."""
    if "logs" not in proof:
        return published
    points, members = votes.shape
    logs = array(proof, "logs", np.int64, 2)
    rows, weights = array(proof, "rows", np.int32, 1), array(proof, "weights", np.uint16, 2)
    if logs.shape[1] != 5 or weights.shape[1] != members:
        raise RejectedError("its logs of hash values are of other ballots")
    found = published.copy()
    row, weight = 0, 0
    for point, label, edits, many, weighed in logs.tolist():
        if not (0 <= point < points and 0 <= label < labels and 0 <= edits <= members):
            raise RejectedError(f"a log is of test point {point}, label {label}, {edits} edits")
        if min(many, weighed) < 0 or row + many > len(rows) or weight + weighed > len(weights):
            raise RejectedError(f"the log of test point {point}, label {label} is cut off")
        own, own_weights = rows[row : row + many], weights[weight : weight + weighed]
        row, weight = row + many, weight + weighed
        try:
            follow_log(votes[point], labels, offsets, label, edits, own, own_weights)
        except RejectedError as error:
            raise RejectedError(f"test point {point}: {error}") from None
        found[point, label] = max(found[point, label], edits)
    return found


def shown_falls(
    votes: Votes,  # shape (points, members)
    labels: int,
    offsets: tuple[int, ...],
    proof: _Proof,
    target: int | None = None,
) -> Counts:
    """Return how many hash values each answer survives at most, by attacks, shape (points,)."""
    wrong = "changes no answer" if target is None else "does not force the answer"
    return survived_at_most(
        votes.shape, proof, lambda x, own: falls_to(votes[x], labels, offsets, own, target), wrong
    )


def survived_at_most(
    shape: tuple[int, ...], proof: _Proof, falls: Callable[[int, list[int]], bool], wrong: str
) -> Counts:
    """Return how many hash values each answer survives at most, shape (points,)."""
    points, members = shape
    # Poisoning everything changes any answer.
    most = np.full(points, members - 1, np.int64)
    if "attacks" not in proof:
        return most
    attacks, values = array(proof, "attacks", np.int64, 2), array(proof, "values", np.int32, 1)
    if attacks.shape[1] != 2:
        raise RejectedError("its attacks are no pairs of numbers")
    start = 0
    for point, count in attacks.tolist():
        own = values[start : start + count].tolist() if count >= 0 else []
        start += max(count, 0)
        if not 0 <= point < points or len(own) != count:
            raise RejectedError(f"an attack is of test point {point} with {count} hash values")
        if not all(0 <= value < members for value in own):
            raise RejectedError(f"an attack on test point {point} has a hash value there is not")
        if not falls(point, own):
            raise RejectedError(f"an attack on test point {point} {wrong}")
        most[point] = min(most[point], len(set(own)) - 1)
    return most


def array(proof: _Proof, name: str, dtype: type[np.generic], rank: int) -> NDArray[Any]:
    """Return an array of a proof."""
    found = proof.get(name)
    if found is None or found.dtype != dtype or found.ndim != rank:
        raise RejectedError(f"its proof has no {name!r}, {np.dtype(dtype)} of rank {rank}")
    return found
