"""What is read of scikit-learn answers as it does, and its refits are the members."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import (
    GammaRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.svm import LinearSVC

from leaveout.errors import LinearError
from leaveout.models.linear.family import bound_members, centre
from leaveout.models.linear.fit import coefficients_of
from leaveout.models.linear.from_sklearn import from_sklearn, gradient_norm

PRECISE = {"tol": 1e-12, "max_iter": 10_000}
LOGISTIC = LogisticRegression(solver="newton-cholesky", C=0.7, **PRECISE)


def drawn(seed=0, rows=60, labels=2):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            rng.normal(3, 2, rows),
            rng.uniform(-1, 1, rows),
            rng.integers(0, 4, rows),
            rng.exponential(1, rows),
        ]
    )
    lean = X @ rng.normal(size=(4, labels)) + rng.normal(size=(rows, labels)) * 3
    return X, lean.argmax(axis=1), rng.uniform(0.2, 2.0, rows)


def targets(X, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(np.exp(X[:, 1] + 0.3 * X[:, 3])) + 0.0


# Of each: the estimator, labels (0 for numbers).
ESTIMATORS = {
    "newton-cholesky": (LOGISTIC, 2),
    "lbfgs": (LogisticRegression(C=2.0, **PRECISE), 2),
    "no intercept": (clone(LOGISTIC).set_params(fit_intercept=False), 2),
    "no penalty": (clone(LOGISTIC).set_params(C=np.inf), 2),
    "liblinear": (LogisticRegression(solver="liblinear", intercept_scaling=3.0, **PRECISE), 2),
    "class weights": (clone(LOGISTIC).set_params(class_weight={0: 2.0, 1: 0.5}), 2),
    "softmax": (LOGISTIC, 3),
    "softmax by lbfgs": (LogisticRegression(**PRECISE), 4),
    "ridge classifier": (RidgeClassifier(alpha=2.0), 2),
    "ridge classifier of three": (RidgeClassifier(alpha=0.1, class_weight={1: 3.0}), 3),
    "svm": (LinearSVC(C=0.3, intercept_scaling=2.0, tol=1e-12, max_iter=100_000, dual=False), 2),
    "svm of three": (LinearSVC(C=0.3, tol=1e-12, max_iter=100_000, dual=False), 3),
    "ridge": (Ridge(alpha=1.5, solver="cholesky"), 0),
    "least squares": (LinearRegression(), 0),
    "poisson": (PoissonRegressor(alpha=0.1, solver="newton-cholesky", **PRECISE), 0),
    "gamma": (GammaRegressor(alpha=0.2, solver="newton-cholesky", **PRECISE), 0),
}


def test_balanced_labels_have_weights_that_stay():
    X, y, _ = drawn(5, labels=3)
    for own in (
        clone(LOGISTIC).set_params(class_weight="balanced"),
        RidgeClassifier(class_weight="balanced"),
    ):
        model = from_sklearn(own.fit(X, y), X, y)
        assert gradient_norm(model) < 1e-6
        assert np.bincount(y, model.weights) == pytest.approx([20.0] * 3)


def fitted(name, weighted=False, seed=0):
    estimator, labels = ESTIMATORS[name]
    X, y, weights = drawn(seed, labels=max(labels, 2))
    if not labels:
        y = targets(X, seed) + (name == "gamma")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = clone(estimator).fit(X, y, sample_weight=weights if weighted else None)
    return own, X, y, weights if weighted else None


def scores(estimator, X):
    if hasattr(estimator, "decision_function"):
        return estimator.decision_function(X).reshape(len(X), -1)
    found = estimator.predict(X).reshape(len(X), -1)
    return np.log(found) if "Regressor" in type(estimator).__name__ else found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_scores_are_the_estimators_own(name, weighted):
    own, X, y, weights = fitted(name, weighted)
    model = from_sklearn(own, X, y, sample_weight=weights)
    points = np.random.default_rng(1).normal(1, 3, (200, 4))
    theirs = scores(own, points)
    assert np.abs(model.raw_scores(points) - theirs).max() <= 1e-12 * (1 + np.abs(theirs).max())
    if model.labels:
        assert model.answers(points).tolist() == own.predict(points).tolist()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_gradient_at_a_precise_estimator_is_small(name, weighted):
    own, X, y, weights = fitted(name, weighted)
    model = from_sklearn(own, X, y, sample_weight=weights)
    least = from_sklearn(own, X, y, sample_weight=weights, served="minimum")
    assert gradient_norm(model) < 1e-4
    assert gradient_norm(least) < 1e-9
    assert np.abs(model.coefficients - least.coefficients).max() < 1e-4
    # A wrong weight would show, unless all of them count alike.
    other = weights**2 if weighted else np.full(len(X), 1.7)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        wrong = from_sklearn(own, X, y, sample_weight=other)
    if weighted or name not in ("no penalty", "least squares", "poisson", "gamma"):
        assert gradient_norm(wrong) > 1e-3
        assert [str(each.message) for each in told if "gradient" in str(each.message)]


def without(model, unit):
    """Return the exact minimum without a unit, by Newton's method on the rows left."""
    kept = model.units != unit
    groups = model.groups
    smaller = replace(
        model, X=model.X[kept], y=model.y[kept], weights=model.weights[kept],
        names=model.names[kept],
        groups=None if groups is None else replace(groups, cells=groups.cells[kept]),
    )  # fmt: skip
    return coefficients_of(smaller.problems)


