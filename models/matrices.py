"""Matrices of several networks at once: dense arrays, or entries at the same places of each.

A convolution reads few of its inputs for each output, so it is kept as its entries. Single
matrices are arrays or scipy's sparse arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast, overload

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats, Integers

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_DENSE = 2**14  # matrices of at most this many numbers are dense ...

_FILLED = 0.25
"""... and those with at least this share of entries: loops over entries cost four times as much."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """Matrices of ``m`` networks with entries at the same places.

    Attributes
    ----------
    starts : ndarray of int, shape (rows + 1,)
        Where the entries of each row start; the last number is their total.
    columns : ndarray of int, shape (entries,)
        Ascending within each row.
    values : ndarray of float64 (for an attack, of float32), shape (m or 1, entries)
    width : int
        Number of columns.
    """

    starts: Integers
    columns: Integers
    values: Floats
    width: int

    # Products with arrays on the left are computed here.
    __array_ufunc__ = None
    # An index is a network's, but never too large; so a loop over it would not end.
    __iter__ = None

    @staticmethod
    def of_taps(places: Integers, factors: Floats, width: int) -> Sparse:
        """Return the matrix that reads inputs ``places``, shape (rows, k); -1 reads nothing.

        ``factors`` have shape (m or 1, rows or 1, k); an input read twice by a row counts twice.
        """
        there = places >= 0
        factors = np.broadcast_to(factors, (len(factors), *places.shape))
        rows, columns = np.nonzero(there)[0], places[there]
        return _collect(rows, columns, factors[:, there], (len(places), width))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of networks, rows and columns."""
        return len(self.values), len(self.starts) - 1, self.width

    @property
    def size(self) -> int:
        """Number of stored values."""
        return self.values.size

    @property
    def rows(self) -> Integers:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, which: int) -> csr_array: ...
    @overload
    def __getitem__(self, which: slice | list[int] | NDArray[np.int64]) -> Sparse: ...
    def __getitem__(self, which: int | slice | list[int] | NDArray[np.int64]) -> csr_array | Sparse:
        """Return one network's matrix, or those of some networks."""
        if isinstance(which, int):
            if len(self) == 1:
                return self._only
            return single(self.starts, self.columns, self.values[which], self.width)
        return Sparse(self.starts, self.columns, self.values[which], self.width)

    @cached_property
    def _only(self) -> csr_array:
        return single(self.starts, self.columns, self.values[0], self.width)

    def repeat(self, m: int) -> Sparse:
        """Return the matrices of ``m`` networks, all equal if there is one."""
        values = np.broadcast_to(self.values, (m, self.values.shape[1]))
        return Sparse(self.starts, self.columns, np.ascontiguousarray(values), self.width)

    def transpose(self, *axes: int) -> Sparse:
        """Return the transposed matrices, whatever the axes."""
        return self._reverse

    @cached_property
    def _reverse(self) -> Sparse:
        numbers = np.arange(len(self.columns))
        turned = single(self.starts, self.columns, cast(Floats, numbers), self.width).tocsc()
        values = np.ascontiguousarray(self.values[:, turned.data])
        starts, columns = turned.indptr.astype(np.int64), turned.indices.astype(np.int64)
        return Sparse(starts, columns, values, len(self.starts) - 1)

    def astype(self, dtype: type[np.floating[Any]]) -> Sparse:
        """Return the matrices with numbers of another type."""
        values = cast(Floats, self.values.astype(dtype))
        return Sparse(self.starts, self.columns, values, self.width)

    def dense(self) -> Floats:
        """Return arrays, shape (m, rows, columns)."""
        found: Floats = np.zeros(self.shape, self.values.dtype)
        found[:, self.rows, self.columns] = self.values
        return found

    def __rmatmul__(self, values: NDArray[np.floating[Any]]) -> Floats:
        """Return ``values @ self`` for stacked rows, shape (m or 1, p, rows)."""
        count = max(len(values), len(self))
        kind = np.result_type(values, self.values)
        found: Floats = np.empty((count, values.shape[1], self.width), kind)
        for i in range(count):
            own = self[min(i, len(self) - 1)]
            found[i] = values[min(i, len(values) - 1)] @ own
        return found


Matrices: TypeAlias = "Floats | Sparse"
"""Matrices of several networks, shape (m or 1, rows, columns)."""

