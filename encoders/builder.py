"""Builder of neutral problems from variables and sparse rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.solvers import Problem

Floats = NDArray[np.float64]
Columns = NDArray[np.int64]


class ProblemBuilder:
    """Builder of a `Problem`, block by block.

    A block of rows is a list of terms ``(columns, coefficients)``, shapes ``(n,)`` and ``(rows,
    n)``. Column -1 is a variable known to be zero and is left out.
    """

    def __init__(self) -> None:
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self._integer: list[NDArray[np.bool_]] = []
        self._names: list[str] = []
        self._rows: list[NDArray[np.int64]] = []
        self._columns: list[Columns] = []
        self._values: list[Floats] = []
        self._row_lower: list[Floats] = []
        self._row_upper: list[Floats] = []
        self._row_count = 0

    @property
    def variables(self) -> int:
        """Number of variables so far."""
        return len(self._names)

    def add_variables(
        self, lower: ArrayLike, upper: ArrayLike, name: str, integer: bool = False
    ) -> Columns:
        """Add variables with bounds; return their columns, shape (n,)."""
        low, high = np.atleast_1d(np.asarray(lower, float)), np.atleast_1d(np.asarray(upper, float))
        start = self.variables
        self._lower.append(low)
        self._upper.append(high)
        self._integer.append(np.full(len(low), integer))
        self._names += [f"{name}[{i}]" for i in range(len(low))]
        return np.arange(start, start + len(low))

    def add_rows(
        self,
        terms: Sequence[tuple[Columns, Floats]],
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
    ) -> None:
        """Add rows ``lower <= sum of coefficients @ variables <= upper``."""
        count = terms[0][1].shape[0]
        for columns, coefficients in terms:
            row, position = np.nonzero((coefficients != 0) & (columns >= 0))
            self._rows.append(row + self._row_count)
            self._columns.append(columns[position])
            self._values.append(coefficients[row, position])
        self._row_lower.append(np.broadcast_to(np.asarray(lower, float), (count,)))
        self._row_upper.append(np.broadcast_to(np.asarray(upper, float), (count,)))
        self._row_count += count

    def build(self, objective: int, maximise: bool) -> Problem:
        """Return the problem that optimises the variable in column ``objective``."""
        from scipy.sparse import csr_array

        costs = np.zeros(self.variables)
        costs[objective] = 1.0
        matrix = csr_array(
            (
                np.concatenate([*self._values, np.zeros(0)]),
                (
                    np.concatenate([*self._rows, np.zeros(0, np.int64)]),
                    np.concatenate([*self._columns, np.zeros(0, np.int64)]),
                ),
            ),
            shape=(self._row_count, self.variables),
        )
        return Problem(
            costs,
            matrix,
            np.concatenate([*self._row_lower, np.zeros(0)]),
            np.concatenate([*self._row_upper, np.zeros(0)]),
            np.concatenate(self._lower),
            np.concatenate(self._upper),
            np.concatenate(self._integer),
            maximise,
            names=tuple(self._names),
        )
