"""How fast DaRE forests forget: the tables of Brophy and Lowd (ICML 2021), on this machine.

    python benchmarks/forest.py --data FOLDER [--only adult] [--trees 50] [--rows 0]

FOLDER holds ``adult.data`` and ``adult.test`` (with a header line) and
``online_shoppers_intention.csv``; the synthetic set needs no file. For each set: the time to fit
and to delete one row, chosen at random or as the costliest of 1,000; how many deletions fit into
one naive retraining; memory by part; and the test error, with random layers, without them, and of
scikit-learn's random forest. With ``--shares 1 0.2 0.1`` the table of shares and lazy growth.
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from leaveout.cores import cores
from leaveout.deadline import Deadline
from leaveout.models.forest import DareForestClassifier, first_difference

Floats = NDArray[np.float64]

_ADULT_WORDS = (
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex",
    "native-country",
)  # fmt: skip
_SHOPPERS_WORDS = (
    "Month", "OperatingSystems", "Browser", "Region", "TrafficType", "VisitorType", "Weekend",
)  # fmt: skip


@dataclass(frozen=True)
class Split:
    """A data set: rows to train on and rows to test on."""

    name: str
    X: Floats
    y: NDArray[np.int64]
    X_test: Floats
    y_test: NDArray[np.int64]


def _read(path: Path) -> dict[str, list[str]]:
    with path.open(newline="") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file)]
    head = rows[0]
    body = [row for row in rows[1:] if len(row) == len(head)]
    return {name: [row[i] for row in body] for i, name in enumerate(head)}


def _encoded(columns: dict[str, list[str]], label: str, words: tuple[str, ...]) -> Floats:
    """Return numbers as they are, and words as one column a category."""
    out: list[list[float]] = []
    for name, cells in columns.items():
        if name == label:
            continue
        if name in words:
            out += [[float(cell == word) for cell in cells] for word in sorted(set(cells))]
        else:
            out.append([float(cell) for cell in cells])
    return np.array(out).T


def adult(folder: Path) -> Split:
    """Return Adult in the paper's encoding: 107 attributes, ``education-num`` left out."""
    train, test = _read(folder / "adult.data"), _read(folder / "adult.test")
    both = {name: train[name] + test[name] for name in train if name != "education-num"}
    X = _encoded(both, "Y", _ADULT_WORDS)
    y = np.array([cell.startswith(">") for cell in both["Y"]], np.int64)
    n = len(train["Y"])
    return Split("adult", X[:n], y[:n], X[n:], y[n:])


def shoppers(folder: Path) -> Split:
    """Return online shoppers, numbered categories one-hot too; four fifths to train on."""
    columns = _read(folder / "online_shoppers_intention.csv")
    X = _encoded(columns, "Revenue", _SHOPPERS_WORDS)
    return _parted("shoppers", X, np.array([cell == "TRUE" for cell in columns["Revenue"]]))


def synthetic(rows: int) -> Split:
    """Return the paper's kind of synthetic set: 40 attributes, 5 informative, 5 redundant."""
    X, y = make_classification(
        rows * 5 // 4, 40, n_informative=5, n_redundant=5, n_clusters_per_class=2, flip_y=0.05,
        random_state=1,
    )  # fmt: skip
    return _parted("synthetic", X, y)


def _parted(name: str, X: Floats, y: NDArray[np.generic]) -> Split:
    order = np.random.default_rng(0).permutation(len(X))
    n = len(X) * 4 // 5
    train, test, labels = order[:n], order[n:], y.astype(np.int64)
    return Split(name, X[train], labels[train], X[test], labels[test])


def _clock(jobs: int) -> Callable[[], float]:
    """Return the clock: one thread's own time, which others on the machine do not lengthen."""
    return time.thread_time if jobs == 1 else time.perf_counter


def _delete_times(
    forest: DareForestClassifier, deletions: int, seconds: float, candidates: int
) -> list[float]:
    """Delete rows until there are enough, or time is up; return the seconds each took."""
    rng, times = np.random.default_rng(7), []
    clock = _clock(forest.n_jobs)
    end = Deadline.after(seconds)
    while len(times) < deletions and not end.over:
        rows = forest.rows_
        drawn = rng.choice(rows, min(candidates, len(rows)), replace=False)
        row = max(drawn, key=lambda r: forest.deletion_cost(int(r))) if candidates > 1 else drawn[0]
        start = clock()
        forest.delete(int(row))
        times.append(clock() - start)
    return times


def measure(split: Split, arguments: argparse.Namespace, d_rmax: int) -> None:
    """Print one forest's lines of the table."""
    settings = {
        "max_depth": arguments.depth, "k": arguments.k, "d_rmax": d_rmax, "random_state": 1,
        "n_jobs": arguments.jobs,
    }  # fmt: skip
    forest = DareForestClassifier(arguments.trees, **settings)
    clock = _clock(arguments.jobs)
    start = clock()
    forest.fit(split.X, split.y)
    fit = clock() - start
    error = 1.0 - forest.score(split.X_test, split.y_test)
    memory = "  ".join(f"{part} {size / 1e6:.1f}" for part, size in forest.memory().items())
    total = sum(forest.memory().values()) / 1e6
    print(f"  d_rmax {d_rmax}: fit {fit:.2f} s, test error {100 * error:.2f} %")
    print(f"    memory {total:.1f} MB: {memory}")
    for adversary, candidates in (("random", 1), ("worst of 1000", 1000)):
        forest.fit(split.X, split.y)
        times = _delete_times(forest, arguments.deletions, arguments.seconds, candidates)
        mean, (p50, p99) = float(np.mean(times)), np.quantile(times, (0.5, 0.99))
        print(
            f"    {adversary}: {len(times)} deletions, mean {1e3 * mean:.2f} ms, p50 "
            f"{1e3 * p50:.2f}, p99 {1e3 * p99:.2f}; {fit / mean:.0f} times naive retraining"
        )
        if arguments.check:
            found = first_difference(forest, forest.retrained())
            print(f"    equal to the forest trained on what is left: {found or 'yes'}")


