"""The neutral mixed-integer linear problem that every back end reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Problem:
    """A mixed-integer linear problem over ``n`` variables and ``m`` rows.

    Optimise ``objective @ v + offset`` subject to ``row_lower <= matrix @ v <= row_upper``,
    ``lower <= v <= upper`` and ``v[integer]`` integral. Missing bounds are ``-inf`` and ``inf``.

    Attributes
    ----------
    objective : ndarray of float64, shape (n,)
    matrix : scipy.sparse.csr_array of float64, shape (m, n)
    row_lower, row_upper : ndarray of float64, shape (m,)
    lower, upper : ndarray of float64, shape (n,)
    integer : ndarray of bool, shape (n,)
    maximise : bool
        Whether the objective is maximised (otherwise minimised).
    offset : float
        Constant added to the objective.
    names : tuple of str
        One name per variable, or empty.

    Raises
    ------
    ValueError
        If shapes disagree, a number is NaN, a coefficient is infinite, or a lower bound
        exceeds its upper bound.
    """

    objective: NDArray[np.float64]
    matrix: csr_array
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    integer: NDArray[np.bool_]
    maximise: bool = False
    offset: float = 0.0
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rows, variables = self.matrix.shape
        shapes = {
            "objective": (self.objective, variables),
            "lower": (self.lower, variables),
            "upper": (self.upper, variables),
            "integer": (self.integer, variables),
            "row_lower": (self.row_lower, rows),
            "row_upper": (self.row_upper, rows),
        }
        for name, (array, length) in shapes.items():
            if array.shape != (length,):
                raise ValueError(f"{name} has shape {array.shape}, expected ({length},)")
            if np.isnan(array).any():
                raise ValueError(f"{name} contains NaN")
        if self.names and len(self.names) != variables:
            raise ValueError(f"{len(self.names)} names for {variables} variables")
        if not (np.isfinite(self.matrix.data).all() and np.isfinite(self.objective).all()):
            raise ValueError("a coefficient is not finite")
        for kind, low, high in (
            ("variable", self.lower, self.upper),
            ("row", self.row_lower, self.row_upper),
        ):
            crossed = np.flatnonzero(low > high)
            if crossed.size:
                first = int(crossed[0])
                raise ValueError(f"{kind} {first}: lower {low[first]} exceeds upper {high[first]}")

    @property
    def variables(self) -> int:
        """The number of variables, ``n``."""
        return int(self.matrix.shape[1])

    @property
    def rows(self) -> int:
        """The number of rows, ``m``."""
        return int(self.matrix.shape[0])

    def value(self, point: NDArray[np.float64]) -> float:
        """Return the objective at ``point`` (shape ``(n,)``), offset included."""
        return float(self.objective @ point) + self.offset

    def violation(self, point: NDArray[np.float64]) -> float:
        """Return the largest absolute violation of bounds, rows or integrality."""
        activity = self.matrix @ point
        parts = [
            self.lower - point,
            point - self.upper,
            self.row_lower - activity,
            activity - self.row_upper,
            np.abs(point - np.round(point))[self.integer],
        ]
        return max(0.0, *(float(part.max(initial=0.0)) for part in parts))
