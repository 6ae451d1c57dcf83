"""Points that a reader gives to be held against the bounds: arrays, or a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError
from leaveout.files import ARCHIVE, open_file
from leaveout.models.archive import read_archive
from leaveout.models.table import Table, read_table
from leaveout.models.train.encoding import Encoding, encode_rows
from leaveout.verifier.page.errors import PageError

__all__ = ["Points", "PointsFile"]

_ZIP = b"PK"
_PAIRS = (("X_test", "y_test"), ("X", "y"))


@dataclass(frozen=True, eq=False)
class Points:
    """Points as a network reads them.

    Attributes
    ----------
    x : ndarray of float32, shape (points, features)
    y : ndarray of int64, shape (points,), or None
        Their true labels, where they are known.
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class PointsFile:
    """A file of points, read once.

    Attributes
    ----------
    path : str
        As it was given, for messages.
    arrays : Points or None
    cells : Cells or None
        Of a table, which a family's encoding turns into points.
    """

    path: str
    arrays: Points | None = None
    cells: Table | None = None

    @staticmethod
    def open(text: str) -> PointsFile:
        """Read the value of ``--data``.

        Raises
        ------
        PageError
            If it cannot be read, or holds no points.
        """
        path = Path(text)
        try:
            with open_file(path, ARCHIVE) as stream:
                start = stream.read(len(_ZIP))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise PageError(f"--data {text}: cannot be read: {reason}") from None
        if start == _ZIP:
            return PointsFile(text, arrays=_arrays(text, read_archive(path, PageError)))
        if path.suffix.lower() == ".npz":
            raise PageError(f"--data {text}: is no NPZ file; write it with numpy.savez")
        try:
            cells = read_table(path)
        except LeaveoutError as error:
            raise PageError(f"--data {error}") from None
        if not cells.rows:
            raise PageError(f"--data {text}: there is no row below the header")
        return PointsFile(text, cells=cells)

    def points(self, encoding: Encoding | None, labels: Sequence[str], source: str) -> Points:
        """Return the points as a network reads them.

        Parameters
        ----------
        encoding : Encoding or None
            How the family's training data was encoded; a table needs one.
        labels : sequence of str
            What the training data calls the labels.
        source : str
            The network, for messages.

        Raises
        ------
        PageError
            If the table cannot be encoded.
        """
        if self.arrays is not None:
            return self.arrays
        assert self.cells is not None
        if encoding is None:
            raise PageError(
                f"--data {self.path}: is a table, but the family of {source} keeps no encoding of "
                "one; give an NPZ with X_test, and y_test if the labels are known, as the network "
                "reads them"
            )
        header = self.cells.header
        rows = [dict(zip(header, row, strict=True)) for row in self.cells.rows]
        try:
            x = encode_rows(encoding, rows, [f"line {line}" for line in self.cells.lines])
        except LeaveoutError as error:
            raise PageError(f"--data {self.path}, {error}") from None
        if encoding.label not in header:
            return Points(x, None)
        return Points(x, self._labels(encoding.label, labels))

    def _labels(self, column: str, labels: Sequence[str]) -> NDArray[np.int64]:
        assert self.cells is not None
        place = {label: at for at, label in enumerate(labels)}
        at = self.cells.header.index(column)
        found = []
        for row, line in zip(self.cells.rows, self.cells.lines, strict=True):
            if row[at] not in place:
                known = ", ".join(map(repr, labels[:8])) or "none is known"
                raise PageError(
                    f"--data {self.path}, line {line}, column {column!r}: {row[at]!r} is no label "
                    f"of the training data ({known})"
                )
            found.append(place[row[at]])
        return np.asarray(found, dtype=np.int64)


def _arrays(path: str, arrays: dict[str, NDArray[Any]]) -> Points:
    for name, label in _PAIRS:
        if name in arrays:
            x = _features(path, name, arrays[name])
            return Points(x, _numbers(path, label, arrays[label], x) if label in arrays else None)
    held = ", ".join(sorted(arrays)) or "nothing"
    raise PageError(
        f"--data {path}: there is neither an array 'X_test' nor 'X' (it has {held}); y_test or y "
        "beside it holds the true labels"
    )


def _features(path: str, name: str, raw: NDArray[Any]) -> NDArray[np.float32]:
    if raw.ndim < 2 or not raw.size or raw.dtype.kind not in "fiub":
        raise PageError(
            f"--data {path}: {name!r} is {raw.dtype} of shape {raw.shape}, expected numbers, a "
            "row a point"
        )
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(raw.reshape(len(raw), -1), dtype=np.float32)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise PageError(f"--data {path}: {name!r} row {row} holds what is no finite float32")
    return values


def _numbers(path: str, name: str, raw: NDArray[Any], x: NDArray[np.float32]) -> NDArray[np.int64]:
    whole = raw.ndim == 1 and raw.dtype.kind in "fiub" and bool((np.floor(raw) == raw).all())
    if not whole or len(raw) != len(x):
        raise PageError(
            f"--data {path}: {name!r} is {raw.dtype} of shape {raw.shape}, expected {len(x)} whole "
            "numbers, a label a point"
        )
    return raw.astype(np.int64)
