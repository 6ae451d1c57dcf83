"""The points of a service, numbered once and never renumbered."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.errors import ShardedError


@dataclass(frozen=True)
class Rows:
    """Points in the order of their numbers."""

    ids: NDArray[np.int64]  # shape (points,)
    features: NDArray[np.float64]  # shape (points, features)
    codes: NDArray[np.int64]  # shape (points,): label indices
    next_id: int  # the number of the next point to be added

    @classmethod
    def first(cls, features: NDArray[np.float64], codes: NDArray[np.int64]) -> Rows:
        """Return points numbered from 0."""
        return cls(np.arange(len(codes), dtype=np.int64), features, codes, len(codes))

    def with_rows(self, features: NDArray[np.float64], codes: NDArray[np.int64]) -> Rows:
        """Return the points with further ones appended."""
        ids = np.arange(self.next_id, self.next_id + len(codes), dtype=np.int64)
        return Rows(
            np.concatenate([self.ids, ids]),
            np.concatenate([self.features, features]),
            np.concatenate([self.codes, codes]),
            self.next_id + len(codes),
        )

    def without(self, places: NDArray[np.int64]) -> Rows:
        """Return the points without those at given positions."""
        return Rows(
            np.delete(self.ids, places),
            np.delete(self.features, places, axis=0),
            np.delete(self.codes, places),
            self.next_id,
        )

    def places(self, ids: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the positions of points, given their numbers."""
        asked = np.asarray(ids)
        if asked.ndim != 1 or (asked.size and not np.issubdtype(asked.dtype, np.integer)):
            raise ShardedError(
                f"ids: expected a list of whole numbers, got {asked.dtype} of shape {asked.shape}"
            )
        asked = asked.astype(np.int64)
        if len(np.unique(asked)) != len(asked):
            values, counts = np.unique(asked, return_counts=True)
            raise ShardedError(f"id {values[counts > 1][0]}: duplicate; name each point once")
        for point in asked[(asked < 0) | (asked >= self.next_id)]:
            raise ShardedError(
                f"id {point}: no such point ever existed; ids run from 0 to {self.next_id - 1}"
            )
        places: NDArray[np.int64] = np.searchsorted(self.ids, asked).astype(np.int64)
        inside = np.minimum(places, max(len(self.ids) - 1, 0))
        gone = self.ids[inside] != asked if len(self.ids) else np.ones(len(asked), dtype=bool)
        for point in asked[gone]:
            raise ShardedError(f"id {point}: already deleted; drop it from the list")
        return places

    def digest(self) -> str:
        """Return a hash of the content."""
        found = hashlib.sha256(f"{self.features.shape} {self.next_id}".encode())
        for array in (self.ids, self.features, self.codes):
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()


def as_features(values: ArrayLike, width: int | None = None) -> NDArray[np.float64]:
    """Return points as a new float64 array, after checks."""
    try:
        table = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ShardedError(f"X: expected a table of numbers: {error}") from None
    if table.ndim != 2 or not table.shape[1]:
        raise ShardedError(f"X: expected one row per point, got the shape {table.shape}")
    if width is not None and table.shape[1] != width:
        raise ShardedError(f"X: expected {width} features, got {table.shape[1]}")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = bad[0]
        raise ShardedError(
            f"X: row {row}, column {column} is {table[row, column]}; expected finite numbers: "
            "fill in or drop missing values"
        )
    return table


def as_labels(values: ArrayLike, points: int) -> NDArray[Any]:
    """Return labels as an array, after checks."""
    labels = np.asarray(values)
    if labels.shape != (points,):
        raise ShardedError(f"y: expected {points} labels, one per row of X, got {labels.shape}")
    if labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels):
        labels = labels.astype(str)
    if labels.dtype.kind not in "biuU":
        raise ShardedError(f"y: expected whole numbers or text, got {labels.dtype}")
    return labels
