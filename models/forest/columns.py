"""``forest.json``: how table columns became the features of the forest beside it.

A forest's own file knows its labels and rows; this one has the words and names that they lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.files import RESULTS, read_whole, why_unread
from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    encode_values,
    number_column,
)

FOREST = "forest.npz"
COLUMNS = "forest.json"
SPEC = "forest.spec"

_FORMAT = "leaveout forest columns"
_VERSION = 1


class ForestColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Columns, units and names of the table a forest was trained on.

    Labels are not among it: a forest's ``classes_`` are the table's own words or whole numbers.

    Attributes
    ----------
    source : str
        Name of the data file.
    encoding : Encoding or None
        How a row becomes features. No number is scaled: a forest reads a table's own units, as
        float64. Ranges are those of the rows held. None for plain arrays.
    units : dict of str to str
        What numbers are measured in, by columns.
    identity : str or None
        The column that names rows.
    ids : dict of int to str
        By the names of rows in the forest, what the table calls them; empty where it does not.
    """

    source: str
    encoding: Encoding | None = None
    units: dict[str, str] = msgspec.field(default_factory=dict)
    identity: str | None = None
    ids: dict[int, str] = msgspec.field(default_factory=dict)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features, in order; empty where they have none."""
        return () if self.encoding is None else self.encoding.features

    def encode(
        self,
        rows: Iterable[Mapping[str, str | float]],
        places: Sequence[str] | None = None,
    ) -> NDArray[np.float64]:
        """Return table rows as the forest reads them, shape (rows, features).

        Parameters
        ----------
        rows : iterable of mapping
            Column name to value, in the table's own units; other columns are ignored.
        places : sequence of str, optional
            What messages call each row; left out, ``row 0``, ``row 1``, ...

        Raises
        ------
        ForestError
            If the forest was trained on plain arrays.
        TrainingError
            If a column is missing, a number is not one, or a category is new.
        """
        if self.encoding is None:
            raise ForestError(
                f"{self.source}: trained on plain arrays, so it has no columns to read by name"
            )
        return encode_values(self.encoding, rows, places)

    def restrict_to_rows(self, names: NDArray[np.int64], X: NDArray[np.float64]) -> ForestColumns:
        """Return columns with only the names and ranges of a forest's rows; categories stay."""
        ids = {row: self.ids[row] for row in names.tolist() if row in self.ids}
        if self.encoding is None:
            return msgspec.structs.replace(self, ids=ids)
        columns: list[NumberColumn | CategoryColumn] = []
        first = 0
        for column in self.encoding.columns:
            if isinstance(column, NumberColumn):
                column = number_column(column.name, X[:, first], column.scaled)
            columns.append(column)
            first += len(column.features)
        encoding = msgspec.structs.replace(self.encoding, columns=tuple(columns))
        return msgspec.structs.replace(self, ids=ids, encoding=encoding)

    def name_of(self, row: int) -> str:
        """Return the displayed name of a row: the table's own name, or its number."""
        return self.ids.get(row, str(row))


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: str
    version: int
    columns: ForestColumns


def columns_bytes(columns: ForestColumns) -> bytes:
    """Return the contents of ``forest.json``; equal columns give equal bytes."""
    file = _File(format=_FORMAT, version=_VERSION, columns=columns)
    return msgspec.json.format(msgspec.json.encode(file)) + b"\n"


def load_columns(path: Path, features: int) -> ForestColumns:
    """Read a ``forest.json`` file.

    Parameters
    ----------
    path : Path
    features : int
        How many the forest beside it reads.

    Raises
    ------
    ForestError
        If it cannot be read, is damaged, of another version, or of another forest's columns.
    """
    columns = _read(path)
    wide = len(columns.features)
    if columns.encoding is not None and wide != features:
        raise ForestError(
            f"{path}: its columns encode to {wide} features, but the forest next to it has "
            f"{features}"
        )
    return columns


def _read(path: Path) -> ForestColumns:
    try:
        text = read_whole(path, RESULTS)
    except OSError as error:
        raise ForestError(f"{path}: {why_unread(error)}") from None
    try:
        head: Any = msgspec.json.decode(text)
        if not isinstance(head, dict) or head.get("format") != _FORMAT:
            raise ForestError(
                f"{path}: not a file that leaveout forest train writes next to a forest"
            )
        if head.get("version") != _VERSION:
            raise ForestError(
                f"{path}: format version {head.get('version')!r}; this program reads version "
                f"{_VERSION}"
            )
        return msgspec.json.decode(text, type=_File).columns
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ForestError(f"{path}: {error}") from None
