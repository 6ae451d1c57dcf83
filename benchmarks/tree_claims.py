"""The greatest and least score of boosted trees near rows, beside Veritas where it is installed.

    python benchmarks/tree_claims.py --data online_shoppers_intention.csv --label Revenue

Without --data it is scikit-learn's breast-cancer table. One thread; CPU seconds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xgboost import XGBClassifier

from leaveout.arrays import Floats
from leaveout.bab.forests.ensemble_search import Point, Search, Target
from leaveout.deadline import Deadline
from leaveout.encoders.box import Box
from leaveout.encoders.forests.ensembles import Applied, encode
from leaveout.encoders.query import Form
from leaveout.models.trees.reading import of_model

_CLOSED = 1e-3


@dataclass(frozen=True)
class Ends:
    """A search's result."""

    lower: float
    upper: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.lower:9.4f} {self.upper:9.4f} {self.seconds:7.2f}"


class Ours:
    """leaveout's search."""

    def __init__(self, model: XGBClassifier) -> None:
        self.ensemble = of_model(model)

    def bound(self, lower: Floats, upper: Floats, sign: float, seconds: float) -> Ends:
        """Bound the greatest score, or its negative, in a box."""
        begun = time.process_time()
        form, none = Form((), ((0, 0, sign),), 0.0), np.zeros(len(lower), np.bool_)
        sums = encode([Applied(self.ensemble, 0)], [Box(lower, upper)], [form], (), (), [none])

        def replay(points: list[Floats]) -> Point:
            return Point(tuple(points), sign * float(self.ensemble.scores(points[0][None])[0, 0]))

        found = Search(
            Target(sums, np.zeros(1, np.bool_), 1), replay, gap=1e-4,
            deadline=Deadline.after(seconds),
        ).run()  # fmt: skip
        return Ends(found.lower, found.upper, time.process_time() - begun)


class Veritas:
    """The search of dtai-veritas, of the same trees without their base score."""

    def __init__(self, model: XGBClassifier) -> None:
        import contextlib
        import io

        import veritas

        with contextlib.redirect_stdout(io.StringIO()):
            self.trees = veritas.get_addtree(model)
        self.veritas = veritas

    def bound(self, lower: Floats, upper: Floats, sign: float, seconds: float) -> Ends:
        """Bound the greatest score, or its negative, in a box."""
        veritas = self.veritas
        trees = self.trees if sign > 0 else self.trees.negate_leaf_values()
        config = veritas.Config(veritas.HeuristicType.MAX_OUTPUT)
        config.stop_when_optimal = True
        above = np.nextafter(upper.astype(np.float32), np.float32(np.inf))
        box = {
            at: veritas.Interval(float(low), float(high))
            for at, (low, high) in enumerate(zip(lower, above, strict=True))
        }
        begun = time.process_time()
        search = config.get_search(trees, box)
        search.step_for(seconds, 1000)
        seconds, bounds = time.process_time() - begun, search.current_bounds()
        found = search.num_solutions() > 0
        lower = search.get_solution(0).output if found else -np.inf
        return Ends(lower, lower if search.is_optimal() else bounds.best, seconds)


def read(path: Path | None, label: str) -> tuple[Floats, Floats]:
    """Return numbers scaled to [0, 1], and labels."""
    if path is None:
        from sklearn.datasets import load_breast_cancer

        X, y = load_breast_cancer(return_X_y=True)
    else:
        import pandas

        table = pandas.read_csv(path)
        y = table.pop(label).astype("category").cat.codes.to_numpy()
        X = table.select_dtypes(["number", "bool"]).to_numpy(np.float64)
    X = (X - X.min(axis=0)) / np.maximum(X.max(axis=0) - X.min(axis=0), 1e-12)
    return X.astype(np.float32).astype(np.float64), y


def main() -> None:
    """Print a row a search."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="a CSV; its numbers are used")
    parser.add_argument("--label", default="Revenue", help="the column to predict")
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--rows", type=int, default=3, help="rows around which is searched")
    parser.add_argument("--distances", type=float, nargs="+", default=[0.02, 0.05, 0.1, 1.0])
    parser.add_argument("--time", type=float, default=10.0, help="seconds a search")
    given = parser.parse_args()
    X, y = read(given.data, given.label)
    train = len(X) * 4 // 5
    model = XGBClassifier(
        n_estimators=given.trees, max_depth=given.depth, learning_rate=0.1, n_jobs=1
    ).fit(X[:train], y[:train])
    searches: dict[str, Ours | Veritas] = {"leaveout": Ours(model)}
    try:
        searches["veritas"] = Veritas(model)
    except ImportError:
        print("veritas is not installed: pip install dtai-veritas")
    searches["leaveout"].bound(X[0], X[0] + 0.1, 1.0, 1.0)  # compiles
    heads = f"{'search':<8} {'lower':>9} {'upper':>9} {'CPU s':>7}"
    print(f"{'distance':>8} {'row':>5} {'sign':>4}  {heads}")
    closed: dict[tuple[str, float], int] = {}
    for distance in given.distances:
        for row in range(train, train + given.rows):
            lower = np.maximum(X[row] - distance, 0.0)
            upper = np.minimum(X[row] + distance, 1.0)
            for sign in (1.0, -1.0):
                for name, search in searches.items():
                    ends = search.bound(lower, upper, sign, given.time)
                    print(f"{distance:8g} {row:5d} {sign:4.0f}  {name:<8} {ends}", flush=True)
                    key = name, distance
                    closed[key] = closed.get(key, 0) + (ends.upper - ends.lower <= _CLOSED)
    for (name, distance), count in closed.items():
        print(f"{name}: {count} of {2 * given.rows} closed at distance {distance:g}")


if __name__ == "__main__":
    main()
