"""The collective attack as a neutral MILP, for any number of labels."""

from __future__ import annotations

import numpy as np
from scipy.sparse import block_array, csr_array, eye_array

from leaveout.encoders.votes.collective import Stakes
from leaveout.solvers import Problem


def collective_problem(stakes: Stakes, at_least: int = 0) -> Problem:
    """Return the problem whose optimum is the number of points one attack can lose.

    Variables in order: total, poisoned units p, freed members x, lost pairs y, lost points z. Three
    redundant integer rows tighten the relaxation (gains are at most 2).
    """
    pairs, members, units = len(stakes.needs), len(stakes.gains), stakes.units
    owners, owner = np.unique(stakes.points, return_inverse=True)
    widths = 1, units, members, pairs, len(owners)
    quotas = stakes.quotas
    reached = csr_array(
        (
            np.ones(stakes.reach.size),
            (stakes.reach.ravel(), np.repeat(np.arange(units), stakes.reach.shape[1])),
        ),
        shape=(members, units),
    )
    shares = csr_array((np.ones(pairs), (owner, np.arange(pairs))), shape=(len(owners), pairs))
    families = csr_array(
        (np.ones(units), (stakes.family, np.arange(units))), shape=(len(quotas), units)
    )
    blocks: list[list[csr_array | None]] = [
        [None, families, None, None, None],
        [None, reached, -eye_array(members, format="csr"), None, None],
    ]
    most = int(quotas.sum()) * stakes.reach.shape[1]
    gains = stakes.gains.T
    for coefficients, needed in (
        (gains, stakes.needs),
        (gains > 0, -(-stakes.needs // 2)),
        (gains == 2, stakes.needs - most),
    ):
        rows = np.flatnonzero(needed > 0)
        lost = csr_array(
            (-needed[rows].astype(float), (np.arange(len(rows)), rows)), shape=(len(rows), pairs)
        )
        if len(rows):
            blocks.append([None, None, csr_array(coefficients[rows].astype(float)), lost, None])
    blocks += [
        [None, None, None, shares, -eye_array(len(owners), format="csr")],
        [csr_array([[-1.0]]), None, None, None, csr_array(np.ones((1, len(owners))))],
    ]
    matrix = csr_array(block_array(_fill_blocks(blocks, widths), format="csr"))
    row_lower, row_upper = np.zeros(matrix.shape[0]), np.full(matrix.shape[0], np.inf)
    row_lower[: len(quotas)], row_upper[: len(quotas)], row_upper[-1] = -np.inf, quotas, 0.0
    columns = sum(widths)
    objective, lower, upper = np.zeros(columns), np.zeros(columns), np.ones(columns)
    objective[0], lower[0], upper[0] = 1.0, at_least, len(owners)
    integer = np.zeros(columns, dtype=bool)
    integer[1 : 1 + units] = True
    integer[1 + units + members : 1 + units + members + pairs] = True
    return Problem(objective, matrix, row_lower, row_upper, lower, upper, integer, maximise=True)


def _fill_blocks(
    blocks: list[list[csr_array | None]], widths: tuple[int, ...]
) -> list[list[csr_array]]:
    """Return blocks with missing ones as zeros, so that every width is known."""
    filled = []
    for row in blocks:
        height = next(block.shape[0] for block in row if block is not None)
        filled.append(
            [
                csr_array((height, width)) if block is None else block
                for block, width in zip(row, widths, strict=True)
            ]
        )
    return filled
