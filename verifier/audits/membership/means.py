"""Finite-sample bounds on a mean and on a whole distribution."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BETS = np.linspace(0.05, 1, 20)
_HALVINGS = 32
"""The last step is a quarter of a billionth; the end that is returned is the safe one."""


def dkw_margin(trials: int, error: float) -> float:
    """Return the largest error of an empirical distribution function.

    Dvoretzky-Kiefer-Wolfowitz with Massart's constant (1990): ``P(sup |F_n - F| > m) <= 2 exp(-2 n
    m^2)`` = ``error``.
    """
    return math.sqrt(math.log(2 / error) / (2 * trials))


def mean_lower(values: Floats, error: float) -> Floats:
    """Return lower bounds of means of independent draws in [0, 1].

    By betting (Waudby-Smith and Ramdas 2024): reject ``m`` where the mean over fixed bets of
    ``prod(1 + u (x / m - 1))`` is >= ``1 / error``.
    """
    low, high = np.zeros(values.shape[1]), values.mean(axis=0)
    wanted = math.log(len(_BETS) / error)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        rejected = _log_wealth(values, middle) >= wanted
        low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
    return low


def mean_upper(values: Floats, error: float) -> Floats:
    """Return upper bounds of means of independent draws in [0, 1]; see `mean_lower`."""
    return np.asarray(1 - mean_lower(1 - values, error))


def _log_wealth(values: Floats, mean: Floats) -> Floats:
    """Return the log of the sum over bets, shape (columns,); infinite at mean 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(values > 0, values / mean, 0) - 1
        logs = np.log1p(_BETS[:, None, None] * ratio).sum(axis=1)
    most = logs.max(axis=0)
    with np.errstate(invalid="ignore"):
        total = most + np.log(np.exp(logs - most).sum(axis=0))
    return np.asarray(np.where(np.isfinite(most), total, most))


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of the sign test."""
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
