"""Small random convex fits for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from leaveout.errors import LinearError
from leaveout.kernel.design import Column, Design, Region
from leaveout.kernel.linear import Curvature, Problem, survey
from leaveout.kernel.model import Groups, LinearModel
from leaveout.kernel.numbers import Rejected
from leaveout.models.linear.fit import coefficients_of, minimise, whitener


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
        R = whitener(problem, theta)
        if rng.random() < 0.3:
            R = R * (1 + rng.normal(size=R.shape) * 10.0 ** rng.integers(-9, -2))
        return Case(X, y, problem, theta, survey(problem, theta, R), rng)
    except (LinearError, Rejected):
        assume(False)
        raise


kinds = st.sampled_from(["logistic", "softmax", "poisson", "gamma", "squared", "hinge"])
seeds = st.integers(0, 2**32 - 1)


def spline_knots(rng: np.random.Generator, degree: int) -> np.ndarray:
    inner = np.sort(rng.uniform(0, 1, int(rng.integers(2, 5))))
    inner = np.unique(np.r_[0.0, inner, 1.0])
    step = np.arange(1, degree + 1)
    return np.r_[inner[0] - 0.3 * step[::-1], inner, inner[-1] + 0.2 * step]


def random_design(rng: np.random.Generator) -> Design:
    inputs = int(rng.integers(1, 4))
    columns = []
    for at in range(inputs):
        kind = rng.integers(0, 4)
        if kind < 2:
            columns.append(Column(at))
        elif kind == 2:
            columns.append(Column(at, 0, np.unique(rng.uniform(0, 1, int(rng.integers(1, 4))))))
        else:
            degree = int(rng.integers(1, 4))
            columns.append(Column(at, degree, spline_knots(rng, degree), bool(rng.random() < 0.5)))
    width = sum(each.width for each in columns)
    mix = offset = None
    if rng.random() < 0.3:
        mixed = int(rng.integers(1, width + 1))
        mix, offset = rng.normal(size=(width, mixed)), rng.normal(size=mixed)
    return Design(
        inputs, tuple(columns), rng.normal(size=width), rng.uniform(0.5, 2, width), mix, offset,
        float(rng.choice([0.0, 1.0, 2.5])),
    )  # fmt: skip


def random_model(seed: int, kind: str, *, grouped: bool = False) -> LinearModel:
    rng = np.random.default_rng(seed)
    design = random_design(rng)
    assume(design.width > (design.constant != 0))
    n = int(rng.integers(8, 40))
    X = rng.uniform(-0.2, 1.2, (n, design.inputs))
    labels, outputs = ("no", "yes"), 1
    y = rng.integers(0, 2, n).astype(float)
    if kind == "softmax" or (kind in ("svm", "ridge") and rng.random() < 0.4):
        labels, outputs = ("a", "b", "c"), 3
        y = rng.integers(0, 3, n).astype(float)
    elif kind in ("poisson", "gamma") or (kind == "ridge" and rng.random() < 0.4):
        labels = ()
        y = {"poisson": rng.poisson(2, n).astype(float), "gamma": rng.gamma(2, 1, n) + 0.1}.get(
            kind, rng.normal(size=n)
        )
    penalty = np.full(design.width, 10.0 ** rng.integers(-1, 2))
    groups = None
    if grouped:
        groups = Groups("who", rng.integers(0, max(2, n // 2), n).astype(np.str_))
    model = LinearModel(
        kind, design, np.zeros((outputs, design.width)), X, y, np.ones(n), penalty, labels,
        groups=groups,
    )  # fmt: skip
    return replace(model, coefficients=coefficients_of(model.problems))


def random_region(rng: np.random.Generator, design: Design) -> tuple[Region, np.ndarray]:
    """Return a region and inputs of it, its ends among them."""
    lower = rng.uniform(-0.3, 0.6, design.inputs)
    upper = lower + rng.uniform(0, 0.8, design.inputs)
    choices = []
    if design.inputs > 1 and rng.random() < 0.5:
        at = rng.choice(design.inputs, 2, replace=False)
        choices.append((at, rng.uniform(lower[at], upper[at], (int(rng.integers(1, 4)), 2))))
    points = rng.uniform(lower, upper, (400, design.inputs))
    ends = rng.random(points.shape)
    points = np.where(ends < 0.2, lower, np.where(ends > 0.8, upper, points))
    for at, rows in choices:
        points[:, at] = rows[rng.integers(0, len(rows), len(points))]
    return Region.of(design, lower, upper, choices), points


def leak_bounds(family, region, label, rival, units, t, slack):
    """Bound N's margin of a label where members of some units do not put it above a rival."""
    score, (first, last) = family.margin(label, rival), units
    return family.bounds(region, score, family.apart(score, first, last), slack[first:last], t)
