"""Input given to a guard, as the numbers that its model reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.errors import GuardError, TrainingError
from leaveout.models.data_frame import frame_table, is_frame
from leaveout.models.table import number
from leaveout.names import hint

Numbers = type[np.float32] | type[np.float64]
"""What a network reads, and what a forest reads."""


def read_numbers(given: ArrayLike, what: str, kind: Numbers) -> NDArray[Any]:
    """Return numbers of a dtype in any shape; what does not fit becomes infinite."""
    if np.ma.isMaskedArray(given):
        raise GuardError(f"{what} must be numbers, got an array with a mask; fill it first")
    try:
        array = np.asarray(given)
    except ValueError:
        raise GuardError(f"{what} must be numbers, as many features each") from None
    if array.dtype.kind not in "fiu":
        raise GuardError(f"{what} must be numbers, got {array.dtype}")
    with np.errstate(over="ignore"):  # what does not fit is found to be infinite
        # Compiled loops would be compiled once more for arrays that cannot be written.
        return np.require(array, kind, ["C", "W"])


def encode_inputs(rows: Any, encode: Callable[[list[Any]], NDArray[Any]]) -> NDArray[Any]:
    """Encode rows in the table's own units, shape (rows, inputs)."""
    table = _row_list(rows)
    if not all(isinstance(row, Mapping) for row in table):
        raise GuardError("rows must be a list of mappings from column name to value")
    try:
        return encode(table)
    except TrainingError as error:
        raise GuardError(str(error)) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise GuardError(f"a row holds what is neither a number nor a text: {error}") from None


def _row_list(rows: Any) -> list[Any]:
    """Return rows as a list; rows of a data frame as mappings."""
    if not is_frame(rows):
        return list(rows) if isinstance(rows, Iterable) else [rows]
    try:
        table = frame_table(rows, "the data frame")
    except TrainingError as error:
        raise GuardError(str(error)) from None
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


def plain_rows(
    rows: Sequence[Mapping[str, str | float]], features: Sequence[str], kind: Numbers
) -> NDArray[Any]:
    """Read features by name, shape (rows, features)."""
    encoded = np.empty((len(rows), len(features)))
    for at, row in enumerate(rows):
        for column, name in enumerate(features):
            if name not in row:
                raise GuardError(f"row {at}: column {name!r} is missing{hint(name, row)}")
            value = _number(row[name])
            if value is None or not np.isfinite(value):
                raise GuardError(f"row {at}, column {name!r}: {row[name]!r} is not a finite number")
            encoded[at, column] = value
    return read_numbers(encoded, "inputs", kind)


def key_of(point: NDArray[Any]) -> bytes:
    """Return the memory key of an input, in which -0.0 equals 0.0."""
    key: bytes = (point + point.dtype.type(0)).tobytes()
    return key


def _number(cell: object) -> float | None:
    try:
        return number(cell) if isinstance(cell, str) else float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