def assert_inside(family, unit, theta, spare=1e-9):
    """Assert that coefficients lie where a family says that a member is."""
    middle, first = centre(family, unit), 0
    for part in family.parts:
        last = first + part.problem.outputs
        apart = (theta - middle)[first:last].reshape(-1)
        first = last
        far = np.linalg.norm(np.linalg.solve(part.at.R, apart))
        assert far <= part.members.radius[unit] + spare


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_refits_of_scikit_learn_are_the_members(name, weighted):
    own, X, y, weights = fitted(name, weighted, seed=5)
    model = from_sklearn(own, X, y, sample_weight=weights, served="minimum")
    family, told = bound_members(model), 0
    for unit in range(0, len(X), 7):
        kept = np.arange(len(X)) != unit
        exact = without(model, unit)
        assert_inside(family, unit, exact)
        again, left = clone(own), None if weights is None else weights[kept]
        if hasattr(own, "alpha") and "Regressor" in type(own).__name__:
            # Theirs is a mean over the rows left.
            total = np.ones(len(X)) if weights is None else weights
            again.set_params(alpha=own.alpha * total.sum() / total[kept].sum())
        again.fit(X[kept], y[kept], sample_weight=left)
        points = np.random.default_rng(2).normal(1, 2, (50, 4))
        member = replace(model, coefficients=exact).raw_scores(points)
        assert np.abs(member - scores(again, points)).max() < 1e-4
        told += np.isfinite(max(part.members.radius[unit] for part in family.parts))
    assert told > 3


