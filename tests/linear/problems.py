"""Small random convex fits for tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from leaveout.errors import LinearError
from leaveout.kernel.linear import Curvature, Problem, survey
from leaveout.kernel.numbers import Rejected
from leaveout.models.linear.fit import minimise, whitening


class Case(NamedTuple):
    """A fit, not quite at its minimum or with a bad hint at times, and its numbers."""

    X: np.ndarray
    y: np.ndarray
    problem: Problem
    theta: np.ndarray
    at: Curvature
    rng: np.random.Generator

    def rows(self, unit: int) -> np.ndarray:
        return np.arange(self.problem.starts[unit], self.problem.starts[unit + 1])


def make(kind: str, seed: int, *, grouped: bool, rows: int = 14) -> Case:
    """Return a random fit; discards what has no minimum, or cannot be bounded."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(4, rows)), int(rng.integers(1, 4))
    outputs = int(rng.integers(2, 4)) if kind == "softmax" else 1
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-1, 2)
    if rng.random() < 0.3:
        X = np.round(X)
    if rng.random() < 0.2:
        X[n // 2 :] = X[: n - n // 2]
    if rng.random() < 0.3:
        X[:, 0] = rng.random(n) < 0.3
    X = np.c_[X, np.ones(n)]
    y = {
        "softmax": rng.integers(0, outputs, n),
        "poisson": rng.poisson(2, n),
        "gamma": rng.gamma(2, 1, n) + 0.01,
        "squared": rng.choice([-1.0, 1.0], n),
    }.get(kind, rng.integers(0, 2, n)).astype(float)
    weights = np.ones(n) if rng.random() < 0.5 else 2 * rng.random(n) * (rng.random(n) < 0.9)
    penalty = np.full(d + 1, 10.0 ** rng.integers(-2, 3))
    if rng.random() < 0.5:
        penalty[-1] = 0
    starts = np.arange(n + 1)
    if grouped:
        starts = np.unique(np.r_[0, rng.integers(1, n, n // 2), n])
        assume(len(starts) > 2)
    try:
        problem = Problem(kind, lambda a, b: X[a:b], y, weights, penalty, starts, outputs)
        theta = minimise(problem)
        if rng.random() < 0.3:
            theta = theta + rng.normal(size=theta.shape) * 10.0 ** rng.integers(-8, -1)
        R = whitening(problem, theta)
        if rng.random() < 0.3:
            R = R * (1 + rng.normal(size=R.shape) * 10.0 ** rng.integers(-9, -2))
        return Case(X, y, problem, theta, survey(problem, theta, R), rng)
    except (LinearError, Rejected):
        assume(False)
        raise


kinds = st.sampled_from(["logistic", "softmax", "poisson", "gamma", "squared", "hinge"])
seeds = st.integers(0, 2**32 - 1)
