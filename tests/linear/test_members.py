"""Members lie within their radii, whatever leaves, changes or is added."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from leaveout.errors import LinearError
from leaveout.kernel.budget import add_one, leave_out, relabel
from leaveout.kernel.linear import loss, measure, members, survey
from leaveout.kernel.numbers import Rejected, lengths, spectral
from leaveout.models.linear.fit import minimise, refit

from support import linear_oracle as oracle
from support.depth import rounds
from support.linear_problems import Case, kinds, make, seeds

LONG = np.longdouble


def norm(case: Case, difference: np.ndarray) -> float:
    """Return a distance in the coordinates of R."""
    return float(np.sqrt((oracle.solve(case.at.R, difference.reshape(-1)) ** 2).sum()))


def closed(case: Case, b: np.ndarray, rows: np.ndarray) -> np.ndarray:
    R = case.at.R.astype(LONG)
    flat = (b[rows].T.astype(LONG) @ case.X[rows].astype(LONG)).reshape(-1)
    return case.theta.astype(LONG) + (R @ (R.T @ flat)).reshape(case.theta.shape)


def truth(case: Case, keep: np.ndarray, y: np.ndarray | None = None) -> np.ndarray | None:
    problem, y = case.problem, case.y if y is None else y
    return oracle.minimum(
        problem.kind, case.X[keep], y[keep], problem.weights[keep], problem.penalty,
        problem.outputs, start=case.theta,
    )  # fmt: skip


def assert_within(case: Case, centre: np.ndarray, true: np.ndarray, radius: float) -> None:
    """Softmax is compared by differences of scores: a common shift changes nothing."""
    if case.problem.kind != "softmax":
        assert norm(case, true - centre) <= radius * (1 + 1e-12)
        return
    outputs, columns = case.theta.shape
    for _ in range(20):
        v = np.zeros((outputs, columns))
        i, j = case.rng.choice(outputs, 2, replace=False)
        v[i] = case.rng.normal(size=columns)
        v[j] = -v[i]
        reach = np.linalg.norm(case.at.R.T @ v.reshape(-1))
        assert abs(float((v * (true - centre)).sum())) <= radius * reach * (1 + 1e-12)


@settings(max_examples=rounds(250), deadline=None)
@given(kinds, seeds, st.booleans())
def test_members_lie_within_their_radii(kind, seed, grouped):
    case = make(kind, seed, grouped=grouped)
    known = members(case.problem, case.at)
    for unit in range(len(known.radius)):
        if not np.isfinite(known.radius[unit]):
            continue
        own = case.rows(unit)
        true = truth(case, np.setdiff1d(np.arange(len(case.y)), own))
        if true is not None:
            assert_within(case, closed(case, known.b, own), true, known.radius[unit])


@settings(max_examples=rounds(150), deadline=None)
@given(kinds, seeds, st.booleans(), st.integers(-9, -1))
def test_measured_centres_have_true_radii_wherever_they_are(kind, seed, grouped, far):
    case = make(kind, seed, grouped=grouped)
    known = members(case.problem, case.at)
    chosen = np.flatnonzero(case.rng.random(len(known.radius)) < 0.6)
    assume(len(chosen))
    try:
        start = np.stack([case.theta] * len(chosen))
        centres = refit(case.problem, case.at, chosen, start)
        if seed % 3 == 0:
            centres = centres + case.rng.normal(size=centres.shape) * 10.0**far
        found = measure(case.problem, case.at, known, chosen, centres)
    except (LinearError, Rejected):
        assume(False)
    for place, unit in enumerate(chosen.tolist()):
        if np.isfinite(found.radius[unit]):
            true = truth(case, np.setdiff1d(np.arange(len(case.y)), case.rows(unit)))
            if true is not None:
                assert_within(case, centres[place], true, found.radius[unit])


@settings(max_examples=rounds(100), deadline=None)
@given(st.sampled_from(["logistic", "ridge", "svm"]), seeds, st.floats(1e-6, 1.0))
def test_a_tolerance_covers_whatever_stops_early(kind, seed, tolerance):
    kind = {"ridge": "squared", "svm": "hinge"}.get(kind, kind)
    case = make(kind, seed, grouped=False)
    known = members(case.problem, case.at, tolerance)
    problem = case.problem
    for unit in range(len(known.radius)):
        keep = np.setdiff1d(np.arange(len(case.y)), case.rows(unit))
        true = truth(case, keep) if np.isfinite(known.radius[unit]) else None
        if true is None:
            continue
        # Walk from the minimum as far as the gradient allows.
        way = case.rng.normal(size=true.shape)
        length = 1.0
        for _ in range(60):
            there = true + length * way
            _, slope, _ = oracle.derivatives(
                kind, there.astype(LONG), case.X[keep].astype(LONG), case.y[keep].astype(LONG),
                problem.weights[keep].astype(LONG), problem.penalty.astype(LONG), 1,
            )  # fmt: skip
            if float(np.sqrt((slope**2).sum())) <= tolerance:
                centre = closed(case, known.b, case.rows(unit))
                assert norm(case, there - centre) <= known.radius[unit] * (1 + 1e-12)
                break
            length /= 2


@settings(max_examples=rounds(150), deadline=None)
@given(kinds, seeds, st.booleans(), st.integers(1, 3))
def test_any_few_units_together(kind, seed, grouped, count):
    assume(kind != "softmax")
    case = make(kind, seed, grouped=grouped, rows=40)
    budget = leave_out(case.problem, case.at, count)
    units = len(case.problem.starts) - 1
    assume(np.isfinite(budget.radius) and units > count)
    for _ in range(5):
        chosen = case.rng.choice(units, count, replace=False)
        own = np.concatenate([case.rows(unit) for unit in chosen])
        true = truth(case, np.setdiff1d(np.arange(len(case.y)), own))
        if true is not None:
            assert_within(case, closed(case, budget.b, own), true, budget.radius)


@settings(max_examples=rounds(100), deadline=None)
@given(st.sampled_from(["logistic", "squared"]), seeds, st.integers(1, 4))
def test_flipped_labels(kind, seed, count):
    case = make(kind, seed, grouped=False, rows=40)
    budget = relabel(case.problem, case.at, count)
    assume(np.isfinite(budget.radius) and len(case.y) > count)
    for _ in range(5):
        own = case.rng.choice(len(case.y), count, replace=False)
        y = case.y.copy()
        y[own] = 1 - y[own] if kind == "logistic" else -y[own]
        true = truth(case, np.arange(len(y)), y)
        if true is not None:
            assert_within(case, closed(case, budget.b, own), true, budget.radius)


@settings(max_examples=rounds(100), deadline=None)
@given(st.sampled_from(["logistic", "squared", "hinge"]), seeds, st.booleans())
def test_an_added_row(kind, seed, positive):
    case = make(kind, seed, grouped=False, rows=40)
    x = np.r_[case.rng.normal(size=case.X.shape[1] - 1), 1.0]
    y = float(positive) if kind != "squared" else 2.0 * positive - 1.0
    one = case.problem.weights * 0 + 1
    score = (x @ case.theta[0])[None, None]
    slope = loss(kind, score, np.array([y]), one[:1], 1e-9).slope
    reach = float(lengths((case.at.R.T @ x)[None])[0])
    radius = add_one(case.problem, case.at, reach, abs(float(slope[0, 0])) * (1 + 1e-9))
    assume(np.isfinite(radius))
    problem = case.problem
    true = oracle.minimum(
        kind, np.r_[case.X, [x]], np.r_[case.y, y], np.r_[problem.weights, 1.0], problem.penalty,
        start=case.theta,
    )  # fmt: skip
    if true is not None:
        assert norm(case, true - case.theta) <= radius * (1 + 1e-12)


@given(seeds, st.integers(1, 8))
def test_spectral_norms_are_bounded_and_close(seed, size):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(3, size, size)) * 10.0 ** rng.integers(-200, 100)
    matrices = half + half.transpose(0, 2, 1)
    true = np.abs(np.linalg.eigvalsh(matrices)).max(axis=1)
    found = spectral(matrices)
    assert (found >= true * (1 - 1e-13)).all()
    assert (found <= true * size ** (1 / 32) * (1 + 1e-6) + 1e-150).all()
    assert spectral(np.full((1, 2, 2), np.nan))[0] == np.inf


@pytest.mark.parametrize("wrong", ["row", "weight", "penalty", "target", "start", "R"])
def test_numbers_that_are_none_prove_nothing(wrong):
    case = make("logistic", 5, grouped=False)
    problem = case.problem
    X, target = case.X.copy(), case.y.copy()
    weights, penalty, starts = problem.weights.copy(), problem.penalty.copy(), problem.starts.copy()
    R = case.at.R.copy()
    if wrong == "row":
        X[1, 0] = np.nan
    elif wrong == "weight":
        weights[0] = -1.0
    elif wrong == "penalty":
        penalty[0] = np.nan
    elif wrong == "target":
        target[0] = 0.5
    elif wrong == "start":
        starts[1] = starts[2]
    else:
        R[0, 0] = np.inf
    with pytest.raises(Rejected):
        changed = type(problem)("logistic", lambda a, b: X[a:b], target, weights, penalty, starts)
        survey(changed, case.theta, R)


def test_a_fit_without_a_minimum_is_refused():
    X = np.c_[np.array([-2.0, -1.0, 1.0, 2.0]), np.ones(4)]
    y = np.array([0.0, 0.0, 1.0, 1.0])
    kind, none = type(make("logistic", 5, grouped=False).problem), np.zeros(2)
    for name, target, cure in (
        ("logistic", y, "told apart"),
        ("poisson", 0 * y, "all 0"),
        ("squared", y * 1e200, "scale the columns"),
        ("gamma", y * 1e300 + 1, "scale the numbers"),
    ):
        with pytest.raises(LinearError, match=f"no minimum.*{cure}"):
            minimise(kind(name, lambda a, b: X[a:b], target, np.ones(4), none, np.arange(5)))
    twice = np.c_[X, X]
    with pytest.raises(LinearError, match="not unique"):
        problem = kind("squared", lambda a, b: twice[a:b], y, np.ones(4), np.zeros(4), np.arange(5))
        minimise(problem)
