"""Readers of trees against the libraries that trained them: how many scores and labels differ.

    python benchmarks/tree_readers.py [--rows 1000000] [--trees 20] [--only LIBRARY ...]

A line for each kind of model: the inputs compared, how many scores differ from the library's raw
ones, the largest difference and how far it may be, how many labels differ, and how many of those
are not ties. Inputs are random, at thresholds, at both their neighbours among float64 and float32
values, missing, huge, and categories that are negative, fractional, or unknown.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.kernel.trees import Ensemble
from leaveout.models.trees.reading import of_model

from tree_inputs import hard_inputs

AT_ONCE = 100_000
WIDTHS = (14, 7, 38, 8, 11, 9, 9, 10, 10, 7, 7)
HEAD = (
    "library", "version", "objective", "missing", "categories", "inputs", "differ", "largest",
    "allowed", "labels", "untied",
)  # fmt: skip
LIBRARIES = {
    "xgboost": "xgboost-cpu", "lightgbm": "lightgbm", "catboost": "catboost",
    "sklearn": "scikit-learn", "interpret": "interpret-core",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model, and how to ask its library; labels are indices."""

    objective: str
    ensemble: Ensemble
    scores: Callable[[NDArray[Any]], Any]
    labels: Callable[[NDArray[Any]], Any] | None = None
    missing: bool = True
    categories: bool = False
    huge: float = 3e38


def table(
    *, labels: int, missing: bool = True, categories: bool = False, rows: int = 1500
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return random inputs, the last column categories, and labels that depend on them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 6)) * 10.0 ** np.array([-3, 0, 0, 2, 5, 0])
    if categories:
        X[:, 5] = rng.integers(0, 40, rows)
    y = (X[:, 1] + X[:, 2] * X[:, 0] * 1e3 + (X[:, 5] % 3) + rng.normal(size=rows)) * 0.7
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, np.clip(np.floor(y + labels / 2), 0, labels - 1).astype(np.int64)


def xgboost_cases(trees: int) -> Iterator[Case]:
    """Boosters by objective."""
    import xgboost

    for objective, labels, categories, more in (
        ("binary:logistic", 2, False, {}),
        ("binary:logistic", 2, True, {}),
        ("binary:logistic", 2, True, {"max_cat_to_onehot": 100}),
        ("binary:logistic", 2, False, {"booster": "dart", "rate_drop": 0.2}),
        ("binary:logistic", 2, False, {"num_parallel_tree": 3, "subsample": 0.6}),
        ("binary:hinge", 2, False, {}),
        ("multi:softprob", 3, True, {}),
        ("multi:softmax", 3, False, {}),
        ("reg:squarederror", 5, True, {}),
        ("reg:absoluteerror", 5, False, {}),
        ("count:poisson", 5, False, {}),
    ):
        X, y = table(labels=labels, categories=categories)
        types = ["q"] * 5 + ["c" if categories else "q"]
        asked = {"objective": objective, "nthread": 2, "max_depth": 5, **more}
        if objective.startswith("multi:"):
            asked["num_class"] = labels

        def give(X: Any, y: Any = None, types: Any = types) -> Any:
            return xgboost.DMatrix(X, y, feature_types=types, enable_categorical=True, nthread=2)

        model = xgboost.train(asked, give(X, y), trees)

        def answer(X: Any, model: Any = model, give: Any = give, name: str = objective) -> Any:
            found = model.predict(give(X))
            if found.ndim > 1:
                return found.argmax(axis=1)
            return found > 0.5 if name == "binary:logistic" else found.astype(np.int64)

        yield Case(
            " ".join([objective, *(f"{key}={value}" for key, value in list(more.items())[:1])]),
            of_model(model),
            lambda X, model=model, give=give: model.predict(give(X), output_margin=True),
            answer if objective[:3] in ("bin", "mul") else None,
            categories=categories,
        )


