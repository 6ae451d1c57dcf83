"""``forest.json``, ``linear.json``: how table columns became the features of the model beside it.

A model's own file knows its labels and rows; this one has the words and names that they lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError, TrainingError
from leaveout.files import RESULTS, read_whole, refuse_unread
from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    encode_values,
    number_column,
)

_VERSION = 1


class TableColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Columns, units and names of the table a model was trained on.

    Labels are not among it: the model's own file has the table's own words or whole numbers.

    Attributes
    ----------
    source : str
        Name of the data file.
    encoding : Encoding or None
        How a row becomes features, in float64. A forest reads a table's own units, and its ranges
        are those of the rows held; a linear model's numbers are scaled, by all rows that there
        ever were. None for plain arrays.
    units : dict of str to str
        What numbers are measured in, by columns.
    identity : str or None
        The column that names rows.
    ids : dict of int to str
        By the names of rows in the model, what the table calls them; empty where it does not.
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
        """Return table rows as features, shape (rows, features).

        Parameters
        ----------
        rows : iterable of mapping
            Column name to value, in the table's own units; other columns are ignored.
        places : sequence of str, optional
            What messages call each row; left out, ``row 0``, ``row 1``, ...

        Raises
        ------
        TrainingError
            If the model was trained on plain arrays, a column is missing, a
            number is not one, or a category is new.
        """
        if self.encoding is None:
            raise TrainingError(
                f"{self.source}: trained on plain arrays, so it has no columns to read by name"
            )
        return encode_values(self.encoding, rows, places)

    def restrict_to_rows(self, names: NDArray[np.int64], X: NDArray[np.float64]) -> TableColumns:
        """Return columns with the names and ranges of some rows; categories and scales stay."""
        ids = {row: self.ids[row] for row in names.tolist() if row in self.ids}
        if self.encoding is None:
            return msgspec.structs.replace(self, ids=ids)
        columns: list[NumberColumn | CategoryColumn] = []
        for column, places in self.encoding.layout:
            if isinstance(column, NumberColumn) and not column.scaled:
                column = number_column(column.name, X[:, places.start], scaled=False)
            columns.append(column)
        encoding = msgspec.structs.replace(self.encoding, columns=tuple(columns))
        return msgspec.structs.replace(self, ids=ids, encoding=encoding)

    @property
    def width(self) -> int | None:
        """How many features the model reads; None if the columns do not tell."""
        return None if self.encoding is None else len(self.features)

    def name_of(self, row: int) -> str:
        """Return the displayed name of a row: the table's own name, or its number."""
        return self.ids.get(row, str(row))


C = TypeVar("C", bound=TableColumns)


class _File(msgspec.Struct, Generic[C], frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: str
    version: int
    columns: C


@dataclass(frozen=True)
class Subject:
    """A kind of models that are trained on tables, changed row by row, and kept in folders.

    Attributes
    ----------
    word : str
        Of its files, its command and its function.
    letter : str
        What specifications call such a model.
    noun : str
        What messages call such a model.
    error : type of LeaveoutError
    columns_type : type of TableColumns
    """

    word: str
    letter: str
    noun: str
    error: type[LeaveoutError]
    columns_type: type[TableColumns] = TableColumns

    @property
    def model(self) -> str:
        """The name of the model's file."""
        return f"{self.word}.npz"

    @property
    def columns(self) -> str:
        """The name of the columns' file."""
        return f"{self.word}.json"

    @property
    def spec(self) -> str:
        """The name of the specification."""
        return f"{self.word}.spec"

    def expect(self, *settings: tuple[str, object, bool, str]) -> None:
        """Raise at the first option whose value does not fit; each with what is expected of it."""
        for flag, given, fits, expected in settings:
            if not fits:
                raise self.error(f"--{flag} {given}: expected {expected}")

    def expect_share(self, share: float) -> None:
        """Raise if a share of rows held out is none."""
        expected = "a number of at least 0 and below 1"
        self.expect(("test-share", f"{share:g}", 0 <= share < 1, expected))

    def columns_bytes(self, columns: TableColumns) -> bytes:
        """Return the contents of the columns' file; equal columns give equal bytes."""
        file = _File(format=f"leaveout {self.word} columns", version=_VERSION, columns=columns)
        return msgspec.json.format(msgspec.json.encode(file)) + b"\n"

    def load_columns(self, path: Path, features: int) -> TableColumns:
        """Read a file of columns.

        Parameters
        ----------
        path : Path
        features : int
            How many the model beside it reads.

        Raises
        ------
        LeaveoutError
            If it cannot be read, is damaged, of another version, or of another model's columns.
        """
        columns = self._read(path)
        wide = columns.width
        if wide is not None and wide != features:
            raise self.error(
                f"{path}: its columns encode to {wide} features, but the {self.noun} next to it "
                f"has {features}"
            )
        return columns

    def _read(self, path: Path) -> TableColumns:
        with refuse_unread(self.error, path):
            text = read_whole(path, RESULTS)
        try:
            head: Any = msgspec.json.decode(text)
            if not isinstance(head, dict) or head.get("format") != f"leaveout {self.word} columns":
                raise self.error(
                    f"{path}: not a file that leaveout {self.word} train writes next to a "
                    f"{self.noun}"
                )
            if head.get("version") != _VERSION:
                raise self.error(
                    f"{path}: format version {head.get('version')!r}; this program reads version "
                    f"{_VERSION}"
                )
            # A subscript of a value is no type to mypy.
            file: Any = _File
            found: TableColumns = msgspec.json.decode(text, type=file[self.columns_type]).columns
            return found
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self.error(f"{path}: {error}") from None
