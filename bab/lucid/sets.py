"""A set of members in the search, and the step that bounds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.bab.instance import Instance
from leaveout.deadline import Deadline
from leaveout.encoders import Encoding, IdpProblem, encode_idp, hyper_network, pair_bounds
from leaveout.encoders.bounds import hyper_bounds
from leaveout.encoders.scaling import ScaledPair, scale_pair
from leaveout.solvers import Outcome, Settings, SolverProcess, Status

Floats = NDArray[np.float64]

State = Literal["fresh", "exact", "relaxed", "stopped", "numerical", "failed"]

_ABOUT = 0.01
"""Share of a bound within which its optimum is looked for a second time."""

_LARGEST = 1e6
"""Scaled weights beyond this leave no room between rounding and tolerance: no MILP is trusted."""


@dataclass(frozen=True, eq=False)
class MemberSet:
    """Members that share one hyper-network."""

    members: NDArray[np.int64]
    upper: float  # no leak of these members has a higher confidence
    encoding: Encoding  # how its next problem is encoded
    limit: float  # seconds its next problem may take
    state: State = "fresh"
    detail: str = ""


@dataclass(frozen=True, eq=False)
class Bounded:
    """A bounded set, and the solver's best point if it had one."""

    result: MemberSet
    point: Floats | None
    solved: int


def bound_set(
    instance: Instance, task: MemberSet, label: int, floor: float, worker: SolverProcess
) -> Bounded:
    """Bound the leaks of a set: by propagation if that suffices, else by a MILP."""
    deadline = Deadline.after(task.limit)
    network, box = instance.network.stack, instance.box
    hyper = hyper_network(instance.members, task.members)
    pair = pair_bounds(network, hyper, instance.bounds, box)
    if task.encoding.matching:
        task = replace(task, upper=min(task.upper, instance.difference_upper(pair, label)))
        if task.upper <= floor:
            return Bounded(replace(task, upper=max(task.upper, floor), state="exact"), None, 0)
    else:
        # Without matching dependencies the two networks are bounded apart, as in the paper.
        pair = replace(pair, hyper=hyper_bounds(hyper, box))
    both = scale_pair(network, hyper, pair, box)
    if not both.largest <= _LARGEST:
        detail = f"sums of weights cancel almost wholly (scaled weights up to {both.largest:.0e})"
        return Bounded(replace(task, state="numerical", detail=detail), None, 0)
    return _Attempt(instance, task, label, floor, worker, both, deadline).run()


@dataclass(eq=False)
class _Attempt:
    """The problems solved to bound one set."""

    instance: Instance
    task: MemberSet
    label: int
    floor: float
    worker: SolverProcess
    pair: ScaledPair
    deadline: Deadline
    solved: int = 0

    def run(self) -> Bounded:
        encoded, outcome = self.solve(self.floor)
        if outcome.status is Status.INFEASIBLE:
            # One "infeasible" is not believed: by how much it is missed must be positive too.
            elastic, missed = self.solve(self.floor, elastic=True)
            if elastic.confirms(missed):
                return self.finish("exact", min(self.task.upper, self.floor))
            # Too close to the cut-off to tell: a lower one leaves room for a bound.
            lower = self.floor - max(self.floor, self.task.upper) / 2
            encoded, outcome = self.solve(lower)
        if outcome.status is Status.INFEASIBLE:
            detail = "the solver calls a problem infeasible and does not confirm it"
            return self.finish("numerical", self.task.upper, detail=detail)
        bound = encoded.upper(outcome) + self.instance.network_error
        point = encoded.point(outcome)
        if outcome.status is Status.OPTIMAL and bound < self.task.upper:
            # Nor is one optimum: with presolve and without HiGHS has lost leaks, not the same ones.
            encoded, outcome = self.solve(bound - _ABOUT * abs(bound), presolve=True)
            if outcome.status is not Status.INFEASIBLE:
                bound = max(bound, encoded.upper(outcome) + self.instance.network_error)
        upper = min(self.task.upper, max(bound, self.floor))
        if outcome.status in (Status.OPTIMAL, Status.INFEASIBLE):
            return self.finish("relaxed" if encoded.relaxed else "exact", upper, point)
        if outcome.status is Status.STOPPED:
            return self.finish("stopped", upper, point)
        return self.finish("failed", upper, detail=outcome.message or outcome.status.value)

    def solve(
        self, cut: float, *, elastic: bool = False, presolve: bool = False
    ) -> tuple[IdpProblem, Outcome]:
        instance = self.instance
        encoded = encode_idp(
            self.pair,
            instance.box,
            self.label,
            encoding=self.task.encoding,
            floor=cut - instance.network_error,
            tie=instance.member_error,
            elastic=elastic,
        )
        left = max(0.1, self.deadline.seconds_left)
        # To confirm, a dual bound above zero is enough.
        settings = Settings(
            time_limit=left,
            relative_gap=0.5 if elastic else 1e-5,
            feasibility_tolerance=self.task.encoding.tolerance,
            integrality_tolerance=self.task.encoding.tolerance,
            presolve=presolve,
        )
        self.solved += 1
        return encoded, self.worker.solve(encoded.problem, settings)

    def finish(
        self, state: State, upper: float, point: Floats | None = None, *, detail: str = ""
    ) -> Bounded:
        """Return the outcome."""
        return Bounded(
            replace(self.task, upper=upper, state=state, detail=detail), point, self.solved
        )
