"""The cells of a table column: distinct texts, and each row's text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a column, with each distinct word stored once."""

    words: Sequence[str]  # the distinct cells, in the order in which rows first have them
    codes: NDArray[np.int32]  # shape (rows,): the word of each row

    @classmethod
    def of(cls, cells: Iterable[str]) -> Cells:
        """Return a column's cells, one per row; surrounding blanks are ignored."""
        reader = CellsReader()
        reader.take(list(cells))
        return reader.cells()

    def __len__(self) -> int:
        return len(self.codes)

    def texts(self) -> list[str]:
        """Return the cell of each row."""
        return [self.words[code] for code in self.codes.tolist()]

    def counts(self) -> NDArray[np.int64]:
        """Return how many rows have each word, shape (words,)."""
        return np.bincount(self.codes, minlength=len(self.words))

    def first(self, word: int) -> int:
        """Return the first row that has the word at an index."""
        return int(np.argmax(self.codes == word))

    def first_again(self) -> int | None:
        """Return the first row whose word occurred before; None if all differ."""
        if len(self.words) == len(self.codes):
            return None
        # Until then each row brings the next word.
        return int(np.argmax(self.codes != np.arange(len(self.codes))))


class CellsReader:
    """Collects the cells of a column in batches, ignoring surrounding blanks."""

    def __init__(self) -> None:
        self._places = _Places()
        self._codes: list[NDArray[np.int32]] = []

    def take(self, cells: Sequence[str]) -> None:
        """Add the cells of the next rows."""
        places = map(self._places.__getitem__, cells)
        self._codes.append(np.fromiter(places, np.int32, len(cells)))

    def cells(self) -> Cells:
        """Return the cells of all rows."""
        codes = np.concatenate(self._codes) if self._codes else np.empty(0, dtype=np.int32)
        return Cells(self._places.words, codes)


class _Places(dict[str, int]):
    """The index of each word, in order of first use."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def __missing__(self, cell: str) -> int:
        word = cell.strip()
        if word != cell:
            place = self[word]
        else:
            place = len(self.words)
            self.words.append(word)
        self[cell] = place
        return place
