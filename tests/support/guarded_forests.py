"""Folders of forests that a guard can serve, and what is true of them by really deleting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from leaveout.models.forest import DareForestClassifier

from support.forest_families import member_by_deleting


@dataclass(frozen=True)
class ServedForest:
    """A folder, and the forest in it."""

    folder: Path
    forest: DareForestClassifier

    @cached_property
    def members(self):
        return [member_by_deleting(self.forest, row) for row in self.forest.rows_.tolist()]

    def answers(self, points: np.ndarray) -> np.ndarray:
        """Labels of the forest, and of each that one row's deletion leaves."""
        own = self.forest.predict_proba(points).argmax(axis=1)
        return np.array(
            [own, *(each.probabilities(points).argmax(axis=1) for each in self.members)]
        )

    def truth(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Labels of the forest, and whether some row's deletion changes them."""
        answers = self.answers(points.astype(np.float64))
        return answers[0], (answers[1:] != answers[0]).any(axis=0)


def noisy_rows(seed: int, rows: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the unit square, three labels by region, some of them wrong."""
    rng = np.random.default_rng(seed)
    X = rng.random((rows, 2))
    y = np.where(X[:, 0] > 0.55, 2, (X[:, 1] > 0.5).astype(int))
    return X, np.where(rng.random(rows) < 0.15, rng.integers(0, 3, rows), y)


def forest_folder(folder: Path, seed: int = 4, trees: int = 10) -> ServedForest:
    X, y = noisy_rows(seed)
    forest = DareForestClassifier(trees, max_depth=5, k=3, random_state=seed).fit(X, y)
    folder.mkdir(parents=True, exist_ok=True)
    forest.save(folder / "forest.npz")
    return ServedForest(folder, forest)


def random_forest(seed: int) -> tuple[DareForestClassifier, np.random.Generator]:
    """A very small forest of whatever kind."""
    rng = np.random.default_rng(seed)
    rows, features = int(rng.integers(2, 15)), int(rng.integers(1, 4))
    X = rng.integers(0, 4, (rows, features)).astype(float)
    y = rng.integers(0, rng.integers(1, 5), rows)
    forest = DareForestClassifier(
        int(rng.integers(1, 7)),
        max_depth=[None, 1, 2, 4][rng.integers(4)],
        k=int(rng.integers(1, 4)),
        d_rmax=int(rng.integers(0, 3)),
        criterion=["gini", "entropy"][rng.integers(2)],
        random_state=int(rng.integers(2**31)),
    )
    return forest.fit(X, y), rng


def cells(forests: list, features: int) -> np.ndarray:
    """A point of each cell that the thresholds of some forests make, and points on their edges."""
    sides = []
    for at in range(features):
        cuts = [tree.threshold[tree.feature == at] for each in forests for tree in each.trees]
        found = np.unique(np.concatenate([*cuts, [0.0]]))
        middles = (found[1:] + found[:-1]) / 2
        sides.append(np.unique([*found, *middles, found[0] - 1, found[-1] + 1]))
    return np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, features)
