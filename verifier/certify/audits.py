"""What the kernel asks of audits: ends of intervals, bounds of means, and trained attacks."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from leaveout.kernel.numbers import Floats
from leaveout.kernel.tails import MOST_TRIALS, exceeds, is_rare
from leaveout.kernel.values import Arrays

_LEAST_LEVEL = 1e-200  # special functions lose digits at lower levels, which nobody needs
_ROOM = 1 - Fraction(1, 2**50)  # a level may come here as the float nearest to it


def answer(what: str, known: Arrays) -> Arrays:
    """Answer a question about an audit."""
    if what == "lower_ends":
        pairs = zip(known["hits"].tolist(), known["trials"].tolist(), strict=True)
        ends = [lower_end(*pair, float(known["level"])) for pair in pairs]
        return {what: np.array(ends, np.float64)}
    if what == "means_above":
        return {what: means_above(known["draws"], float(known["level"]))}
    if what == "lines":
        return {what: _lines(known)}
    return {}


def guess_end(count: int, trials: int, level: float) -> float:
    """Return about the chance at which this many events or more have probability ``level``."""
    if not count or level < _LEAST_LEVEL:
        return 0.0
    found = float(betaincinv(count, trials - count + 1, level))
    # The function fails for some levels that are tiny.
    return min(found, 1 - 2.0**-53) if found > 0 else 0.0


def lower_end(count: int, trials: int, level: float) -> float:
    """Return Clopper and Pearson's lower end, so that the kernel confirms it."""
    guess, allowed = guess_end(count, trials, level), Fraction(level) * _ROOM

    def rare(step: float) -> bool:
        return is_rare(count, trials, Fraction(guess * (1 - step)), allowed)

    if not guess:
        return 0.0
    step = 2.0**-50
    while not rare(step):
        step = min(2 * step, 1.0)
    if trials > MOST_TRIALS:
        # There the kernel's bound of a tail is looser than the guess.
        low = step / 2
        for _ in range(30):
            middle = (low + step) / 2
            low, step = (low, middle) if rare(middle) else (middle, step)
    return guess * (1 - step)


_HALVINGS = 34
_LEAST = 2.0**-40  # smaller means count as 0


def means_above(draws: Floats, level: float) -> Floats:
    """Return the greatest lower bounds of the columns' means that the kernel confirms."""
    draws = np.where(draws < 2.0**-60, 0.0, draws)
    low, high = np.zeros(draws.shape[1]), np.minimum(draws.mean(axis=0), 1.0)
    if level < _LEAST_LEVEL:
        return low
    error = Fraction(level) * _ROOM
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        shown = (middle > _LEAST) & exceeds(draws, np.maximum(middle, _LEAST), error)
        low, high = np.where(shown, middle, low), np.where(shown, high, middle)
    return low


_FOLDS = 5
_MOST_ROWS = 20_000
_SEED = 0  # seed for drawing training rows if there are many; fixed, so that nobody can try others


def _lines(known: Mapping[str, NDArray[Any]]) -> Floats:
    """Train an attack; the rows of each trial that chooses are scored by what others taught."""
    place, forgotten, counts = known["place"], known["forgotten"], known["counts"]
    tables = known["unlearned"], known["retrained"]
    found = np.zeros((len(counts), 1 + tables[0].shape[1]))
    chooses = np.flatnonzero(~counts)
    folds = np.array_split(chooses, min(_FOLDS, len(chooses)))
    for scored in (*folds, np.flatnonzero(counts)):
        learned = np.isin(place, np.setdiff1d(chooses, scored))
        rows = np.flatnonzero(learned & forgotten if known["by_arm"] else learned)
        if len(rows) > _MOST_ROWS:
            rows = np.random.default_rng(_SEED).permutation(rows)[:_MOST_ROWS]
        apart = np.tile(forgotten[rows], 2)
        if known["by_arm"]:
            apart = np.repeat([True, False], len(rows))
        found[scored] = train_line(np.concatenate([table[rows] for table in tables]), apart)
    return found


_STEPS = 100
_SMALL = 1e-12
_STEP_HALVINGS = 40


def train_line(features: Floats, apart: NDArray[np.bool_]) -> Floats:
    """Fit log-odds that are linear in features, by Newton's method; return constant and slopes.

    Classes are balanced; the penalty is half the squared slopes of standardised features.
    """
    mean, scale = features.mean(axis=0), features.std(axis=0)
    # A constant column's deviation is only rounding.
    scale = np.where(scale <= 10 * np.finfo(float).eps * (1 + np.abs(mean)), 1.0, scale)
    table = np.column_stack([(features - mean) / scale, np.ones(len(features))])
    kinds = np.bincount(apart, minlength=2)
    weights = (len(apart) / (2 * np.maximum(kinds, 1)))[apart.astype(int)]
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
    slopes = found[:-1] / scale
    return np.concatenate([[found[-1] - slopes @ mean], slopes])