def measure_alternating(split: Split, arguments: argparse.Namespace, q: float, lazy: bool) -> None:
    """Print what deletions take that are each followed by a prediction, and what a batch takes."""
    forest = DareForestClassifier(
        arguments.trees, max_depth=arguments.depth, k=arguments.k, random_state=1,
        n_jobs=arguments.jobs, q=q, lazy=lazy,
    )  # fmt: skip
    clock = _clock(arguments.jobs)
    start = clock()
    forest.fit(split.X, split.y)
    fit = clock() - start
    auc = _auc(split.y_test, forest.predict_proba(split.X_test)[:, 1])
    rng, times, ends = np.random.default_rng(7), [], []
    rows = rng.permutation(len(split.X))
    deadline = Deadline.after(arguments.seconds)
    for i, row in enumerate(rows[: arguments.deletions].tolist()):
        asked = split.X_test[i % len(split.X_test)][None]
        start = clock()
        forest.delete(row)
        middle = clock()
        forest.predict_proba(asked)
        times.append(middle - start)
        ends.append(clock() - start)
        if deadline.over:
            break
    if arguments.check:
        found = first_difference(forest, forest.retrained())
        print(f"    equal to the forest trained on what is left: {found or 'yes'}")
    forest.fit(split.X, split.y)
    batch = rows[: len(rows) // 100]
    start = clock()
    forest.delete(batch)
    middle = clock()
    forest.predict_proba(split.X_test[:1])
    end = clock()
    print(
        f"  q {q:g}, {'lazy' if lazy else 'eager'}: fit {fit:.2f} s, AUC {auc:.4f}; "
        f"{len(times)} deletions, mean {1e3 * np.mean(times):.2f} ms, with the next prediction "
        f"{1e3 * np.mean(ends):.2f}, p99 {1e3 * np.quantile(ends, 0.99):.2f}; 1 % in a batch "
        f"{1e3 * (middle - start):.0f} ms, with the next prediction {1e3 * (end - start):.0f}"
    )


def _auc(y: NDArray[np.int64], scores: Floats) -> float:
    return float(roc_auc_score(y, scores))


def _splits(arguments: argparse.Namespace) -> Iterator[Split]:
    for name in arguments.only:
        if name == "synthetic":
            split = synthetic(arguments.rows or 20_000)
        elif arguments.data is None:
            print(f"{name}: left out, no --data FOLDER")
            continue
        else:
            split = adult(arguments.data) if name == "adult" else shoppers(arguments.data)
        n = arguments.rows or len(split.X)
        yield Split(name, split.X[:n], split.y[:n], split.X_test, split.y_test)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the data files")
    sets = ["adult", "shoppers", "synthetic"]
    parser.add_argument("--only", nargs="+", choices=sets, default=sets)
    parser.add_argument("--rows", type=int, default=0, help="train on at most so many; 0: all")
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--random-depths", type=int, nargs="+", default=[0, 10])
    parser.add_argument("--deletions", type=int, default=500, help="at most, for each adversary")
    parser.add_argument("--seconds", type=float, default=20.0, help="at most, for each adversary")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--shares", type=float, nargs="+", default=[], metavar="Q",
        help="instead, for each share of the trees a row is in: deletions each followed by a "
        "prediction, eager and lazy, and 1 %% of the rows in a batch",
    )  # fmt: skip
    parser.add_argument("--check", action="store_true", help="compare with retraining at the end")
    arguments = parser.parse_args()
    print(f"{platform.machine()}, {cores()} cores, Python {platform.python_version()}")
    print(f"{arguments.trees} trees, depth {arguments.depth}, k {arguments.k}, "
          f"{arguments.jobs} thread(s); times are of the "
          f"{'processor' if arguments.jobs == 1 else 'clock'}")  # fmt: skip
    DareForestClassifier(1).fit([[0.0, 0.5], [1.0, 0.2], [0.0, 0.1]], [0, 1, 0]).delete(0).predict(
        [[0.0, 0.0]]
    )
    for split in _splits(arguments):
        print(f"{split.name}: {split.X.shape[0]} x {split.X.shape[1]}, "
              f"{100 * split.y.mean():.1f} % positive")  # fmt: skip
        for q in arguments.shares:
            for lazy in (False, True):
                measure_alternating(split, arguments, q, lazy)
        if arguments.shares:
            continue
        clock = _clock(arguments.jobs)
        start = clock()
        theirs = RandomForestClassifier(
            arguments.trees, max_depth=arguments.depth, random_state=1, n_jobs=arguments.jobs
        ).fit(split.X, split.y)
        took, error = clock() - start, 1.0 - theirs.score(split.X_test, split.y_test)
        print(f"  scikit-learn's random forest: fit {took:.2f} s, test error {100 * error:.2f} %")
        for d_rmax in arguments.random_depths:
            measure(split, arguments, d_rmax)


if __name__ == "__main__":
    main()
