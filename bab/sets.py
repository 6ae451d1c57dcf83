"""A set of members on its way through the search, and the one step that bounds it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.instance import Instance
from leaveout.encoders import Encoding, encode_idp, hyper_network, pair_bounds
from leaveout.encoders.bounds import hyper_bounds
from leaveout.encoders.scaling import scaled
from leaveout.solvers import Outcome, Settings, SolverProcess, Status

__all__ = ["Bounded", "MemberSet", "bound_set"]

Floats = NDArray[np.float64]

_LARGEST = 1e6
"""Scaled weights beyond this leave no room between rounding and tolerance: no MILP is trusted."""

_CONFIRMED = 1e-7
"""Least dual bound of the elastic problem, in scaled units, that confirms an infeasible one."""


@dataclass(frozen=True, eq=False)
class MemberSet:
    """Members that share one hyper-network.

    Attributes
    ----------
    members : ndarray of int64
    upper : float
        No leak of these members has a higher confidence.
    encoding : Encoding
        How its next problem is encoded.
    limit : float
        Seconds its next problem may take.
    state : {"fresh", "exact", "relaxed", "stopped", "numerical", "failed"}
        How its last problem ended; "exact" has nothing left to gain but by splitting.
    detail : str
    """

    members: NDArray[np.int64]
    upper: float
    encoding: Encoding
    limit: float
    state: Literal["fresh", "exact", "relaxed", "stopped", "numerical", "failed"] = "fresh"
    detail: str = ""


@dataclass(frozen=True, eq=False)
class Bounded:
    """A bounded set and, where the solver had one, the point it likes best."""

    result: MemberSet
    point: Floats | None
    solved: int


def bound_set(
    instance: Instance, task: MemberSet, label: int, floor: float, worker: SolverProcess
) -> Bounded:
    """Bound the leaks of a set: by propagation if that is enough, else by a MILP.

    Parameters
    ----------
    instance : Instance
    task : MemberSet
    label : int
    floor : float
        Leaks of at most this confidence do not matter.
    worker : SolverProcess

    Returns
    -------
    Bounded
        With an upper bound that is never above the task's own.
    """
    started = time.perf_counter()
    network, box = instance.network.stack, instance.box
    hyper = hyper_network(instance.members.take(task.members))
    pair = pair_bounds(network, hyper, instance.bounds, box)
    if task.encoding.matching:
        upper = min(task.upper, instance.difference_upper(pair, label))
        if upper <= floor:
            return Bounded(replace(task, upper=max(upper, floor), state="exact"), None, 0)
    else:
        # Without matching dependencies the two networks are bounded apart, as in the paper.
        upper = task.upper
        pair = replace(pair, hyper=hyper_bounds(hyper, box))

    largest = scaled(network, hyper, pair, box).largest
    if not largest <= _LARGEST:
        detail = f"sums of weights cancel almost wholly (scaled weights up to {largest:.0e})"
        return Bounded(replace(task, upper=upper, state="numerical", detail=detail), None, 0)

    def solve(cut: float, elastic: bool) -> tuple[Outcome, float, Floats | None, int]:
        encoded = encode_idp(
            network,
            hyper,
            pair,
            box,
            label,
            encoding=task.encoding,
            floor=cut - instance.network_error,
            tie=instance.member_error,
            elastic=elastic,
        )
        left = max(0.1, task.limit - (time.perf_counter() - started))
        # To confirm, a dual bound above zero is enough.
        wanted = Settings(time_limit=left, relative_gap=0.5 if elastic else 1e-5)
        outcome = worker.solve(encoded.problem, wanted)
        bound = encoded.upper(outcome) + instance.network_error
        return outcome, bound, encoded.point(outcome), encoded.relaxed

    solved = 1
    outcome, bound, point, relaxed = solve(floor, elastic=False)
    if outcome.status is Status.INFEASIBLE:
        # One "infeasible" is not believed: by how much it is missed must be positive too.
        missed, _, _, _ = solve(floor, elastic=True)
        solved += 1
        if missed.status in {Status.OPTIMAL, Status.STOPPED} and missed.dual_bound > _CONFIRMED:
            return Bounded(replace(task, upper=min(upper, floor), state="exact"), None, solved)
        # Too close to the cut-off to tell: a lower one leaves room for a bound.
        outcome, bound, point, relaxed = solve(floor - max(floor, upper) / 2, elastic=False)
        solved += 1
    if outcome.status is Status.INFEASIBLE:
        detail = "the solver calls a problem infeasible and does not confirm it"
        return Bounded(replace(task, upper=upper, state="numerical", detail=detail), None, solved)
    upper = min(upper, max(bound, floor)) if np.isfinite(bound) else upper
    if outcome.status is Status.OPTIMAL:
        state: Literal["exact", "relaxed"] = "relaxed" if relaxed else "exact"
        return Bounded(replace(task, upper=upper, state=state), point, solved)
    if outcome.status is Status.STOPPED:
        return Bounded(replace(task, upper=upper, state="stopped"), point, solved)
    detail = outcome.message or outcome.status.value
    return Bounded(replace(task, upper=upper, state="failed", detail=detail), None, solved)
