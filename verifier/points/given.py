"""Points given by a reader to compare with the bounds: arrays or a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError
from leaveout.files import ARCHIVE, open_file
from leaveout.models import Manifest
from leaveout.models.archive import read_archive
from leaveout.models.data_frame import frame_table, is_frame
from leaveout.models.table import Table, number, read_table
from leaveout.models.train.encoding import Encoding, encode_rows, encoding_of
from leaveout.names import hint

_ZIP = b"PK"
_PAIRS = (("X_test", "y_test"), ("X", "y"))
_KINDS = {".csv", ".npz", ".txt"}
_MEMORY = "data"
"""What messages call points that come from no file."""


class DataError(LeaveoutError):
    """Points that cannot be read or do not fit a network."""


@dataclass(frozen=True, eq=False)
class _Arrays:
    x: NDArray[np.float32]
    y: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class GivenPoints:
    """Given points, read once; each network may encode the table differently."""

    name: str  # of the file, or what it is called if there is none
    place: str  # what messages begin with
    arrays: _Arrays | None = None
    table: Table | None = None  # which a family's encoding turns into points

    @staticmethod
    def of(given: Any) -> GivenPoints:
        """Read points from a file path, a data frame or numbers."""
        if isinstance(given, str | os.PathLike):
            return GivenPoints.open(os.fspath(given))
        if not is_frame(given):
            x = _features(_MEMORY, "X", _numbers_of(given))
            return GivenPoints(_MEMORY, _MEMORY, arrays=_Arrays(x))
        try:
            table = frame_table(given, _MEMORY)
        except LeaveoutError as error:
            raise DataError(str(error)) from None
        if not len(table):
            raise DataError(f"{_MEMORY}: the data frame has no row")
        return GivenPoints(_MEMORY, _MEMORY, table=table)

    @staticmethod
    def open(text: str, option: str = "--data ") -> GivenPoints:
        """Read a file: an NPZ, or a CSV with a header."""
        path, place = Path(text), f"{option}{text}"
        try:
            with open_file(path, ARCHIVE) as stream:
                start = stream.read(len(_ZIP))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"{place}: cannot be read: {reason}") from None
        if start == _ZIP:
            try:
                arrays = read_archive(path, DataError)
            except DataError as error:
                raise DataError(f"{option}{error}{_expected_kinds(path)}") from None
            return GivenPoints(path.name, place, arrays=_arrays(place, arrays))
        if path.suffix.lower() == ".npz":
            raise DataError(f"{place}: is no NPZ file; write it with numpy.savez")
        try:
            table = read_table(path)
        except LeaveoutError as error:
            raise DataError(f"{option}{error}{_expected_kinds(path)}") from None
        if not len(table):
            raise DataError(f"{place}: there is no row below the header{_expected_kinds(path)}")
        return GivenPoints(path.name, place, table=table)

    def points(self, manifest: Manifest, inputs: int, source: str) -> NDArray[np.float32]:
        """Return the points encoded for a network, shape (points, features)."""
        x = self._encode_table(manifest, source) if self.arrays is None else self.arrays.x
        if x.shape[1] != inputs:
            raise DataError(
                f"{self.place}: a point has {x.shape[1]} features, {source} reads {inputs}"
            )
        return x

    def labels(self, manifest: Manifest) -> NDArray[np.int64] | None:
        """Return the true labels of the points, shape (points,), or None."""
        if self.table is None:
            return None if self.arrays is None else self.arrays.y
        encoding = encoding_of(manifest)
        if encoding is None or encoding.label not in self.table.header:
            return None
        known = manifest.data.labels if manifest.data is not None else ()
        place = {label: at for at, label in enumerate(known)}
        found = []
        for row, cell in enumerate(self.table.column(encoding.label)):
            if cell not in place:
                shown = ", ".join(map(repr, known[:8])) or "none is known"
                raise DataError(
                    f"{self.at(row)}, column {encoding.label!r}: {cell!r} is no label of the "
                    f"training data ({shown})"
                )
            found.append(place[cell])
        return np.asarray(found, dtype=np.int64)

    def at(self, row: int) -> str:
        """Return the position of a point for messages."""
        return f"{self.place}, {self.row_name(row)}"

    def row_name(self, row: int) -> str:
        """Return a point's name in the file: its line, or its number from 0."""
        if self.table is None:
            return f"row {row}"
        return f"{self.table.unit} {self.table.lines[row]}"

    def _encode_table(self, manifest: Manifest, source: str) -> NDArray[np.float32]:
        """Encode the table for a network."""
        assert self.table is not None
        encoding = encoding_of(manifest)
        rows = list(self.table.records())
        places = [self.row_name(row) for row in range(len(rows))]
        if encoding is not None:
            self._refuse_missing(encoding)
            try:
                return encode_rows(encoding, rows, places)
            except LeaveoutError as error:
                raise DataError(f"{self.place}, {error}") from None
        features = manifest.data.features if manifest.data is not None else ()
        if not features or not set(features) <= set(self.table.header):
            instead = "an array" if self.place == _MEMORY else "an NPZ with X_test (or X)"
            raise DataError(
                f"{self.place}: is a table, but the family of {source} keeps no encoding of one; "
                f"give {instead} as the network reads them"
            )
        return self._plain(rows, features)

    def _refuse_missing(self, encoding: Encoding) -> None:
        """Raise if the table lacks a column or a value of one."""
        assert self.table is not None
        header = self.table.header
        for column in encoding.columns:
            if column.name not in header:
                commas = len(header) == 1 and ";" in header[0]
                cure = "; separate columns by commas" if commas else hint(column.name, header)
                raise DataError(f"{self.place}: column {column.name!r} is missing{cure}")
            cells = self.table.column(column.name)
            if "" in cells:
                raise DataError(
                    f"{self.at(cells.index(''))}, column {column.name!r}: the value is missing; "
                    "fill it in, or drop the row"
                )

    def _plain(
        self, rows: Sequence[dict[str, str]], features: Sequence[str]
    ) -> NDArray[np.float32]:
        """Read features by name, in the network's order."""
        values = np.empty((len(rows), len(features)))
        for at, row in enumerate(rows):
            for column, name in enumerate(features):
                value = number(row[name])
                if value is None:
                    raise DataError(
                        f"{self.at(at)}, column {name!r}: {row[name]!r} is not a finite number"
                    )
                values[at, column] = value
        return _features(self.place, "the table", values)


