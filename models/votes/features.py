"""Features of rows: an encoding is fitted on some rows and applied to any rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.models.table import number
from leaveout.models.train.encoding import CategoryColumn, NumberColumn

_FARTHEST = 1e6
"""Numbers outside a column's range are clipped at this many times the range."""


class Encoder(Protocol):
    """A fitted encoding that turns any rows into numbers."""

    @property
    def columns(self) -> tuple[NumberColumn | CategoryColumn, ...]:
        """How table columns become features, in order; empty for unchanged values."""

    @property
    def width(self) -> int:
        """The number of features."""

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the features of rows, shape (rows, width)."""


class Features(Protocol):
    """All rows, training rows first and then test rows."""

    @property
    def is_fixed(self) -> bool:
        """Whether features do not depend on the rows an encoding is fitted on."""

    def fit_encoder(self, rows: NDArray[np.int64]) -> Encoder:
        """Fit an encoding, reading only the values of ``rows``."""


@dataclass(frozen=True, eq=False)
class ArrayFeatures:
    """Unchanged numbers, float64 of shape (rows, features)."""

    values: NDArray[np.float64]

    @property
    def is_fixed(self) -> bool:
        """Always true."""
        return True

    def fit_encoder(self, rows: NDArray[np.int64]) -> Encoder:
        """Return the identity, which needs no fitting."""
        return _Plain(self.values)


@dataclass(frozen=True, eq=False)
class Column:
    """A table column: the index of each row's cell among the distinct cells."""

    name: str
    words: tuple[str, ...]  # the distinct cells, sorted
    values: NDArray[np.float64]  # shape (words,): NaN for words that are not finite numbers
    codes: NDArray[np.int32]  # shape (rows,)


def column_of(name: str, cells: list[str]) -> Column:
    """Sort a column's distinct cells and number them."""
    words = tuple(sorted(set(cells)))
    place = {word: index for index, word in enumerate(words)}
    read = [number(word) for word in words]
    values = np.array([np.nan if value is None else value for value in read])
    values[~np.isfinite(values)] = np.nan
    return Column(name, words, values, np.array([place[cell] for cell in cells], dtype=np.int32))


@dataclass(frozen=True, eq=False)
class TableFeatures:
    """Text columns, encoded as scaled numbers and one-hot words.

    A column may have both, so that one non-numeric cell does not turn all its numbers into words.
    """

    table: tuple[Column, ...]
    basis: NDArray[np.int64] | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether a basis fixes ranges and categories."""
        return self.basis is not None

    def fit_encoder(self, rows: NDArray[np.int64]) -> Encoder:
        """Fit ranges and categories on the cells of ``rows``, or of the basis."""
        known = rows if self.basis is None else self.basis
        return _Table(tuple(_fit(column, known) for column in self.table))


@dataclass(frozen=True, eq=False)
class _Plain:
    values: NDArray[np.float64]

    @property
    def columns(self) -> tuple[NumberColumn | CategoryColumn, ...]:
        return ()

    @property
    def width(self) -> int:
        return int(self.values.shape[1])

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.values[rows]


@dataclass(frozen=True, eq=False)
class _Fitted:
    column: Column
    seen: NDArray[np.bool_]
    """Whether each word occurs in the rows."""
    numbers: NumberColumn | None
    words: CategoryColumn | None

    @property
    def width(self) -> int:
        return (self.numbers is not None) + len(self.words.categories if self.words else ())

    def fill(self, rows: NDArray[np.int64], target: NDArray[np.float64]) -> None:
        codes, first = self.column.codes[rows], 0
        if self.numbers is not None:
            # Halved, so that no difference of two numbers overflows.
            low, high = self.numbers.minimum / 2, self.numbers.maximum / 2
            span = high - low
            scaled = np.zeros(len(self.column.words))
            if span:
                with np.errstate(over="ignore", invalid="ignore"):
                    scaled = (self.column.values / 2 - low) / span
                scaled = np.clip(np.nan_to_num(scaled, nan=0.0), -_FARTHEST, _FARTHEST)
            target[:, 0] = scaled[codes]
            first = 1
        if self.words is not None:
            places = np.full(len(self.column.words), -1)
            chosen = np.flatnonzero(self.seen & np.isnan(self.column.values))
            places[chosen] = np.arange(len(chosen))
            hot = places[codes]
            known = np.flatnonzero(hot >= 0)
            target[known, first + hot[known]] = 1


@dataclass(frozen=True, eq=False)
class _Table:
    fitted: tuple[_Fitted, ...]

    @property
    def columns(self) -> tuple[NumberColumn | CategoryColumn, ...]:
        return tuple(
            part for each in self.fitted for part in (each.numbers, each.words) if part is not None
        )

    @property
    def width(self) -> int:
        return sum(each.width for each in self.fitted)

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        encoded = np.zeros((len(rows), self.width))
        first = 0
        for each in self.fitted:
            each.fill(rows, encoded[:, first : first + each.width])
            first += each.width
        return encoded


def _fit(column: Column, rows: NDArray[np.int64]) -> _Fitted:
    seen = np.zeros(len(column.words), dtype=bool)
    seen[column.codes[rows]] = True
    known = column.values[seen & ~np.isnan(column.values)]
    words = tuple(column.words[i] for i in np.flatnonzero(seen & np.isnan(column.values)))
    numbers = None
    if len(known):
        numbers = NumberColumn(column.name, float(known.min()), float(known.max()))
    return _Fitted(column, seen, numbers, CategoryColumn(column.name, words) if words else None)
