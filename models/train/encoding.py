"""The encoding of a table: from its own units to features in [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.cells import Cells
from leaveout.models.family import Manifest
from leaveout.models.table import number
from leaveout.names import hint

_EVERY_WHOLE = 2**53


class NumberColumn(msgspec.Struct, frozen=True, tag="number"):
    """A numeric column, one feature: (value - minimum) / (maximum - minimum).

    A constant column gives the feature 0. ``whole`` says that every training row has a whole
    number; False where that is not known. A column that is not ``scaled`` is its own feature.
    """

    name: str
    minimum: float
    maximum: float
    whole: bool = False
    scaled: bool = True

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the column's features."""
        return (self.name,)


class CategoryColumn(msgspec.Struct, frozen=True, tag="category"):
    """A column of words, one feature per category: 1 for the row's own, else 0."""

    name: str
    categories: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the column's features."""
        return tuple(f"{self.name}={category}" for category in self.categories)


class Encoding(msgspec.Struct, frozen=True):
    """How the columns of a table, in order, become features, and which column is the label."""

    label: str
    columns: tuple[NumberColumn | CategoryColumn, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features, in order."""
        return tuple(name for column in self.columns for name in column.features)


def number_column(name: str, values: NDArray[np.float64], scaled: bool) -> NumberColumn:
    """Return the column of at least one finite number."""
    low, high = float(values.min()), float(values.max())
    # Further from 0, float64 holds no other numbers.
    whole = max(-low, high) <= _EVERY_WHOLE and bool((np.floor(values) == values).all())
    return NumberColumn(name, low, high, whole, scaled)


def encoding_of(manifest: Manifest) -> Encoding | None:
    """Return the encoding in a family's manifest; None if trained on plain arrays."""
    stored = manifest.recipe.get("encoding")
    return None if stored is None else msgspec.convert(stored, Encoding)


def encode_rows(
    encoding: Encoding,
    rows: Iterable[Mapping[str, str | float]],
    places: Sequence[str] | None = None,
) -> NDArray[np.float32]:
    """Encode rows given in the table's own units.

    Parameters
    ----------
    encoding : Encoding
    rows : iterable of mapping
        Column name to value; other columns, such as the label, are ignored.
    places : sequence of str, optional
        What messages call each row; left out, ``row 0``, ``row 1``, ...

    Returns
    -------
    ndarray of float32, shape (rows, features)
        A number outside the range the encoding was made from falls outside [0, 1].

    Raises
    ------
    TrainingError
        If a column is missing, a number is not one, or a category is new.
    """
    with np.errstate(over="ignore"):  # for who reads the features to refuse
        return encode_values(encoding, rows, places).astype(np.float32)


def encode_values(
    encoding: Encoding,
    rows: Iterable[Mapping[str, str | float]],
    places: Sequence[str] | None = None,
) -> NDArray[np.float64]:
    """Encode rows as `encode_rows` does, in float64, as forests read them."""
    table = list(rows)
    named = [f"row {index}" for index in range(len(table))] if places is None else places
    encoded = np.zeros((len(table), len(encoding.features)))
    first = 0
    for column in encoding.columns:
        cells = [_cell(row, column.name, at) for row, at in zip(table, named, strict=True)]
        width = len(column.features)
        encoded[:, first : first + width] = _encode_column(column, cells, named.__getitem__)
        first += width
    return encoded


def encode_columns(
    encoding: Encoding, cells: Callable[[str], Cells], rows: int
) -> NDArray[np.float32]:
    """Encode a table column by column as `encode_rows` does, in less memory.

    ``cells`` returns a column's cells by name.
    """
    encoded = np.zeros((rows, len(encoding.features)), dtype=np.float32)
    first = 0
    with np.errstate(over="ignore"):  # for who reads the features to refuse
        for column in encoding.columns:
            found = cells(column.name)

            def place_of(word: int, found: Cells = found) -> str:
                return f"row {found.first(word)}"

            if isinstance(column, CategoryColumn):
                places = np.array(_places(column, found.words, place_of), dtype=np.int64)
                encoded[np.arange(rows), first + places[found.codes]] = 1
            else:
                values = encode_numbers(column, _numbers(column, found.words, place_of))
                encoded[:, first] = values.astype(np.float32)[found.codes]
            first += len(column.features)
    return encoded


def encode_numbers(column: NumberColumn, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the features of numbers, in float64."""
    if not column.scaled:
        return values
    span = column.maximum - column.minimum
    return (values - column.minimum) / span if span else np.zeros_like(values)


def _cell(row: Mapping[str, str | float], name: str, place: str) -> str | float:
    if name not in row:
        raise TrainingError(f"{place}: column {name!r} is missing{hint(name, row)}")
    return row[name]


def _encode_column(
    column: NumberColumn | CategoryColumn,
    cells: Sequence[str | float],
    place_of: Callable[[int], str],
) -> NDArray[np.float64]:
    if isinstance(column, CategoryColumn):
        encoded = np.zeros((len(cells), len(column.categories)))
        encoded[np.arange(len(cells)), _places(column, cells, place_of)] = 1
        return encoded
    return encode_numbers(column, _numbers(column, cells, place_of)[:, None])


def _places(
    column: CategoryColumn, cells: Sequence[str | float], place_of: Callable[[int], str]
) -> list[int]:
    """Return the category of each cell."""
    position = {category: place for place, category in enumerate(column.categories)}
    places = []
    for index, cell in enumerate(cells):
        place = position.get(str(cell).strip())
        if place is None:
            raise TrainingError(
                f"{place_of(index)}, column {column.name!r}: {cell!r} is not a category of the "
                f"training data{hint(str(cell), position)}"
            )
        places.append(place)
    return places


def _numbers(
    column: NumberColumn, cells: Sequence[str | float], place_of: Callable[[int], str]
) -> NDArray[np.float64]:
    """Return the cells as finite numbers."""
    values = np.empty(len(cells))
    for index, cell in enumerate(cells):
        value = number(cell.strip()) if isinstance(cell, str) else float(cell)
        if value is None or not math.isfinite(value):
            raise TrainingError(
                f"{place_of(index)}, column {column.name!r}: {cell!r} is not a finite number"
            )
        values[index] = value
    return values
