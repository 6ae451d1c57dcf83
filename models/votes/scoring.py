"""Scores of a fitted classifier, with one column per label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def label_scores(model: Any, X: NDArray[np.float64], labels: int) -> NDArray[np.float32]:
    """Return float32 scores, shape (rows, labels); a member's vote is their argmax.

    Probabilities, else the decision function, else 1 for the prediction. Labels not trained on
    score below all others.
    """
    seen = np.asarray(model.classes_, dtype=np.int64)
    own = _own_scores(model, X, seen)
    with np.errstate(over="ignore"):
        own = own.astype(np.float32)
    lowest = own.min(axis=1, keepdims=True)
    # Subtracting its size as well, or float32 could round the difference away.
    scores = np.repeat(lowest - np.maximum(1, np.abs(lowest)), labels, axis=1)
    scores[:, seen] = own
    return np.ascontiguousarray(scores, dtype=np.float32)


def constant_scores(label: int, rows: int, labels: int) -> NDArray[np.float32]:
    """Return the scores of a member that always votes for ``label``."""
    scores = np.zeros((rows, labels), dtype=np.float32)
    scores[:, label] = 1
    return scores


def _own_scores(model: Any, X: NDArray[np.float64], seen: NDArray[np.int64]) -> NDArray[Any]:
    for name in ("predict_proba", "decision_function"):
        if not hasattr(model, name):
            continue
        values = np.asarray(getattr(model, name)(X), dtype=np.float64)
        if values.ndim == 1 and len(seen) == 2:
            return np.stack([-values, values], axis=1)
        if values.shape == (len(X), len(seen)):
            return values
    votes: NDArray[np.float64] = (np.asarray(model.predict(X))[:, None] == seen).astype(np.float64)
    return votes