def lightgbm_cases(trees: int) -> Iterator[Case]:
    """Boosters by objective."""
    import lightgbm

    for objective, labels, categories, more in (
        ("binary", 2, False, {}),
        ("binary", 2, True, {}),
        ("binary", 2, False, {"zero_as_missing": True}),
        ("binary", 2, False, {"use_missing": False}),
        ("binary", 2, False, {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}),
        ("binary", 2, False, {"sigmoid": 3.0}),
        ("multiclass", 3, True, {}),
        ("multiclassova", 3, False, {}),
        ("regression", 5, True, {}),
        ("regression_l1", 5, False, {}),
        ("poisson", 5, False, {}),
    ):
        X, y = table(labels=labels, categories=categories)
        if "zero_as_missing" in more:
            X[np.random.default_rng(1).random(X.shape) < 0.3] = 0.0
        asked = {"objective": objective, "num_threads": 2, "verbose": -1, "num_leaves": 24, **more}
        if objective.startswith("multiclass"):
            asked["num_class"] = labels
        given = lightgbm.Dataset(X, y, categorical_feature=[5] if categories else [])
        model = lightgbm.train(asked, given, trees if "zero_as_missing" not in more else 10)
        found = of_model(model)

        def answer(X: Any, model: Any = model) -> Any:
            values = model.predict(X)
            return values.argmax(axis=1) if values.ndim > 1 else values > 1 - values

        yield Case(
            " ".join([objective, *(f"{key}={value}" for key, value in list(more.items())[:1])]),
            found,
            lambda X, model=model, by=found.divisor: model.predict(X, raw_score=True) / by,
            answer if objective[:3] in ("bin", "mul") else None,
            categories=categories,
            huge=1e308,
        )


def catboost_cases(trees: int) -> Iterator[Case]:
    """Models by loss."""
    import catboost

    for loss, labels, more in (
        ("Logloss", 2, {}),
        ("Logloss", 2, {"nan_mode": "Max"}),
        ("Logloss", 2, {"grow_policy": "Lossguide"}),
        ("MultiClass", 3, {}),
        ("MultiClassOneVsAll", 3, {}),
        ("RMSE", 5, {}),
        ("Poisson", 5, {}),
    ):
        model = catboost.CatBoost({
            "loss_function": loss, "iterations": trees, "depth": 5, "verbose": False,
            "thread_count": 2, "allow_writing_files": False, **more,
        }).fit(*table(labels=labels))  # fmt: skip
        yield Case(
            " ".join([loss, *(f"{key}={value}" for key, value in more.items())]),
            of_model(model),
            lambda X, model=model: model.predict(X, prediction_type="RawFormulaVal"),
            None if labels == 5 else lambda X, model=model: np.reshape(
                model.predict(X, prediction_type="Class"), -1).astype(np.int64),
        )  # fmt: skip


def sklearn_cases(trees: int) -> Iterator[Case]:
    """Estimators of every kind."""
    from sklearn import ensemble, tree

    boosting = ensemble.GradientBoostingClassifier
    histogram, regression = (
        ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor,
    )  # fmt: skip
    for kind, labels, missing, categories, more in (
        (histogram, 2, True, False, {}),
        (histogram, 2, True, True, {}),
        (histogram, 3, True, True, {}),
        (regression, 5, True, True, {}),
        (regression, 5, False, False, {"loss": "poisson"}),
        (boosting, 2, False, False, {}),
        (boosting, 3, False, False, {}),
        (boosting, 2, False, False, {"loss": "exponential"}),
        (ensemble.GradientBoostingRegressor, 5, False, False, {}),
        (ensemble.RandomForestClassifier, 3, True, False, {}),
        (ensemble.ExtraTreesClassifier, 3, True, False, {}),
        (ensemble.RandomForestRegressor, 5, True, False, {}),
        (tree.DecisionTreeClassifier, 3, True, False, {}),
    ):
        X, y = table(labels=labels, missing=missing, categories=categories)
        name = kind.__name__
        if name.startswith("Hist"):
            more = {**more, "max_iter": trees, "categorical_features": [5] if categories else None}
        elif "Tree" not in name or name == "ExtraTreesClassifier":
            more = {**more, "n_estimators": trees}
        model = kind(**more, random_state=0).fit(X, y)
        classifies = name.endswith("Classifier")
        ask = model._raw_predict if "loss" in more else model.predict
        if classifies and "Boosting" in name:
            ask = model.decision_function
        elif classifies:
            ask = model.predict_proba
        yield Case(
            f"{name} {more.get('loss', '')}".strip(),
            of_model(model),
            ask,
            model.predict if classifies else None,
            missing=missing,
            categories=categories,
            huge=1e300 if name.startswith("Hist") else 3e38,
        )


