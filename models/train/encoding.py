"""The encoding of a table: from its units to features in [0, 1]."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.family import Manifest
from leaveout.models.reading import Reading, comma_number
from leaveout.models.table import Cells, number
from leaveout.names import hint

_EVERY_WHOLE = 2**53


class NumberColumn(msgspec.Struct, frozen=True, tag="number"):
    """A numeric column, one feature: (value - minimum) / (maximum - minimum).

    A constant column becomes the feature 0. ``whole`` means that every training row has a whole
    number; False if unknown. A column that is not ``scaled`` is used unchanged.
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


class CategoryColumn(msgspec.Struct, frozen=True, tag="category", omit_defaults=True):
    """A column of words, one feature per category: 1 for the row's category, else 0.

    ``others`` means that the last category stands for all words that are none.
    """

    name: str
    categories: tuple[str, ...]
    others: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the column's features."""
        return tuple(f"{self.name}={category}" for category in self.categories)


MISSING = "(missing)"
"""The category of a missing word."""

OTHER = "(other)"
"""The category of words that no training row has."""

GAP = "nan"
"""What is read for a missing number that stays missing."""

INDICATED = ("no", "yes")  # whether a number is missing, in words


def indicator_name(column: str) -> str:
    """Return the name of the column that says whether a number is missing."""
    return f"{column} missing"