Matrix: TypeAlias = "Floats | csr_array"
"""One matrix."""


def single(starts: Integers, columns: Integers, values: Floats, width: int) -> csr_array:
    """Return one matrix of entries in ascending order, as in `Sparse`."""
    from scipy.sparse import csr_array

    found = csr_array((values, columns, starts), shape=(len(starts) - 1, width))
    found.has_canonical_format = True
    return found


def dense(matrices: Matrices) -> Floats:
    """Return arrays, shape (m, rows, columns)."""
    return matrices.dense() if isinstance(matrices, Sparse) else matrices


def ends(matrices: Matrices) -> tuple[Floats, Floats]:
    """Return the least and greatest numbers of several networks, written out as one matrix."""
    if not isinstance(matrices, Sparse):
        return matrices.min(axis=0), matrices.max(axis=0)
    values = np.stack([matrices.values.min(axis=0), matrices.values.max(axis=0)])
    low, high = Sparse(matrices.starts, matrices.columns, values, matrices.width).dense()
    return low, high


def numbers(matrices: Matrices) -> Floats:
    """Return the stored numbers of each network in one row."""
    if isinstance(matrices, Sparse):
        return matrices.values
    return matrices.reshape(len(matrices), -1)


def same_places(first: Matrices, second: Matrices) -> bool:
    """Return whether matrices of one shape are kept alike: dense, or as entries at equal places."""
    if isinstance(first, Sparse) and isinstance(second, Sparse):
        starts = np.array_equal(first.starts, second.starts)
        return starts and np.array_equal(first.columns, second.columns)
    return isinstance(first, Sparse) == isinstance(second, Sparse)


def positive(matrix: Matrix) -> Matrix:
    """Return the positive part of one matrix."""
    if isinstance(matrix, np.ndarray):
        return np.maximum(matrix, 0.0)
    found = matrix.copy()
    np.maximum(found.data, 0.0, out=found.data)
    return found


def magnitude(matrix: Matrix) -> Matrix:
    """Return the absolute values of one matrix."""
    return np.abs(matrix) if isinstance(matrix, np.ndarray) else abs(matrix)


def scale_columns(matrix: Matrix, above: Floats, below: Floats) -> Matrix:
    """Return one matrix with positive numbers times their columns' ``above``, others ``below``."""
    if isinstance(matrix, np.ndarray):
        return np.maximum(matrix, 0.0) * above + np.minimum(matrix, 0.0) * below
    found = matrix.copy()
    data, at = found.data, found.indices
    found.data = data * np.where(data > 0.0, above[at], below[at])
    return found


def take_rows(matrix: Matrix, rows: Integers) -> Floats:
    """Return some rows of one matrix, written out."""
    return matrix[rows] if isinstance(matrix, np.ndarray) else matrix[rows].toarray()


def identity(width: int) -> Sparse:
    """Return the matrix that changes nothing."""
    places = np.arange(width)
    return Sparse(np.arange(width + 1), places, np.ones((1, width)), width)


def settle(matrices: Matrices, m: int) -> Matrices:
    """Return the matrices of ``m`` networks as they are stored: dense where that pays."""
    _, rows, columns = matrices.shape
    if isinstance(matrices, Sparse):
        entries = matrices.values.shape[1]
        if rows * columns > _DENSE and entries < _FILLED * rows * columns:
            return matrices.repeat(m)
        matrices = matrices.dense()
    return np.ascontiguousarray(np.broadcast_to(matrices, (m, rows, columns)))


_LARGE, _FEW = 2**20, 2**-4
"""Arrays of at least this many numbers, of which at most this share is not 0, can be entries."""


def without_zeros(matrices: Matrices) -> Matrices:
    """Return the matrices as entries if almost all numbers are 0, as where layers only pick.

    The places then depend on the numbers, so other networks may have other ones.
    """
    _, rows, columns = matrices.shape
    if isinstance(matrices, Sparse) or rows * columns < _LARGE:
        return matrices
    some = (matrices != 0).any(axis=0)
    if np.count_nonzero(some) > _FEW * some.size:
        return matrices
    row, column = np.nonzero(some)
    starts = np.searchsorted(row, np.arange(rows + 1))
    return Sparse(starts, column, np.ascontiguousarray(matrices[:, row, column]), columns)