def interpret_cases(trees: int) -> Iterator[Case]:
    """Explainable boosting machines."""
    from interpret import glassbox

    for kind, labels, categories, interactions in (
        (glassbox.ExplainableBoostingClassifier, 2, False, 0),
        (glassbox.ExplainableBoostingClassifier, 2, True, 3),
        (glassbox.ExplainableBoostingClassifier, 3, True, 0),
        (glassbox.ExplainableBoostingRegressor, 5, False, 2),
    ):
        types = ["continuous"] * 5 + ["nominal" if categories else "continuous"]
        model = kind(
            interactions=interactions, max_rounds=trees, outer_bags=2, max_bins=64, n_jobs=1,
            max_interaction_bins=16, feature_types=types,
        ).fit(*table(labels=labels, categories=categories))  # fmt: skip
        yield Case(
            f"{kind.__name__.removeprefix('Explainable')} {interactions} pairs",
            of_model(model),
            model._predict_score,
            model.predict if labels < 5 else None,
            categories=categories,
            huge=1e308,
        )


def compare(case: Case, rows: int) -> tuple[int, float, int, int]:
    """Return how many scores differ, the most, and how many labels, all and those not tied."""
    rng, ensemble = np.random.default_rng(1), case.ensemble
    scores, largest, labels, untied = 0, 0.0, 0, 0
    room = ensemble.tie + (0.0 if ensemble.ordered else 2.0 * float(ensemble.rounding().max()))
    for first in range(0, rows, AT_ONCE):
        count = min(AT_ONCE, rows - first)
        X = hard_inputs(ensemble, rng, count, missing=case.missing, huge=case.huge)
        found = ensemble.scores(X)
        theirs = np.asarray(case.scores(X), np.float64).reshape(found.shape)
        wrong = np.where(found == theirs, 0.0, np.nan_to_num(np.abs(found - theirs), nan=np.inf))
        scores, largest = scores + int((wrong > 0).sum()), max(largest, float(wrong.max()))
        if case.labels is not None:
            differ = ensemble.answers(X) != case.labels(X)
            last = np.sort(found, axis=1)
            gap = np.abs(last[:, 0] - ensemble.center)
            if last.shape[1] > 1:
                gap = last[:, -1] - last[:, -2]
            labels, untied = labels + int(differ.sum()), untied + int((differ & (gap > room)).sum())
    return scores, largest, labels, untied


def line(cells: tuple[Any, ...]) -> str:
    """Return cells in columns."""
    return " ".join(str(cell).ljust(width) for cell, width in zip(cells, WIDTHS, strict=True))


def main() -> None:
    """Read the options, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="inputs of each model")
    parser.add_argument("--trees", type=int, default=20, help="rounds of training")
    parser.add_argument("--only", nargs="*", choices=LIBRARIES, default=list(LIBRARIES))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(line(HEAD))
    for library in arguments.only:
        for case in globals()[f"{library}_cases"](arguments.trees):
            scores, largest, labels, untied = compare(case, arguments.rows)
            allowed = 0.0 if case.ensemble.ordered else float(case.ensemble.rounding().max())
            cells = (
                LIBRARIES[library], version(LIBRARIES[library]), case.objective,
                "yes" if case.missing else "no", "yes" if case.categories else "no",
                arguments.rows, scores, f"{largest:.1e}", f"{allowed:.1e}",
                "-" if case.labels is None else labels, "-" if case.labels is None else untied,
            )  # fmt: skip
            print(line(cells), flush=True)
            if largest > allowed or untied:
                raise SystemExit(f"{case.objective}: differs by more than may be")


if __name__ == "__main__":
    main()
