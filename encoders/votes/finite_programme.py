"""Finite Aggregation as a mixed-integer programme: fewest buckets for one label."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from leaveout.encoders.votes.finite_ballots import checked_row
from leaveout.errors import SpecError
from leaveout.solvers import Problem


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
    """Return the programme of the fewest buckets that put a label before the prediction.

    That is enough: whoever wins then, it is not the prediction.
    """
    ballot, spots, best, gap = checked_row(votes, labels, offsets)
    members, spread = len(ballot), len(spots)
    most = members if most is None else most
    if not 0 <= target < labels or target == best:
        raise SpecError(
            f"finite aggregation: label {target} cannot be the target of an attack: expected "
            f"another label than {best}, from 0 to {labels - 1}"
        )
    if least > most:
        raise SpecError(
            f"finite aggregation: at least {least} buckets and at most {most} leave none"
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
    # Half a bucket of room, so that no tolerance can cut off an attack of just that many.
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