def compose(second: Matrices, first: Matrices) -> Matrices:
    """Return ``second @ first`` for each network."""
    if not isinstance(first, Sparse) and not isinstance(second, Sparse):
        return np.asarray(second @ first)
    if isinstance(first, Sparse) and isinstance(second, Sparse):
        return _product(second, first)
    if isinstance(first, Sparse):
        assert isinstance(second, np.ndarray)
        return second if _is_identity(first) else np.asarray(second @ first)
    assert isinstance(second, Sparse)
    return np.asarray((first.transpose(0, 2, 1) @ second.transpose()).transpose(0, 2, 1))


def scale(matrices: Matrices, factor: float) -> Matrices:
    """Return ``factor * matrices``."""
    if isinstance(matrices, Sparse):
        values = factor * matrices.values
        return Sparse(matrices.starts, matrices.columns, values, matrices.width)
    return factor * matrices


def add(first: Matrices, second: Matrices, sign: int) -> Matrices:
    """Return ``first + sign * second`` for each network."""
    if not (isinstance(first, Sparse) and isinstance(second, Sparse)):
        return dense(first) + sign * dense(second)
    m = max(len(first), len(second))
    one, two = first.repeat(m), second.repeat(m)
    return _collect(
        np.concatenate([one.rows, two.rows]),
        np.concatenate([one.columns, two.columns]),
        np.concatenate([one.values, sign * two.values], axis=1),
        one.shape[1:],
    )


def _is_identity(matrix: Sparse) -> bool:
    rows = len(matrix.starts) - 1
    places = np.arange(rows)
    return bool(
        rows == matrix.width
        and np.array_equal(matrix.columns, places)
        and np.array_equal(matrix.rows, places)
        and (matrix.values == 1).all()
    )


_TERMS = 2**22
"""Most terms of a product's rows that are computed at once, for each network and unless one row
has more: terms at one place are many times the entries that they are added to."""


def _product(second: Sparse, first: Sparse) -> Sparse:
    """Return the product, with an entry wherever one may be, whatever cancels."""
    lengths = np.diff(first.starts)[second.columns]
    ends = np.concatenate([[0], np.cumsum(lengths)])[second.starts]
    rows, start = len(second.starts) - 1, 0
    parts: list[Sparse] = []
    most = max(1, _TERMS // max(len(first), len(second)))
    while start < rows or not parts:
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + most, side="right")) - 1)
        stop = min(stop, rows)
        at = slice(second.starts[start], second.starts[stop])
        parts.append(_row_products(second, first, at, lengths[at], start, stop))
        start = stop
    if len(parts) == 1:
        return parts[0]
    sizes = np.cumsum([0, *(part.starts[-1] for part in parts)])
    starts = [part.starts[:-1] + size for part, size in zip(parts, sizes[:-1], strict=True)]
    return Sparse(
        np.concatenate([*starts, sizes[-1:]]),
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.values for part in parts], axis=1),
        first.width,
    )


def _row_products(
    second: Sparse, first: Sparse, at: slice, counts: Integers, start: int, stop: int
) -> Sparse:
    """Return some rows of the product: those of the entries ``at``, which meet ``counts`` terms."""
    columns = second.columns[at]
    entry = np.repeat(np.arange(len(columns)), counts)
    other = np.arange(len(entry)) - np.repeat(np.cumsum(counts) - counts, counts)
    other += first.starts[columns[entry]]
    rows = np.repeat(np.arange(stop - start), np.diff(second.starts[start : stop + 1]))
    values = second.values[:, at][:, entry] * first.values[:, other]
    return _collect(rows[entry], first.columns[other], values, (stop - start, first.width))


def _collect(rows: Integers, columns: Integers, values: Floats, shape: tuple[int, int]) -> Sparse:
    """Return the matrices of some entries; those at one place are added."""
    key = rows * shape[1] + columns
    if len(key) and not (np.diff(key) > 0).all():
        order = np.argsort(key, kind="stable")
        key, values = key[order], values[:, order]
        new = np.flatnonzero(np.diff(key, prepend=-1))
        if len(new) < len(key):
            key, values = key[new], np.add.reduceat(values, new, axis=1)
    starts = np.searchsorted(key, np.arange(shape[0] + 1) * shape[1])
    return Sparse(starts, key % max(1, shape[1]), np.ascontiguousarray(values), shape[1])
