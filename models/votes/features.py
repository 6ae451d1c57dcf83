"""Features of rows: an encoding is fitted on some rows and applied to any rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from leaveout.models.table import number
from leaveout.models.train.encoding import CategoryColumn, NumberColumn

Encode = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""From rows to their features, shape (rows, features)."""

_FARTHEST = 1e6  # numbers outside a column's range are clipped at this many times the range


@dataclass(frozen=True, eq=False)
class Encoder:
    """A fitted encoding that turns any rows into numbers.

    Attributes
    ----------
    width : int
        The number of features.
    columns : tuple of NumberColumn or CategoryColumn
        How table columns become features, in order; empty for unchanged values.
    """

    encode: Encode
    width: int
    columns: tuple[NumberColumn | CategoryColumn, ...] = ()

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the features of rows, shape (rows, width)."""
        return self.encode(rows)


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
    is_fixed: bool = True

    def fit_encoder(self, rows: NDArray[np.int64]) -> Encoder:
        """Return the identity, which needs no fitting."""
        return Encoder(self.values.__getitem__, self.values.shape[1])


@dataclass(frozen=True, eq=False)
class Column:
    """A table column: the index of each row's cell among the distinct cells."""

    name: str
    words: tuple[str, ...]  # the distinct cells, sorted
    values: NDArray[np.float64]  # shape (words,): NaN for words that are not finite numbers
    codes: NDArray[np.int32]  # shape (rows,)

    def fit(self, rows: NDArray[np.int64]) -> list[tuple[NumberColumn | CategoryColumn, Encode]]:
        """Return what the column becomes, fitted on the cells of some rows."""
        seen = np.zeros(len(self.words), dtype=bool)
        seen[self.codes[rows]] = True
        known = self.values[seen & ~np.isnan(self.values)]
        chosen = np.flatnonzero(seen & np.isnan(self.values))
        found: list[tuple[NumberColumn | CategoryColumn, Encode]] = []
        if len(known):
            # Halved, so that no difference of two numbers overflows.
            low, span = known.min() / 2, known.max() / 2 - known.min() / 2
            scaled = np.zeros(len(self.words))
            if span:
                with np.errstate(over="ignore", invalid="ignore"):
                    scaled = (self.values / 2 - low) / span
                scaled = np.clip(np.nan_to_num(scaled, nan=0.0), -_FARTHEST, _FARTHEST)
            numbers = NumberColumn(self.name, float(known.min()), float(known.max()))
            found.append((numbers, lambda rows: scaled[self.codes[rows], None]))
        if len(chosen):
            words = CategoryColumn(self.name, tuple(self.words[i] for i in chosen))
            found.append((words, lambda rows: 1.0 * (self.codes[rows, None] == chosen)))
        return found


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
    """Text columns as numbers and words, so that no odd cell turns a column into words."""

    table: tuple[Column, ...]
    basis: NDArray[np.int64] | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether a basis fixes ranges and categories."""
        return self.basis is not None

    def fit_encoder(self, rows: NDArray[np.int64]) -> Encoder:
        """Fit ranges and categories on the cells of ``rows``, or of the basis."""
        known = rows if self.basis is None else self.basis
        fitted = [each for column in self.table for each in column.fit(known)]
        columns = tuple(column for column, _ in fitted)

        def encode(rows: NDArray[np.int64]) -> NDArray[np.float64]:
            none = np.empty((len(rows), 0))
            return np.hstack([none, *(encode(rows) for _, encode in fitted)])

        return Encoder(encode, sum(len(each.features) for each in columns), columns)
