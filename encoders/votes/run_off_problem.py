"""Attacks on run-offs as neutral MILPs, on many test points or on one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array, eye_array

from leaveout.encoders.votes.run_off_stakes import RunOffStakes
from leaveout.solvers import Problem


def run_off_collective_problem(stakes: RunOffStakes, at_least: int = 0) -> Problem:
    """Return the problem whose optimum is the number of run-offs one attack can change.

    Variables in order: total, poisoned units p, freed members x, pairs y (which need all their
    demands), lost points z.
    """
    units, members = stakes.units, len(stakes.gains)
    pairs, rows = len(stakes.points), len(stakes.needs)
    owners, owner = np.unique(stakes.points, return_inverse=True)
    pair = np.repeat(np.arange(pairs), np.diff(stakes.starts))
    points = len(owners)
    nothing = csr_array
    reached = _reach_matrix(stakes.reach, members)
    lost = csr_array((-stakes.needs.astype(float), (np.arange(rows), pair)), shape=(rows, pairs))
    shares = csr_array((np.ones(pairs), (owner, np.arange(pairs))), shape=(points, pairs))
    gains = csr_array(stakes.gains.T.astype(float))
    one, all_units = csr_array([[-1.0]]), csr_array(np.ones((1, units)))
    whole = csr_array(np.ones((1, points)))
    blocks = [
        [nothing((1, 1)), all_units, nothing((1, members)), nothing((1, pairs)), 0 * whole],
        [
            nothing((members, 1)),
            reached,
            -eye_array(members, format="csr"),
            nothing((members, pairs)),
            nothing((members, points)),
        ],
        [nothing((rows, 1)), nothing((rows, units)), gains, lost, nothing((rows, points))],
        [
            nothing((points, 1)),
            nothing((points, units)),
            nothing((points, members)),
            shares,
            -eye_array(points, format="csr"),
        ],
        [one, nothing((1, units)), nothing((1, members)), nothing((1, pairs)), whole],
    ]
    matrix = csr_array(block_array(blocks, format="csr"))
    row_lower, row_upper = np.zeros(matrix.shape[0]), np.full(matrix.shape[0], np.inf)
    row_lower[0], row_upper[0], row_upper[-1] = -np.inf, stakes.budget, 0.0
    columns = matrix.shape[1]
    objective, lower, upper = np.zeros(columns), np.zeros(columns), np.ones(columns)
    objective[0], lower[0], upper[0] = 1.0, at_least, points
    integer = np.zeros(columns, dtype=bool)
    integer[1 : 1 + units] = True
    integer[1 + units + members : 1 + units + members + pairs] = True
    return Problem(objective, matrix, row_lower, row_upper, lower, upper, integer, maximise=True)


def run_off_pair_problem(
    gains: NDArray[np.int8],  # shape (demands, members)
    needs: NDArray[np.int64],  # shape (demands,)
    reach: NDArray[np.int64],  # shape (units, members a unit reaches)
    least: int,
    most: int,
) -> Problem:
    """Return the problem of the fewest units that let one label win against another."""
    units, (rows, members) = len(reach), gains.shape
    blocks = [
        [_reach_matrix(reach, members), -eye_array(members, format="csr")],
        [csr_array((rows, units)), csr_array(gains.astype(float))],
        [csr_array(np.ones((1, units))), csr_array((1, members))],
    ]
    # Half a unit of room, so that no tolerance can cut off an attack of just that many.
    return Problem(
        objective=np.repeat([1.0, 0.0], [units, members]),
        matrix=csr_array(block_array(blocks, format="csr")),
        row_lower=np.concatenate([np.zeros(members), needs, [least - 0.5]]),
        row_upper=np.concatenate([np.full(members + rows, np.inf), [most + 0.5]]),
        lower=np.zeros(units + members),
        upper=np.ones(units + members),
        integer=np.repeat([True, False], [units, members]),
    )


def _reach_matrix(reach: NDArray[np.int64], members: int) -> csr_array:
    """Return which units reach each member, shape (members, units)."""
    units, width = reach.shape
    places = reach.ravel(), np.repeat(np.arange(units), width)
    return csr_array((np.ones(reach.size), places), shape=(members, units))