SCALED = ColumnTransformer(
    [("spline", SplineTransformer(4, degree=3), [0]), ("scale", RobustScaler(), [1, 3]),
     ("codes", OneHotEncoder(), [2])]
)  # fmt: skip
PIPELINES = {
    "standard": [StandardScaler()],
    "no mean": [StandardScaler(with_mean=False), MaxAbsScaler()],
    "no deviation": [StandardScaler(with_std=False), MinMaxScaler((-1, 2))],
    "robust": [RobustScaler(), FunctionTransformer(), "passthrough"],
    "splines": [SplineTransformer(5, degree=2, include_bias=False), StandardScaler()],
    "quantile splines": [SplineTransformer(4, knots="quantile")],
    "bins": [KBinsDiscretizer(3, encode="onehot-dense", quantile_method="averaged_inverted_cdf")],
    "components": [StandardScaler(), PCA(3, whiten=True), MinMaxScaler()],
    "best": [MinMaxScaler(), SelectKBest(k=2)],
    "best splines": [SplineTransformer(4), SelectKBest(k=7), PCA(4)],
    "columns": [SCALED],
    "columns and the rest": [
        ColumnTransformer(
            [("a", make_pipeline(StandardScaler(), PCA(1)), [3, 1]),
             ("b", OneHotEncoder(drop="first"), [2])],
            remainder="passthrough",
        ),
        StandardScaler(),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_scores_as_scikit_learn_does(name):
    X, y, _ = drawn(3)
    own = clone(make_pipeline(*PIPELINES[name], LOGISTIC)).fit(X, y)
    model = from_sklearn(own, X, y)
    points = drawn(4)[0]
    theirs = own.decision_function(points)
    assert np.abs(model.raw_scores(points)[:, 0] - theirs).max() <= 1e-12 * (1 + abs(theirs).max())
    assert gradient_norm(model) < 1e-6
    family, before = bound_members(model), own[:-1]
    for unit in (0, 9, 31):
        kept = np.arange(len(X)) != unit
        assert_inside(family, unit, without(model, unit))
        again = clone(LOGISTIC).fit(before.transform(X)[kept], y[kept])
        member = replace(model, coefficients=without(model, unit)).raw_scores(points)[:, 0]
        found = again.decision_function(before.transform(points))
        assert np.abs(member - found).max() < 1e-6


def test_names_of_columns_and_searches_are_read():
    pandas = pytest.importorskip("pandas")
    X, y, _ = drawn(3)
    frame = pandas.DataFrame(X, columns=list("abcd"))
    steps = ColumnTransformer([("s", StandardScaler(), ["d", "a"]), ("rest", "passthrough", ["b"])])
    search = GridSearchCV(make_pipeline(steps, LOGISTIC), {"logisticregression__C": [0.1, 1.0]})
    search.fit(frame, y)
    model = from_sklearn(search, frame, y, groups=pandas.Series(np.arange(60) // 2, name="who"))
    # Nothing reads column c.
    found = model.raw_scores(X[:, [0, 1, 3]])[:, 0]
    assert np.allclose(found, search.decision_function(frame), rtol=1e-12)
    assert model.groups is not None and model.groups.column == "who"
    assert len(bound_members(model)) == 30


def test_several_numbers_are_predicted_at_once():
    X, _, weights = drawn(3)
    Y = np.column_stack([targets(X, 0), targets(X, 1), X[:, 0] ** 2])
    own = Ridge(alpha=0.5, solver="svd").fit(X, Y, sample_weight=weights)
    model = from_sklearn(own, X, Y, sample_weight=weights)
    assert np.allclose(model.scores(X), own.predict(X), rtol=1e-12)
    assert gradient_norm(model) < 1e-8
    assert_inside(bound_members(model), 4, without(model, 4))


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize("labels", [2, 3])
def test_an_estimator_that_stops_early_says_so(loss, labels):
    X, y, _ = drawn(3, labels=labels)
    X = StandardScaler().fit_transform(X)
    own = SGDClassifier(loss=loss, alpha=0.1, max_iter=3000, tol=1e-8, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="gradient"):
        model = from_sklearn(own, X, y)
    assert model.tolerance == 0
    theirs = own.decision_function(X).reshape(len(X), -1)
    assert np.allclose(model.raw_scores(X), theirs, rtol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measured = from_sklearn(own, X, y, tolerance="measured")
    assert measured.tolerance == gradient_norm(model) > 0
    # Far from converged, and yet near what its minimum is told to be.
    least = from_sklearn(own, X, y, tolerance="measured", served="minimum")
    assert np.abs(least.coefficients - model.coefficients).max() < 0.5
    family = bound_members(least)
    assert_inside(family, 7, without(least, 7))


REFUSED = {
    "l1": lambda X, y: LogisticRegression(solver="liblinear", l1_ratio=1).fit(X, y),
    "hinge": lambda X, y: LinearSVC(loss="hinge").fit(X, y),
    "elastic": lambda X, y: SGDClassifier(loss="log_loss", penalty="elasticnet").fit(X, y),
    "hinge by steps": lambda X, y: SGDClassifier().fit(X, y),
    "positive": lambda X, y: Ridge(positive=True).fit(X, y),
    "alphas": lambda X, y: Ridge(alpha=np.array([1.0, 2.0])).fit(X, np.column_stack([y, y])),
    "lasso": lambda X, y: Lasso().fit(X, y),
    "not fitted": lambda X, y: LogisticRegression(),
    "clip": lambda X, y: make_pipeline(MinMaxScaler(clip=True), LOGISTIC).fit(X, y),
    "function": lambda X, y: make_pipeline(FunctionTransformer(np.abs), LOGISTIC).fit(X, y),
    "late splines": lambda X, y: make_pipeline(StandardScaler(), SplineTransformer(), LOGISTIC).fit(
        X, y
    ),
    "equal knots": lambda X, y: make_pipeline(SplineTransformer(8, knots="quantile"), LOGISTIC).fit(
        X.round(), y
    ),
    "ordinal": lambda X, y: make_pipeline(
        KBinsDiscretizer(3, encode="ordinal", quantile_method="linear"), LOGISTIC
    ).fit(X, y),
    "linear ends": lambda X, y: make_pipeline(
        SplineTransformer(extrapolation="linear"), LOGISTIC
    ).fit(X, y),
    "polynomials": lambda X, y: make_pipeline(PolynomialFeatures(), LOGISTIC).fit(X, y),
    "other columns": lambda X, y: clone(LOGISTIC).fit(X[:, :3], y),
    "other labels": lambda X, y: clone(LOGISTIC).fit(X, y + 5),
    "balanced and weighted": lambda X, y: (
        clone(LOGISTIC).set_params(class_weight="balanced").fit(X, y)
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_cure(name, snapshot):
    X, y, weights = drawn(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = REFUSED[name](X, y)
    with pytest.raises(LinearError) as told:
        from_sklearn(own, X, y, sample_weight=weights if "weighted" in name else None)
    assert str(told.value) == snapshot


def test_rows_that_are_not_the_estimators_own_are_refused():
    X, y, _ = drawn(3)
    own = clone(LOGISTIC).fit(X, y)
    for wrong in (np.full_like(X, np.nan), X.astype(str) + "a", X[:, 0]):
        with pytest.raises(LinearError):
            from_sklearn(own, wrong, y)
    with pytest.raises(LinearError):
        from_sklearn(own, X, y[:-1])
    own.decision_function = lambda X: np.zeros(len(X))
    with pytest.raises(LinearError):
        from_sklearn(own, X, y)
