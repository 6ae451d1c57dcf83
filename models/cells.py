"""The cells of a table's column: every text once, and which of them each row has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of a column; what is true of a word need be found out but once."""

    words: Sequence[str]  # the distinct cells, in the order in which rows first have them
    codes: NDArray[np.int32]  # shape (rows,): the word of each row

    @classmethod
    def of(cls, cells: Iterable[str]) -> Cells:
        """Return a column's cells, given one a row; blanks around them do not count."""
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
        """Return the first row that has a word, by its place among them."""
        return int(np.argmax(self.codes == word))

    def first_again(self) -> int | None:
        """Return the first row whose word a row before it has; None where all rows differ."""
        if len(self.words) == len(self.codes):
            return None
        # Until then each row brings the next word.
        return int(np.argmax(self.codes != np.arange(len(self.codes))))


class CellsReader:
    """Takes the cells of a column, some rows at a time; blanks around them do not count."""

    def __init__(self) -> None:
        self._places = _Places()
        self._codes: list[NDArray[np.int32]] = []

    def take(self, cells: Sequence[str]) -> None:
        """Take the cells of the next rows."""
        places = map(self._places.__getitem__, cells)
        self._codes.append(np.fromiter(places, np.int32, len(cells)))

    def cells(self) -> Cells:
        """Return those of all rows."""
        codes = np.concatenate(self._codes) if self._codes else np.empty(0, dtype=np.int32)
        return Cells(self._places.words, codes)


class _Places(dict[str, int]):
    """The place of each word, in the order in which they are asked for."""

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