class Encoding(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the table's columns, in order, become features, and which column is the label.

    ``fills`` has the columns that may have missing values, with the number that stands for one
    (`indicator_name` names the column that marks it), or None where it is a category. ``gaps`` are
    the columns of numbers whose missing values stay missing: NaN.
    ``separator``, ``decimal`` and ``charset`` are how the table is written, as in `Reading`.
    """

    label: str
    columns: tuple[NumberColumn | CategoryColumn, ...]
    fills: dict[str, float | None] = {}
    separator: str = ""
    decimal: str = "."
    charset: str = ""
    gaps: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """Names of all features, in order."""
        return tuple(name for column in self.columns for name in column.features)

    @property
    def layout(self) -> Iterator[tuple[NumberColumn | CategoryColumn, slice]]:
        """The columns, each with the places of its features."""
        first = 0
        for column in self.columns:
            last = first + len(column.features)
            yield column, slice(first, last)
            first = last

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """Names of the columns that a row must have."""
        marks = {indicator_name(name) for name, fill in self.fills.items() if fill is not None}
        return tuple(column.name for column in self.columns if column.name not in marks)

    @property
    def to_reading(self) -> Reading:
        """How further tables of its kind are read."""
        return Reading(self.separator, self.decimal, self.charset, fixed=True)

    @property
    def columns_read(self) -> frozenset[str]:
        """Names of the columns that are read of further tables: features and the label."""
        return frozenset((*self.needed_columns, self.label))

    def complete_row(self, row: Mapping[str, str | float]) -> Mapping[str, str | float]:
        """Return a row with missing values marked and filled."""
        changed: dict[str, str | float] = {
            name: GAP
            for name in self.gaps
            if name in row and is_missing_value(row[name], among_numbers=True)
        }
        for name, fill in self.fills.items():
            if name not in row:
                continue
            is_missing = is_missing_value(row[name], among_numbers=fill is not None)
            if fill is not None:
                changed[indicator_name(name)] = INDICATED[is_missing]
            if is_missing:
                changed[name] = MISSING if fill is None else fill
        return {**row, **changed}


_WORDS_FOR_NONE = {"na", "n/a", "nan", "null", "none", "?", "-"}


def is_missing_value(value: object, *, among_numbers: bool) -> bool:
    """Return whether a cell has no value; among numbers, words such as ``NA`` are none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return True
    if not isinstance(value, str):
        return False
    word = value.strip()
    return not word or (among_numbers and word.lower() in _WORDS_FOR_NONE)


def number_column(name: str, values: NDArray[np.float64], scaled: bool) -> NumberColumn:
    """Return the column for at least one finite number."""
    low, high = float(values.min()), float(values.max())
    # Further from 0, all float64 numbers are whole.
    whole = max(-low, high) <= _EVERY_WHOLE and bool((np.floor(values) == values).all())
    return NumberColumn(name, low, high, whole, scaled)


def encoding_of(manifest: Manifest) -> Encoding | None:
    """Return the encoding in a family's manifest; None for training on plain arrays."""
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
        Names of the rows in messages; by default ``row 0``, ``row 1``, ...

    Returns
    -------
    ndarray of float32, shape (rows, features)
        Numbers outside the encoding's range are encoded outside [0, 1].

    Raises
    ------
    TrainingError
        If a column is missing, a number is invalid, or a category is new.
    """
    with np.errstate(over="ignore"):  # readers of the features refuse it
        return encode_values(encoding, rows, places).astype(np.float32)


def encode_values(
    encoding: Encoding,
    rows: Iterable[Mapping[str, str | float]],
    places: Sequence[str] | None = None,
) -> NDArray[np.float64]:
    """Encode rows as `encode_rows` does, in float64, as forests read them."""
    filled = encoding.fills or encoding.gaps
    table = [encoding.complete_row(row) for row in rows] if filled else list(rows)
    named = [f"row {index}" for index in range(len(table))] if places is None else places
    encoded = np.zeros((len(table), len(encoding.features)))
    every = np.arange(len(table))
    for column, own in encoding.layout:
        cells = [_cell(row, column.name, at) for row, at in zip(table, named, strict=True)]
        gaps = column.name in encoding.gaps
        _encode_column(column, cells, every, named.__getitem__, gaps, encoded[:, own])
    return encoded


F = TypeVar("F", np.float32, np.float64)


def encode_columns(
    encoding: Encoding, cells: Callable[[str], Cells], rows: int, kind: type[F]
) -> NDArray[F]:
    """Encode a table column by column as `encode_rows` does, in less memory.

    ``cells`` returns a column's cells by name, missing values marked and filled.
    """
    encoded = np.zeros((rows, len(encoding.features)), dtype=kind)
    with np.errstate(over="ignore"):  # readers of the features refuse it
        for column, places in encoding.layout:
            found: Cells = cells(column.name)

            def place_of(word: int, found: Cells = found) -> str:
                return f"row {found.first(word)}"

            gaps = column.name in encoding.gaps
            _encode_column(column, found.words, found.codes, place_of, gaps, encoded[:, places])
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
    value = row[name]
    if is_missing_value(value, among_numbers=False):
        raise TrainingError(
            f"{place}, column {name!r}: the value is missing; fill it in (no training row lacks it)"
        )
    return value


def _encode_column(
    column: NumberColumn | CategoryColumn,
    cells: Sequence[str | float],
    codes: NDArray[np.integer[Any]],
    place_of: Callable[[int], str],
    gaps: bool,
    encoded: NDArray[F],
) -> None:
    """Encode rows, each of which has the cell of its code."""
    if isinstance(column, CategoryColumn):
        places = np.asarray(_places(column, cells, place_of), dtype=np.int64)
        encoded[np.arange(len(codes)), places[codes]] = 1
    else:
        values = encode_numbers(column, _numbers(column, cells, place_of, gaps))
        encoded[:, 0] = values[codes]


def _places(
    column: CategoryColumn, cells: Sequence[str | float], place_of: Callable[[int], str]
) -> list[int]:
    position = {category: place for place, category in enumerate(column.categories)}
    truths = {category.lower(): place for category, place in position.items()}
    places = []
    for index, cell in enumerate(cells):
        place = position.get(str(cell).strip())
        if place is None and isinstance(cell, bool):
            place = truths.get(str(cell).lower())
        if place is None and column.others and str(cell).strip():
            place = len(column.categories) - 1
        if place is None:
            raise TrainingError(
                f"{place_of(index)}, column {column.name!r}: {cell!r} is not a category of the "
                f"training data{hint(str(cell), position)}{_some(column.categories)}"
            )
        places.append(place)
    return places


_FEW = 12  # categories that a message lists


def _some(categories: Sequence[str]) -> str:
    return f"; it has {', '.join(categories)}" if len(categories) <= _FEW else ""


def _comma(cell: object) -> str:
    commas = isinstance(cell, str) and comma_number(cell.strip())
    return "; write a decimal point, as in the training table" if commas else ""


def _numbers(
    column: NumberColumn,
    cells: Sequence[str | float],
    place_of: Callable[[int], str],
    gaps: bool,
) -> NDArray[np.float64]:
    """Return the cells as finite numbers, or gaps."""
    values = np.empty(len(cells))
    for index, cell in enumerate(cells):
        if isinstance(cell, bool):
            value = None
        else:
            value = number(cell.strip()) if isinstance(cell, str) else float(cell)
        if value is None or not (math.isfinite(value) or (gaps and math.isnan(value))):
            raise TrainingError(
                f"{place_of(index)}, column {column.name!r}: {cell!r} is not a finite number"
                f"{_comma(cell)}"
            )
        values[index] = value
    return values


MOST_WHOLE = 1_000_000  # most whole numbers of a column that are listed individually
_FARTHEST = 2**50  # largest of these in absolute value
_ENOUGH = 17  # digits that distinguish all float64 numbers
_PLAIN = (1e-6, 1e16)  # range of absolute values that are written without an exponent


def decode_row(
    encoding: Encoding, x: Sequence[float] | NDArray[np.floating]
) -> dict[str, str | float]:
    """Convert an encoded row back to the table's units.

    Parameters
    ----------
    encoding : Encoding
    x : sequence of float, shape (features,)
        Any point, such as a witness: the category is the one with the largest feature (the first on
        a tie), so points between categories are rounded to one.

    Returns
    -------
    dict of str to float or str
        Column name to value.

    Raises
    ------
    TrainingError
        If ``x`` has a different number of features.
    """
    values = np.asarray(x, dtype=np.float64)
    if values.shape != (len(encoding.features),):
        raise TrainingError(
            f"a row to decode has shape {values.shape}, expected ({len(encoding.features)},): "
            "one number per feature"
        )
    decoded: dict[str, str | float] = {}
    for column, places in encoding.layout:
        part = values[places]
        if isinstance(column, CategoryColumn):
            decoded[column.name] = column.categories[int(np.argmax(part))]
        else:
            decoded[column.name] = _unscale(column, float(part[0]))
    return decoded


def listable(column: NumberColumn | CategoryColumn) -> bool:
    """Return whether a column has few enough values to be listed."""
    if isinstance(column, CategoryColumn):
        return True
    near = max(-column.minimum, column.maximum) <= _FARTHEST
    return column.whole and near and column.maximum - column.minimum < MOST_WHOLE


def records_of(column: NumberColumn | CategoryColumn) -> NDArray[np.float32] | None:
    """Return all values that a column's features can take in records."""
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
    for column, places in encoding.layout:
        part, value = read[places], decoded[column.name]
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
            wrong[column.name] = "between two adjacent float64 numbers"
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


def exact_text(value: float) -> str:
    """Return a float64 in the fewest digits that identify it, of a float32 in those of that."""
    with np.errstate(over="ignore"):
        return feature_text(value) if np.float32(value) == value else cell_text(value)


def _unscale(column: NumberColumn, feature: float) -> float:
    """Return the number encoded by a feature, in the column's units."""
    if not column.scaled:
        return feature
    return column.minimum + feature * (column.maximum - column.minimum)


def _scale(column: NumberColumn, values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the features of numbers; infinite on overflow."""
    with np.errstate(over="ignore"):  # readers of the features refuse it
        return encode_numbers(column, values).astype(np.float32)


def _gives(column: NumberColumn, value: float, feature: np.float32) -> bool:
    inside = column.minimum <= value <= column.maximum
    return inside and bool(_scale(column, np.array(value)) == feature)


def _whole_near(column: NumberColumn, feature: np.float32, guess: float) -> float | None:
    """Return the whole number near a guess that encodes to a feature, or None."""
    # Rounding in float64 and float32 may have moved it; float32 steps are largest here.
    near = sorted((round(guess) + step for step in range(-3, 4)), key=lambda k: abs(k - guess))
    return next((float(k) for k in near if _gives(column, float(k), feature)), None)


def _shortest(column: NumberColumn, feature: np.float32, guess: float) -> float | None:
    """Return the shortest number that encodes to a feature, or None."""
    known = guess if _gives(column, guess, feature) else _least(column, feature)
    if not _gives(column, known, feature):
        return None
    exact = Decimal(known)
    for digits in range(1, _ENOUGH):
        # All numbers encoded so form an interval around the known one.
        sides = [
            Context(prec=digits, rounding=way).plus(exact) for way in (ROUND_FLOOR, ROUND_CEILING)
        ]
        for side in sorted(sides, key=lambda side: abs(side - exact)):
            if _gives(column, float(side), feature):
                return float(side) + 0.0
    return known + 0.0


def _least(column: NumberColumn, feature: np.float32) -> float:
    """Return the smallest number whose feature is at least the given one."""
    low, high = column.minimum, column.maximum
    while True:
        middle = low + (high - low) / 2
        if not low < middle < high:
            return high
        if _scale(column, np.array(middle)) >= feature:
            high = middle
        else:
            low = middle
