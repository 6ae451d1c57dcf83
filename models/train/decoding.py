"""From features back to a table: records, nearest records and values."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.train.encoding import CategoryColumn, Encoding, NumberColumn, encode_numbers

MOST_WHOLE = 1_000_000
"""Most whole numbers of a column that are listed one by one."""
_FARTHEST = 2**50
"""Up to which they are."""
_ENOUGH = 17
"""Digits that tell any float64 from the next."""
_PLAIN = (1e-6, 1e16)
"""Sizes of numbers that are written without an exponent."""


def decode_row(
    encoding: Encoding, x: Sequence[float] | NDArray[np.floating]
) -> dict[str, str | float]:
    """Map an encoded row back to the table's own units.

    Parameters
    ----------
    encoding : Encoding
    x : sequence of float, shape (features,)
        Any point, such as a witness: a category is the one with the largest feature (the
        first of equals), so that a point between categories is rounded to one.

    Returns
    -------
    dict of str to float or str
        Column name to value.

    Raises
    ------
    TrainingError
        If ``x`` has another number of features.
    """
    values = np.asarray(x, dtype=np.float64)
    if values.shape != (len(encoding.features),):
        raise TrainingError(
            f"a row to decode has shape {values.shape}, expected ({len(encoding.features)},), "
            "a number a feature"
        )
    decoded: dict[str, str | float] = {}
    first = 0
    for column in encoding.columns:
        part = values[first : first + len(column.features)]
        if isinstance(column, CategoryColumn):
            decoded[column.name] = column.categories[int(np.argmax(part))]
        else:
            decoded[column.name] = _unscale(column, float(part[0]))
        first += len(column.features)
    return decoded


def listable(column: NumberColumn | CategoryColumn) -> bool:
    """Return whether a column has few enough values to list them."""
    if isinstance(column, CategoryColumn):
        return True
    near = max(-column.minimum, column.maximum) <= _FARTHEST
    return column.whole and near and column.maximum - column.minimum < MOST_WHOLE


def records_of(column: NumberColumn | CategoryColumn) -> NDArray[np.float32] | None:
    """Return every value that the features of a column take in records."""
    if isinstance(column, CategoryColumn):
        return np.eye(len(column.categories), dtype=np.float32)
    if not listable(column):
        return None
    values = np.arange(int(column.minimum), int(column.maximum) + 1, dtype=np.float64)
    return _scale(column, values[:, None])


def nearest_record(
    encoding: Encoding, x: Sequence[float] | NDArray[np.floating]
) -> tuple[dict[str, str | float], dict[str, str]]:
    """Return the record nearest to a point, and why the point itself is not one."""
    decoded = decode_row(encoding, x)
    read = np.asarray(x, dtype=np.float32)
    values: dict[str, str | float] = {}
    wrong: dict[str, str] = {}
    first = 0
    for column in encoding.columns:
        last = first + len(column.features)
        part, value = read[first:last], decoded[column.name]
        first = last
        if isinstance(column, CategoryColumn):
            values[column.name] = value
            if sorted(part.tolist()) != [0.0] * (len(part) - 1) + [1.0]:
                wrong[column.name] = "not one category"
            continue
        ends = _scale(column, np.array([column.minimum, column.maximum]))
        target = np.clip(part[0], *ends)
        inside = min(max(float(value), column.minimum), column.maximum)
        found = (_whole_near if column.whole else _shortest)(column, target, inside)
        values[column.name] = (float(round(inside)) if column.whole else inside) + 0.0
        if found is not None:
            values[column.name] = found
        if target != part[0]:
            wrong[column.name] = "outside the training data's range"
        elif found is None and column.whole:
            wrong[column.name] = "not a whole number"
        elif found is None:
            wrong[column.name] = "between two numbers that float64 has"
    return values, wrong


def cell_text(value: float | str) -> str:
    """Return a table value as text that reads back as the same value."""
    if isinstance(value, str):
        return value
    if value and not _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return repr(float(value))
    return np.format_float_positional(value + 0.0, trim="-")


def feature_text(value: float | np.floating) -> str:
    """Return a float32 in the fewest digits that identify it."""
    return cell_text(float(str(np.float32(value))))


def _unscale(column: NumberColumn, feature: float) -> float:
    """Return the number of a feature, in the column's units."""
    if not column.scaled:
        return feature
    return column.minimum + feature * (column.maximum - column.minimum)


def _scale(column: NumberColumn, values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the features of numbers; infinite on overflow."""
    with np.errstate(over="ignore"):  # for who reads the features to refuse
        return encode_numbers(column, values).astype(np.float32)


def _gives(column: NumberColumn, value: float, feature: np.float32) -> bool:
    inside = column.minimum <= value <= column.maximum
    return inside and bool(_scale(column, np.array(value)) == feature)


def _whole_near(column: NumberColumn, feature: np.float32, guess: float) -> float | None:
    """Return the whole number nearest to a guess that encodes to a feature, or None."""
    # Which float64 rounding, and float32 where it is coarser below than above, may have moved.
    near = sorted((round(guess) + step for step in range(-3, 4)), key=lambda k: abs(k - guess))
    return next((float(k) for k in near if _gives(column, float(k), feature)), None)


def _shortest(column: NumberColumn, feature: np.float32, guess: float) -> float | None:
    """Return the shortest number that encodes to a feature, or None."""
    known = guess if _gives(column, guess, feature) else _least(column, feature)
    if not _gives(column, known, feature):
        return None
    exact = Decimal(known)
    for digits in range(1, _ENOUGH):
        # All numbers read so form an interval around the known one.
        sides = [
            Context(prec=digits, rounding=way).plus(exact) for way in (ROUND_FLOOR, ROUND_CEILING)
        ]
        for side in sorted(sides, key=lambda side: abs(side - exact)):
            if _gives(column, float(side), feature):
                return float(side) + 0.0
    return known + 0.0


def _least(column: NumberColumn, feature: np.float32) -> float:
    """Return the least number that encodes to a feature or more."""
    low, high = column.minimum, column.maximum
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return high
        if _scale(column, np.array(middle)) >= feature:
            high = middle
        else:
            low = middle