def _expected_kinds(path: Path) -> str:
    """Return the end of a message about a file of an unknown kind."""
    return "" if path.suffix.lower() in _KINDS else "; a CSV or an NPZ is expected"


def _numbers_of(given: Any) -> NDArray[Any]:
    if np.ma.isMaskedArray(given):
        raise DataError(f"{_MEMORY}: is an array with a mask; fill it first")
    try:
        return np.asarray(given)
    except (TypeError, ValueError):
        raise DataError(f"{_MEMORY}: rows must be numbers, as many features each") from None


def _arrays(place: str, arrays: dict[str, NDArray[Any]]) -> _Arrays:
    for name, label in _PAIRS:
        if name in arrays:
            x = _features(place, name, arrays[name])
            return _Arrays(x, _labels(place, label, arrays[label], x) if label in arrays else None)
    held = ", ".join(sorted(arrays)) or "nothing"
    raise DataError(
        f"{place}: there is neither an array 'X_test' nor 'X' (it has {held}); y_test or y "
        "beside it holds the true labels"
    )


def _features(place: str, name: str, raw: NDArray[Any]) -> NDArray[np.float32]:
    if raw.ndim < 2 or not raw.size or raw.dtype.kind not in "fiub":
        raise DataError(
            f"{place}: {name!r} is {raw.dtype} of shape {raw.shape}, expected numbers, a row a "
            "point"
        )
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(raw.reshape(len(raw), -1), dtype=np.float32)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise DataError(f"{place}: {name!r} row {row} holds what is no finite float32")
    return values


def _labels(place: str, name: str, raw: NDArray[Any], x: NDArray[np.float32]) -> NDArray[np.int64]:
    whole = raw.ndim == 1 and raw.dtype.kind in "fiub" and bool((np.floor(raw) == raw).all())
    if not whole or len(raw) != len(x):
        raise DataError(
            f"{place}: {name!r} is {raw.dtype} of shape {raw.shape}, expected {len(x)} whole "
            "numbers, a label a point"
        )
    return raw.astype(np.int64)
