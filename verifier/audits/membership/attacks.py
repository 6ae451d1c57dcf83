"""Membership attacks without training: a score per row, higher for likely members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sees = Literal["after", "both"]
"""What an attack is shown: the model after forgetting alone, or the one before it as well."""

_LEAST = 1e-7


@dataclass(frozen=True)
class Attack:
    """An attack fixed in advance."""

    name: str
    sees: Sees
    score: Callable[[Floats | None, Floats, NDArray[np.int64]], Floats]


def log_likelihood(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    """Return the log-probability of the true label: minus the loss."""
    return np.asarray(np.log(np.maximum(posteriors[np.arange(len(label)), label], _LEAST)))


def margin(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    """Return the log-odds of the true label against the best other one."""
    others = posteriors.copy()
    others[np.arange(len(label)), label] = 0
    return np.asarray(
        log_likelihood(posteriors, label) - np.log(np.maximum(others.max(axis=1), _LEAST))
    )


def _loss(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    return log_likelihood(after, label)


def _margin(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    return margin(after, label)


def _confidence(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    return np.asarray(after.max(axis=1))


def _label(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    return np.asarray((after.argmax(axis=1) == label).astype(np.float64))


def _change(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    assert before is not None
    return log_likelihood(after, label) - log_likelihood(before, label)


def _closeness(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    assert before is not None
    return np.asarray(-np.abs(after - before).sum(axis=1))


ATTACKS = (
    Attack("loss", "after", _loss),
    Attack("margin", "after", _margin),
    Attack("confidence", "after", _confidence),
    Attack("label only", "after", _label),
    Attack("change of loss", "both", _change),
    Attack("closeness", "both", _closeness),
)
"""Yeom et al.'s loss attack and its relatives; a label-only one; two that compare both models."""
