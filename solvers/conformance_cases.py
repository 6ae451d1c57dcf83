"""The cases of the conformance kit: problems with optima known without a solver."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from leaveout.solvers.problem import Problem
from leaveout.solvers.protocol import Feature, Settings, Status

INF = float("inf")
SOLVED = frozenset({Status.OPTIMAL})
INTEGER = frozenset({Feature.INTEGER})


@dataclass(frozen=True, eq=False)
class Case:
    """A problem and what is known about it.

    Attributes
    ----------
    name : str
    problem : Problem
    optimum : float
        The true optimum; not read for infeasible and unbounded problems.
    statuses : frozenset of Status
        The correct statuses.
    settings : Settings
    needs : frozenset of Feature
        Features that a back end must list for the case to apply.
    """

    name: str
    problem: Problem
    optimum: float = 0.0
    statuses: frozenset[Status] = SOLVED
    settings: Settings = field(default_factory=lambda: Settings(time_limit=30.0))
    needs: frozenset[Feature] = frozenset()

    def __str__(self) -> str:
        return self.name


def problem(
    objective: ArrayLike,  # shape (n,)
    rows: Sequence[tuple[Sequence[float], float, float]] = (),
    *,
    lower: ArrayLike = 0.0,
    upper: ArrayLike = INF,
    integer: ArrayLike = False,
    maximise: bool = False,
    offset: float = 0.0,
) -> Problem:
    """Build a small problem from dense data."""
    costs = np.asarray(objective, dtype=np.float64)
    count = costs.size
    dense = np.array([row[0] for row in rows], dtype=np.float64).reshape(len(rows), count)
    return Problem(
        objective=costs,
        matrix=csr_array(dense),
        row_lower=np.array([row[1] for row in rows], dtype=np.float64),
        row_upper=np.array([row[2] for row in rows], dtype=np.float64),
        lower=np.full(count, lower, dtype=np.float64),
        upper=np.full(count, upper, dtype=np.float64),
        integer=np.full(count, integer, dtype=np.bool_),
        maximise=maximise,
        offset=offset,
    )


def _knapsack() -> tuple[Problem, float]:
    values = np.array([24, 13, 23, 15, 16, 11, 9, 30, 7, 19], dtype=np.float64)
    weights = np.array([12, 7, 11, 8, 9, 6, 5, 14, 4, 10], dtype=np.float64)
    choices = np.array(list(itertools.product((0.0, 1.0), repeat=values.size)))
    optimum = float((choices @ values)[choices @ weights <= 43].max())
    stated = problem(values, [(weights.tolist(), -INF, 43)], upper=1, integer=True, maximise=True)
    return stated, optimum


def _cap_set() -> Problem:
    """Return a hard problem: the largest line-free set of AG(4, 3), 20 (Pellegrino 1971)."""
    points = list(itertools.product(range(3), repeat=4))
    number = {point: k for k, point in enumerate(points)}
    lines = set()
    for first, second in itertools.combinations(points, 2):
        third = tuple(-(a + b) % 3 for a, b in zip(first, second, strict=True))
        lines.add(tuple(sorted((number[first], number[second], number[third]))))
    rows = []
    for line in sorted(lines):
        coefficients = np.zeros(len(points))
        coefficients[list(line)] = 1.0
        rows.append((coefficients.tolist(), -INF, 2.0))
    return problem(np.ones(len(points)), rows, upper=1, integer=True, maximise=True)


def _relu(
    weights: NDArray[np.float64],
    biases: NDArray[np.float64],
    outputs: NDArray[np.float64],
    ties: Sequence[tuple[int, int, float, float]] = (),
) -> tuple[Problem, float]:
    """Return the problem max ``outputs @ relu(weights * x + biases)`` by big-M.

    x in [-1, 1]; piecewise linear, so the maximum is at an end or kink. ``ties`` are valid rows
    ``lower <= neuron_i - neuron_j <= upper``.
    """
    count = weights.size
    big = np.abs(weights) + np.abs(biases) + 1.0
    kinks = np.clip(-biases / weights, -1.0, 1.0)
    xs = np.concatenate([[-1.0, 1.0], kinks])
    optimum = float((np.maximum(np.outer(xs, weights) + biases, 0.0) @ outputs).max())
    width = 1 + 2 * count
    rows: list[tuple[Sequence[float], float, float]] = []
    for k in range(count):
        neuron, phase = 1 + k, 1 + count + k
        above = np.zeros(width)
        above[[neuron, 0]] = 1.0, -weights[k]
        rows.append((above.tolist(), float(biases[k]), INF))
        active = above.copy()
        active[phase] = big[k]
        rows.append((active.tolist(), -INF, float(biases[k] + big[k])))
        idle = np.zeros(width)
        idle[[neuron, phase]] = 1.0, -big[k]
        rows.append((idle.tolist(), -INF, 0.0))
    for first, second, low, high in ties:
        tie = np.zeros(width)
        tie[[1 + first, 1 + second]] = 1.0, -1.0
        rows.append((tie.tolist(), low, high))
    stated = problem(
        np.concatenate([[0.0], outputs, np.zeros(count)]),
        rows,
        lower=np.concatenate([[-1.0], np.zeros(2 * count)]),
        upper=np.concatenate([[1.0], big, np.ones(count)]),
        integer=np.arange(width) > count,
        maximise=True,
    )
    return stated, optimum


def _twins() -> tuple[Problem, float]:
    """Return two networks that differ by 1e-7, tied neuron by neuron by rows of width 2e-7."""
    weights = np.array([0.7, -1.1, 0.4, -0.6, 1.3])
    biases = np.array([0.1, 0.35, -0.2, 0.05, -0.45])
    drift = np.array([1.0, -0.9, 0.8, 1.1, -0.7]) * 1e-7
    outputs = np.array([0.9, -0.4, 1.2, 0.8, -0.3])
    ties = [(k, 5 + k, min(0.0, -drift[k] * 2), max(0.0, -drift[k] * 2)) for k in range(5)]
    return _relu(
        np.concatenate([weights, weights]),
        np.concatenate([biases, biases + 2 * drift]),
        np.concatenate([outputs, np.zeros(5)]),
        ties,
    )


def _narrow_chain() -> tuple[Problem, float]:
    """Return a chain of rows of width 2e-7 to 1e-6, both ends fixed in mid-range."""
    widths = np.linspace(2e-7, 1e-6, 8)
    steps = np.linspace(1e-3, 8e-3, 8)
    count = widths.size + 1
    rows: list[tuple[Sequence[float], float, float]] = []
    for k, (step, width) in enumerate(zip(steps.tolist(), widths.tolist(), strict=True)):
        link = np.zeros(count)
        link[[k, k + 1]] = -1.0, 1.0
        rows.append((link.tolist(), step, step + width))
    end = np.zeros(count)
    end[-1] = 1.0
    rows.append((end.tolist(), 0.5, 0.5))
    costs = np.zeros(count)
    costs[0] = 1.0
    start = 0.5 - float(steps.sum()) - 0.5 * float(widths.sum())
    lower, upper = np.zeros(count), np.ones(count)
    lower[0] = upper[0] = start
    return problem(costs, rows, lower=lower, upper=upper, maximise=True), start


def _cases() -> tuple[Case, ...]:
    knapsack, most = _knapsack()
    relu, peak = _relu(
        np.array([1.0, -1.5, 0.5, 2.0]),
        np.array([0.25, 0.4, -0.1, -0.9]),
        np.array([1.0, 0.7, -2.0, 0.6]),
    )
    twins, twin_peak = _twins()
    chain, chain_start = _narrow_chain()
    infeasible = frozenset({Status.INFEASIBLE})
    unbounded = frozenset({Status.UNBOUNDED})
    triangle = [([1.0, 2.0], -INF, 4.0), ([3.0, 1.0], -INF, 6.0)]
    return (
        Case("lp maximise", problem([1, 1], triangle, maximise=True), 2.8),
        Case("lp minimise", problem([2, 3], [([1, 1], 4, INF), ([1, 3], 6, INF)]), 9.0),
        Case("offset", problem([1, 1], triangle, maximise=True, offset=-100.25), -97.45),
        Case("equality rows", problem([1, 2, 3], [([1, 1, 1], 6, 6), ([1, -1, 0], 1, 1)]), 8.5),
        Case(
            "ranged row",
            problem([1, 0], [([1, 1], 2, 3), ([0, 1], -INF, 0.5)]),
            1.5,
        ),
        Case(
            "free variables",
            problem([1, 1], [([1, -1], -2, 2), ([1, 1], -3, INF)], lower=-INF),
            -3.0,
        ),
        Case(
            "negative bounds",
            problem([1, -1], [([1, 1], -7, INF)], lower=[-5, -4], upper=[-1, -2]),
            -3.0,
        ),
        Case(
            "fixed variables",
            problem([1, 5], [([1, 1], 4, INF)], lower=[0, 1.5], upper=[10, 1.5]),
            10.0,
        ),
        Case("no rows", problem([1, -2], lower=-1, upper=3), -7.0),
        Case("no variables", problem([], [([], -1, 1)], offset=2.5), 2.5),
        Case("no variables, infeasible", problem([], [([], 1, 2)]), statuses=infeasible),
        Case("no objective", problem([0, 0], [([1, 1], 1, 1)], offset=3.0), 3.0),
        Case("lp infeasible", problem([1, 1], [([1, 1], 5, INF)], upper=2), statuses=infeasible),
        Case(
            "lp infeasible along a ray",
            problem(
                [1, 1, 0], [([1, 1, 1], 2, INF), ([1, 1, 1], -INF, 1)], lower=-INF, maximise=True
            ),
            statuses=infeasible,
        ),
        Case(
            "lp unbounded", problem([1, 1], [([1, -1], -1, 1)], maximise=True), statuses=unbounded
        ),
        Case("narrow rows", chain, chain_start),
        Case(
            "integers",
            problem([5, 4], [([6, 4], -INF, 24), ([1, 2], -INF, 6)], integer=True, maximise=True),
            20.0,
            needs=INTEGER,
        ),
        Case(
            "integers and reals",
            problem([-1, -1], [([2, 2], -INF, 7), ([-1, 1], -INF, 0.5)], integer=[True, False]),
            -3.5,
            needs=INTEGER,
        ),
        Case(
            "negative integers",
            problem([1], [([2], -7, INF)], lower=-10, upper=10, integer=True),
            -3.0,
            needs=INTEGER,
        ),
        Case("knapsack", knapsack, most, needs=INTEGER),
        Case(
            "knapsack within a gap",
            knapsack,
            most,
            settings=Settings(time_limit=30.0, relative_gap=0.2),
            needs=INTEGER | {Feature.GAP},
        ),
        Case(
            "knapsack on two threads",
            knapsack,
            most,
            settings=Settings(time_limit=30.0, threads=2),
            needs=INTEGER | {Feature.THREADS},
        ),
        Case(
            "integers infeasible",
            problem([1, 1], [([2, 2], 3, 3)], upper=5, integer=True, maximise=True),
            statuses=infeasible,
            needs=INTEGER,
        ),
        Case(
            "integers unbounded",
            problem([1, 1], [([1, -1], -1.5, 1.5)], integer=True, maximise=True),
            statuses=unbounded,
            needs=INTEGER,
        ),
        Case("relu", relu, peak, needs=INTEGER),
        Case("narrow rows between twin networks", twins, twin_peak, needs=INTEGER),
        Case(
            "the same, not simplified first",
            twins,
            twin_peak,
            settings=Settings(time_limit=30.0, presolve=False),
            needs=INTEGER,
        ),
        Case(
            "time limit",
            _cap_set(),
            20.0,
            frozenset({Status.STOPPED, Status.OPTIMAL}),
            Settings(time_limit=1.5),
            needs=INTEGER | {Feature.TIME_LIMIT},
        ),
    )


CASES = _cases()
