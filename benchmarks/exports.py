"""Exports of real models by skl2onnx and onnxmltools: how many are the model, proved or refuted.

Every difference is an example that both libraries were asked about. Run it from the environment of
the tests: ``python benchmarks/exports.py``; ``--tables DIR`` adds the Adult and shoppers tables.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType as SklearnFloats
from sklearn import datasets, ensemble, tree

from leaveout.errors import TreesError
from leaveout.verifier.compare import Comparison, compare

Task = tuple[str, np.ndarray, np.ndarray, bool]
"""A name, inputs, outcomes, and whether they are labels."""

ENDS = ("equal", "equal without gaps", "different", "unknown", "not read")
_SEEN = 1e-5


def small_tasks() -> Iterator[Task]:
    """Yield scikit-learn's own data sets."""
    for name in ("breast_cancer", "iris", "wine", "digits", "diabetes"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, X, y, name != "diabetes"


def tables(folder: Path) -> Iterator[Task]:
    """Yield Adult and shoppers, words as numbers."""
    import pandas

    adult = pandas.read_csv(folder / "adult.data", skipinitialspace=True)
    shop = pandas.read_csv(folder / "online_shoppers_intention.csv")
    for name, frame in (("adult", adult), ("shoppers", shop)):
        codes = frame.apply(
            lambda each: each if each.dtype.kind in "if" else each.astype("category").cat.codes
        ).to_numpy(np.float64)
        yield name, codes[:, :-1], codes[:, -1].astype(int), True


def kinds(labels: bool, rounds: int, seed: int) -> dict[str, Callable[[], Any]]:
    """Return models to train, by name."""
    many = {"n_estimators": rounds, "random_state": seed}
    depth = 3 + seed % 4
    if labels:
        return {
            "HistGradientBoosting": lambda: ensemble.HistGradientBoostingClassifier(
                max_iter=rounds, max_depth=depth, random_state=seed
            ),
            "GradientBoosting": lambda: ensemble.GradientBoostingClassifier(
                **many, max_depth=depth, subsample=0.8
            ),
            "RandomForest": lambda: ensemble.RandomForestClassifier(**many),
            "ExtraTrees": lambda: ensemble.ExtraTreesClassifier(**many),
            "DecisionTree": lambda: tree.DecisionTreeClassifier(random_state=seed),
            "XGBoost": lambda: xgboost.XGBClassifier(**many, max_depth=depth, subsample=0.8),
            "LightGBM": lambda: lightgbm.LGBMClassifier(**many, max_depth=depth, verbose=-1),
        }
    return {
        "HistGradientBoosting": lambda: ensemble.HistGradientBoostingRegressor(
            max_iter=rounds, max_depth=depth, random_state=seed
        ),
        "GradientBoosting": lambda: ensemble.GradientBoostingRegressor(
            **many, max_depth=depth, subsample=0.8
        ),
        "RandomForest": lambda: ensemble.RandomForestRegressor(**many),
        "ExtraTrees": lambda: ensemble.ExtraTreesRegressor(**many),
        "DecisionTree": lambda: tree.DecisionTreeRegressor(random_state=seed),
        "XGBoost": lambda: xgboost.XGBRegressor(**many, max_depth=depth, subsample=0.8),
        "LightGBM": lambda: lightgbm.LGBMRegressor(**many, max_depth=depth, verbose=-1),
    }


def export(model: Any, features: int) -> Any:
    """Return a model as its converter writes it."""
    library = type(model).__module__.partition(".")[0]
    if library == "sklearn":
        return to_onnx(model, initial_types=[("x", SklearnFloats([None, features]))])
    convert = onnxmltools.convert_xgboost if library == "xgboost" else onnxmltools.convert_lightgbm
    return convert(model, initial_types=[("x", FloatTensorType([None, features]))], target_opset=15)


def measure_large() -> None:
    """Print what 500 trees of depth 8 cost, with files read where they are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    y = (X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + 0.3 * rng.normal(size=len(X)) > 0).astype(int)
    many = {"n_estimators": 500, "max_depth": 8, "n_jobs": 2}
    models = (
        xgboost.XGBClassifier(**many, min_child_weight=0, reg_lambda=0.1),
        lightgbm.LGBMClassifier(**many, num_leaves=256, min_child_samples=5, verbose=-1),
        ensemble.HistGradientBoostingClassifier(
            max_iter=500, max_depth=8, max_leaf_nodes=256, min_samples_leaf=5, early_stopping=False
        ),
    )
    for model in models:
        exported = export(model.fit(X, y), X.shape[1])
        start = time.process_time()
        found = compare(model, exported)
        seconds = time.process_time() - start
        print(f"{type(model).__name__:<32}{found.verdict:<10}{seconds:.1f} s of CPU")


def end_of(found: Comparison) -> str:
    """Return how a comparison ended; a difference counts once both libraries show it."""
    if found.verdict == "proved":
        return "equal"
    if found.example is None or len(found.example.replays) < 2:
        return "unknown"
    one, other = found.example.replays
    size = min(len(one.values), len(other.values))
    gap = np.abs(np.array(one.values[-size:]) - np.array(other.values[-size:])).max()
    if found.verdict != "refuted" or not (one.expected and other.expected and gap > _SEEN):
        return "unknown"
    gaps = any(each.startswith("without missing values: proved") for each in found.notes)
    return "equal without gaps" if gaps else "different"


def main() -> None:
    """Train, export and compare; print a table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seeds", type=int, default=6, help="models of each kind and data set")
    asked.add_argument("--rounds", type=int, default=25, help="trees, or rounds of boosting")
    asked.add_argument("--tables", type=Path, help="folder of the Adult and shoppers tables")
    asked.add_argument("--sets", type=int, default=5, help="how many data sets of scikit-learn")
    asked.add_argument("--large", action="store_true", help="500 trees of depth 8 instead")
    given = asked.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    if given.large:
        measure_large()
        return
    counts: dict[str, Counter[str]] = {}
    slowest: dict[str, float] = {}
    answers: Counter[str] = Counter()
    tasks = [*small_tasks()][: given.sets]
    if given.tables is not None:
        tasks += tables(given.tables)
    for _, X, y, labels in tasks:
        for seed in range(given.seeds):
            for kind, make in kinds(labels, given.rounds, seed).items():
                model = make().fit(X, y)
                exported = export(model, X.shape[1])
                start = time.process_time()
                try:
                    found = compare(model, exported)
                    end = end_of(found)
                except TreesError:
                    end = "not read"
                seconds = time.process_time() - start
                counts.setdefault(kind, Counter())[end] += 1
                slowest[kind] = max(slowest.get(kind, 0.0), seconds)
                if end == "different" and found.example is not None:
                    pair = found.example.answers
                    answers[kind] += pair[0] != pair[1]
    print(
        f"{'exports of':<22}" + "".join(f"{each:>20}" for each in (*ENDS, "other label", "CPU s"))
    )
    for kind, count in counts.items():
        cells = [*(str(count[end]) for end in ENDS), str(answers[kind]), f"{slowest[kind]:.2f}"]
        print(f"{kind:<22}" + "".join(f"{each:>20}" for each in cells))
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"{'all':<22}" + "".join(f"{total[end]:>20}" for end in ENDS))


if __name__ == "__main__":
    main()
