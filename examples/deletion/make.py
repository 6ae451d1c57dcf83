"""Make what deletion.spec is about, from scikit-learn's breast-cancer data.

    python examples/deletion/make.py

A forest; the rows whose deletion is checked; and an audit: in each trial an ensemble of models on
shards forgets five patients by training the shards that held them again, and another is trained
without them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from leaveout.models.forest import DareForestClassifier

HERE = Path(__file__).parent
SHARDS, TRIALS, FORGOTTEN = 5, 400, 5


Rows = NDArray[np.int64]


def fitted(X: NDArray[np.float64], y: Rows, rows: Rows) -> LogisticRegression:
    """Train a model on some rows."""
    return LogisticRegression().fit(X[rows], y[rows])


def posteriors(models: list[LogisticRegression], X: NDArray[np.float64]) -> NDArray[np.float32]:
    """Average what models say."""
    found: NDArray[np.float64] = np.mean([model.predict_proba(X) for model in models], axis=0)
    return found.astype(np.float32)


def forget(X: NDArray[np.float64], y: Rows, shard: Rows, held: Rows, gone: Rows) -> list:
    """Train on everything, a model a shard; then train the shards of what is gone again."""
    everything = np.concatenate([held, gone])
    models = [fitted(X, y, everything[shard[everything] == k]) for k in range(SHARDS)]
    for k in np.unique(shard[gone]):
        models[k] = fitted(X, y, held[shard[held] == k])
    return models


def main() -> None:
    """Write the files."""
    X, y = load_breast_cancer(return_X_y=True)
    DareForestClassifier(10, k=5, d_rmax=1, max_depth=10, random_state=0).fit(X, y).save(
        HERE / "forest.npz"
    )
    rng = np.random.default_rng(0)
    deleted = [*map(str, rng.choice(len(X), 20, replace=False)), "0 1 2 3 4"]
    (HERE / "deletions.csv").write_text("\n".join(["row", *deleted]) + "\n")
    X = StandardScaler().fit_transform(X)
    trial, flags, labels, unlearned, retrained = [], [], [], [], []
    for number in range(TRIALS):
        order = rng.permutation(len(X))
        gone, others, held = order[:FORGOTTEN], order[FORGOTTEN : 2 * FORGOTTEN], order[100:]
        asked = np.concatenate([gone, others])
        shards = rng.integers(0, SHARDS, (2, len(X)))
        anew = [fitted(X, y, held[shards[1][held] == k]) for k in range(SHARDS)]
        unlearned.append(posteriors(forget(X, y, shards[0], held, gone), X[asked]))
        retrained.append(posteriors(anew, X[asked]))
        trial += [number] * len(asked)
        flags += [True] * FORGOTTEN + [False] * FORGOTTEN
        labels += y[asked].tolist()
    np.savez_compressed(
        HERE / "audit.npz",
        trial=np.array(trial),
        forgotten=np.array(flags),
        label=np.array(labels),
        unlearned=np.concatenate(unlearned),
        retrained=np.concatenate(retrained),
    )


if __name__ == "__main__":
    main()
