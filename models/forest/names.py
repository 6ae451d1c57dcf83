"""Names of rows: positions only, never values of a DataFrame's index."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError

Rows = int | Sequence[int] | NDArray[np.int64]


def names_of(rows: Rows) -> NDArray[np.int64]:
    """Return row names as an array."""
    if _of_pandas(rows):
        raise ForestError(
            "rows are named by their position in the data first fitted, not by a DataFrame's "
            f"index: for a {type(rows).__name__} give numpy.flatnonzero(mask)"
        )
    names: NDArray[np.int64] = np.atleast_1d(np.asarray(rows))
    if names.dtype.kind == "b":
        raise ForestError(
            "rows are named by whole numbers: for a mask give numpy.flatnonzero(mask)"
        )
    return names.astype(np.int64) if not names.size else names


def warn_of_index(X: object, stacklevel: int) -> None:
    """Warn if a DataFrame's index differs from the row positions."""
    if not _of_pandas(X) or not hasattr(X, "index"):
        return
    index = np.asarray(X.index)
    if index.dtype.kind not in "iu" or not np.array_equal(index, np.arange(len(index))):
        warnings.warn(
            "rows are named by their position in the data fitted, 0, 1, 2, ..., not by the index "
            "of this DataFrame",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def _of_pandas(value: object) -> bool:
    """Return whether a value is a pandas object, without importing pandas."""
    return any(each.__module__.partition(".")[0] == "pandas" for each in type(value).__mro__)
