"""Logistic regressions by Newton's method, trained on the choosing trials.

Nothing is believed of them: whatever is learned from trials that do not count is an attack that was
fixed before those that do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.checker.estimates.file import Floats

_STEPS = 100
_SMALL = 1e-12
_STEP_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class Line:
    """Log-odds that are linear in standardised features."""

    mean: Floats  # shape (features,)
    scale: Floats  # shape (features,)
    slopes: Floats  # shape (features,)
    constant: float

    def scores(self, features: Floats) -> Floats:
        """Return the log-odds of rows: sums in one order, so that a row's is its own alone."""
        found = np.full(len(features), self.constant)
        for column, slope in enumerate(self.slopes):
            found += slope * ((features[:, column] - self.mean[column]) / self.scale[column])
        return found


def train_line(features: Floats, apart: NDArray[np.bool_]) -> Line:
    """Train with balanced classes and half the squared slopes as a penalty."""
    mean, scale = features.mean(axis=0), features.std(axis=0)
    # A column that does not vary has rounding for a deviation.
    scale = np.where(scale <= 10 * np.finfo(float).eps * (1 + np.abs(mean)), 1.0, scale)
    table = np.column_stack([(features - mean) / scale, np.ones(len(features))])
    kinds = np.bincount(apart, minlength=2)
    weights = (len(apart) / (2 * kinds))[apart.astype(int)]
    penalty = np.append(np.ones(features.shape[1]), 0.0)
    signs = np.where(apart, 1.0, -1.0)

    def loss(found: Floats) -> float:
        value = weights @ np.logaddexp(0, -signs * (table @ found)) + penalty @ found**2 / 2
        return float(value)

    found = np.zeros(table.shape[1])
    at = loss(found)
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(table @ found, -700, 700)))
        slope = table.T @ (weights * (chance - apart)) + penalty * found
        bent = (table * (weights * chance * (1 - chance))[:, None]).T @ table + np.diag(penalty)
        step = np.linalg.lstsq(bent, slope, rcond=None)[0]
        share = 1.0
        for _ in range(_STEP_HALVINGS):
            new = loss(found - share * step)
            if new <= at:
                break
            share /= 2
        else:
            break
        found, at = found - share * step, new
        if np.abs(share * step).max() <= _SMALL * (1 + np.abs(found).max()):
            break
    return Line(mean, scale, found[:-1], float(found[-1]))
