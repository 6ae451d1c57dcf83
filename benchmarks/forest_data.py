"""The data sets that forests are timed on, and how they are handed to other processes."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification

__all__ = ["SETS", "Split", "write_split"]

Floats = NDArray[np.float64]

_ADULT_WORDS = (
    "workclass", "education", "marital-status", "occupation", "relationship", "race", "sex",
    "native-country",
)  # fmt: skip
_SHOPPERS_WORDS = (
    "Month", "OperatingSystems", "Browser", "Region", "TrafficType", "VisitorType", "Weekend",
)  # fmt: skip
_TESTED = 100_000
"""Most rows that are kept to test on."""


@dataclass(frozen=True)
class Split:
    """A data set: rows to train on and rows to test on; labels are 0 and 1."""

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


def _adult(folder: Path) -> Split:
    """Return Adult in the paper's encoding: 107 attributes, ``education-num`` left out."""
    train, test = _read(folder / "adult.data"), _read(folder / "adult.test")
    both = {name: train[name] + test[name] for name in train if name != "education-num"}
    X = _encoded(both, "Y", _ADULT_WORDS)
    y = np.array([cell.startswith(">") for cell in both["Y"]], np.int64)
    n = len(train["Y"])
    return Split(X[:n], y[:n], X[n:], y[n:])


def _shoppers(folder: Path) -> Split:
    """Return online shoppers, numbered categories one-hot too; four fifths to train on."""
    columns = _read(folder / "online_shoppers_intention.csv")
    X = _encoded(columns, "Revenue", _SHOPPERS_WORDS)
    return _parted(X, np.array([cell == "TRUE" for cell in columns["Revenue"]]))


def _credit(folder: Path) -> Split:
    """Return defaults of credit-card clients: 23 numeric attributes, as the file divides them."""
    with np.load(folder / "credit_lucid23.npz") as arrays:
        return Split(
            arrays["X_train"].astype(np.float64), arrays["y_train"].astype(np.int64),
            arrays["X_test"].astype(np.float64), arrays["y_test"].astype(np.int64),
        )  # fmt: skip


def _synthetic(rows: int, folder: Path | None) -> Split:
    """Return the paper's kind of synthetic set: 40 attributes, 5 informative, 5 redundant."""
    X, y = make_classification(
        rows * 5 // 4, 40, n_informative=5, n_redundant=5, n_clusters_per_class=2, flip_y=0.05,
        random_state=1,
    )  # fmt: skip
    return _parted(X, y)


def _parted(X: Floats, y: NDArray[np.generic]) -> Split:
    order = np.random.default_rng(0).permutation(len(X))
    n = len(X) * 4 // 5
    train, test, labels = order[:n], order[n : n + _TESTED], y.astype(np.int64)
    return Split(X[train], labels[train], X[test], labels[test])


SETS: dict[str, Callable[[Path], Split]] = {
    "adult": _adult,
    "shoppers": _shoppers,
    "credit": _credit,
    "synthetic-10k": partial(_synthetic, 10_000),
    "synthetic-100k": partial(_synthetic, 100_000),
    "synthetic-1m": partial(_synthetic, 1_000_000),
}
"""Each set's name, and the function that reads it from the folder of the data files, or makes it
without one."""


def write_split(split: Split, folder: Path, deletions: int, seed: int = 7) -> None:
    """Write a set as arrays that every program reads, and what is asked of all of them.

    ``single`` are the rows deleted one by one, ``asked`` the test row predicted after each,
    ``batch`` the 1 % deleted at once, and ``probe`` the test rows predicted after that.
    """
    rng = np.random.default_rng(seed)
    n, tested = len(split.X), len(split.X_test)
    order = rng.permutation(n)
    single = min(deletions, n // 2)
    arrays = {
        "X": np.ascontiguousarray(split.X, np.float64),
        "y": split.y.astype(np.int32),
        "X_test": np.ascontiguousarray(split.X_test, np.float64),
        "single": order[:single].astype(np.int32),
        "batch": order[single : single + n // 100].astype(np.int32),
        "asked": rng.integers(0, tested, single).astype(np.int32),
        "probe": rng.permutation(tested)[:1000].astype(np.int32),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
