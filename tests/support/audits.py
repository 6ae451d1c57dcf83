"""Audits of made-up models, in which rows of one model hang together."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["arrays_of", "views_arrays"]


def views_arrays(
    rng: np.random.Generator,
    trials: int,
    rows: int,
    shift: float = 0.0,
    *,
    unseen: bool = True,
    original: bool = True,
    labels: int = 2,
) -> dict[str, Any]:
    """Return the arrays of a file of trials; forgotten rows of the unlearned arm are shifted."""
    kinds = 2 if unseen else 1
    trial = np.repeat(np.arange(trials), kinds * rows)
    forgotten = np.tile(np.arange(kinds * rows) < rows, trials)
    label = rng.integers(0, labels, len(trial))

    def arm(by: float) -> np.ndarray:
        odds = rng.normal(0, 1, (len(trial), labels)) + rng.normal(0, 0.7, trials)[trial, None]
        odds[np.arange(len(trial)), label] += by * forgotten
        found = np.exp(odds)
        return (found / found.sum(axis=1, keepdims=True)).astype(np.float32)

    found = {"trial": trial, "forgotten": forgotten, "label": label}
    if original:
        found["original"] = arm(1.0)
    return {**found, "unlearned": arm(shift), "retrained": arm(0.0)}


def arrays_of(*events: tuple[int, int, int, int]) -> dict[str, Any]:
    """Return the arrays of a file of counted events: hits and trials of each arm, an event each."""
    columns = np.array(events, dtype=np.int64).T
    names = ("unlearned_hits", "unlearned_trials", "retrained_hits", "retrained_trials")
    return {
        "event": np.array([f"event {i}" for i in range(len(events))]),
        **dict(zip(names, columns, strict=True)),
    }
