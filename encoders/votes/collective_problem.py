"""The collective attack as a neutral MILP, for any number of labels."""

from __future__ import annotations

import numpy as np

from leaveout.encoders.builder import ProblemBuilder
from leaveout.encoders.votes.collective import Stakes
from leaveout.solvers import Problem

__all__ = ["collective_problem"]


def collective_problem(stakes: Stakes, at_least: int = 0) -> Problem:
    """Return the problem whose optimum is how many points one attack can lose.

    Maximise ``sum z`` where the z of a point is at most the sum of the y of its pairs, the y of a
    pair needs ``sum of gains * x >= need``, a member is free (x) only if a unit that reaches it is
    poisoned (p), and at most ``budget`` units are. Variables in order: the total, p, x, y, z.

    Three rows follow from these for whole numbers and tighten the relaxation: no member gains more
    than 2 and a budget of B units frees at most ``B * reach`` members, so a lost pair needs at
    least ``need / 2`` members that gain at all, and ``need - B * reach`` that gain 2.

    Parameters
    ----------
    stakes : Stakes
    at_least : int
        Points that an attack known already loses.
    """
    builder = ProblemBuilder()
    pairs, members = len(stakes.needs), stakes.gains.shape[0]
    owners, owner = np.unique(stakes.points, return_inverse=True)
    total = builder.add_variables(at_least, len(owners), "lost")
    p = builder.add_variables(np.zeros(stakes.units), np.ones(stakes.units), "unit", integer=True)
    x = builder.add_variables(np.zeros(members), np.ones(members), "member")
    y = builder.add_variables(np.zeros(pairs), np.ones(pairs), "pair", integer=True)
    z = builder.add_variables(np.zeros(len(owners)), np.ones(len(owners)), "point")
    one = np.eye
    reached = np.zeros((members, stakes.units))
    for column in stakes.reach.T:
        reached[column, np.arange(stakes.units)] = 1
    builder.add_rows([(p, np.ones((1, stakes.units)))], upper=stakes.budget)
    builder.add_rows([(p, reached), (x, -one(members))], lower=0)
    most = stakes.budget * stakes.reach.shape[1]
    for coefficients, needed in (
        (stakes.gains, stakes.needs),
        (stakes.gains > 0, -(-stakes.needs // 2)),
        (stakes.gains == 2, stakes.needs - most),
    ):
        rows = np.flatnonzero(needed > 0)
        builder.add_rows(
            [
                (x, coefficients.T[rows].astype(float)),
                (y, -np.diag(needed.astype(float))[rows]),
            ],
            lower=0,
        )
    shares = np.zeros((len(owners), pairs))
    shares[owner, np.arange(pairs)] = 1
    builder.add_rows([(y, shares), (z, -one(len(owners)))], lower=0)
    builder.add_rows([(z, np.ones((1, len(owners)))), (total, -np.ones((1, 1)))], lower=0, upper=0)
    return builder.build(int(total[0]), maximise=True)
