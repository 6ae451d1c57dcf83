"""Fitted preprocessing of scikit-learn as one affine map of the features of a family.

Every supported step is affine in each column of numbers, looks up categories and gaps of one column
at a time, or combines such columns linearly. So it is known from what scikit-learn itself computes,
in float64, for a few rows that differ from a first one in a single column.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError, cause
from leaveout.models.table import header_of
from leaveout.models.train.data import TrainingData
from leaveout.models.train.encoding import CategoryColumn, NumberColumn

Array = NDArray[np.floating]

_STEPS = (
    "Pipeline, ColumnTransformer, FeatureUnion, StandardScaler, MinMaxScaler, MaxAbsScaler, "
    "RobustScaler, SimpleImputer, MissingIndicator, OneHotEncoder, OrdinalEncoder, TargetEncoder, "
    "PCA, TruncatedSVD, VarianceThreshold, SelectKBest"
)
_AFFINE = {
    *("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler"),
    *("PCA", "TruncatedSVD", "VarianceThreshold", "SelectKBest"),
}
_ON_GAPS = {"SimpleImputer", "MissingIndicator"}
_LOOK_UP = {*_ON_GAPS, "OneHotEncoder", "OrdinalEncoder", "TargetEncoder"}
_GAPS = {"nan", "None", "<NA>"}


@dataclass(frozen=True, eq=False)
class Probes:
    """Rows to read a preprocessing from: a base, and others that differ in one column each."""

    rows: Any  # all rows, as `fit` receives them: a data frame or an array
    probes: Any  # of the same kind
    names: tuple[str, ...]  # of the columns
    columns: NDArray[np.int64]  # shape (probes,): in which column each differs; -1 for the base
    numbers: NDArray[np.bool_]  # shape (probes,): whether it differs there by another number
    found: NDArray[np.int64]  # shape (features,): the probe of each feature; -1 if it has none
    base: Array  # shape (features,): the base, encoded
    steps: Array  # shape (features,): by how much each feature's probe differs there
    categories: tuple[slice, ...]  # the features of each column of words

    @classmethod
    def of_array(cls, points: NDArray[np.float32]) -> Probes:
        """Return probes for rows of numbers, shape (rows, features)."""
        width = points.shape[1]
        low = points.min(axis=0).astype(np.float64)
        span = points.max(axis=0) - low
        span[span == 0] = 1
        columns = np.arange(-1, width)
        return cls(
            points,
            np.vstack([low, low + np.diag(span)]),
            tuple(f"x{place}" for place in range(width)),
            columns,
            columns >= 0,
            1 + columns[1:],
            low,
            span,
            (),
        )

    @classmethod
    def of_frame(cls, frame: Any, data: TrainingData) -> Probes:
        """Return probes for the rows of a pandas DataFrame, given its encoding."""
        import pandas as pd

        assert data.encoding is not None
        names = header_of(frame, "leave_one_out")
        assert names == [*data.encoding.needed_columns]
        first: list[int] = []  # of each column, the row whose value the base has
        tried: list[tuple[int, int, int, bool]] = []  # column, row, feature, whether a number
        categories = []
        base = np.zeros(data.X.shape[1])
        for column, places in data.encoding.layout:
            part, at = data.X[:, places], places.start
            if column.name not in names:  # whether the number before it is missing
                tried.append((len(first) - 1, int(part[:, 1].argmax()), at + 1, False))
                continue
            place, cells = len(first), frame.iloc[:, len(first)]
            if isinstance(column, NumberColumn):
                values = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64, na_value=np.nan)
                first.append(int(np.nanargmin(values)))
                high = int(np.nanargmax(values))
                if values[high] > values[first[-1]]:
                    tried.append((place, high, at, True))
                continue
            refuse_spellings(column, cells.tolist(), "leave_one_out")
            found = part.argmax(axis=0).tolist()
            tried += [(place, row, at + code, False) for code, row in enumerate(found)]
            first.append(found[-1])
            base[at + len(found) - 1] = 1
            categories.append(slice(at, at + len(found)))
        rows = np.tile(first, (1 + len(tried), 1))
        probe_of = np.full(data.X.shape[1], -1)
        for probe, (place, row, feature, _) in enumerate(tried, 1):
            rows[probe, place] = row
            probe_of[feature] = probe
        cut = {
            # A series keeps its type, which a frame would infer from its cells.
            label: frame.iloc[:, place].iloc[rows[:, place]].reset_index(drop=True)
            for place, label in enumerate(frame.columns)
        }
        return cls(
            frame,
            pd.DataFrame(cut),
            tuple(names),
            np.array([-1, *(place for place, *_ in tried)]),
            np.array([False, *(each[3] for each in tried)]),
            probe_of,
            base,
            np.ones(len(base)),
            tuple(categories),
        )

    def fold(self, steps: list[Any], name: str) -> tuple[Array, Array]:
        """Return fitted steps as weight (outputs, features) and bias (outputs,), in float64."""
        # Of several such maps, unknown categories of a one-hot encoder have no effect in this one.
        table = self.probes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on categories that a member does not know
            for step in steps:
                table = self._apply(step, table, name)
        try:
            found = np.asarray(dense(table), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TrainingError(
                f"{name}: the preprocessing leaves words ({cause(error)}): encode them, e.g. with "
                "OneHotEncoder(handle_unknown='ignore')"
            ) from None
        finite = np.isfinite(found).all(axis=1)
        if not finite.all():
            column = self.names[self.columns[np.argmin(finite)]]
            raise TrainingError(
                f"{name}: the preprocessing leaves gaps of column {column!r}: add SimpleImputer()"
            )
        weight = np.where(self.found < 0, 0.0, (found[self.found] - found[0]).T) / self.steps
        for part in self.categories:
            each = found[self.found[part]]
            weight[:, part] = (each - np.quantile(each, 0.5, axis=0, method="lower")).T
        return weight, found[0] - weight @ self.base

    def _apply(self, step: Any, table: Any, name: str) -> Any:
        """Apply a fitted step to the probes, or raise if it is not supported."""
        from sklearn.compose import ColumnTransformer
        from sklearn.pipeline import FeatureUnion, Pipeline
        from sklearn.utils import _safe_indexing

        if step is None or isinstance(step, str):  # "passthrough"
            return table
        kind = type(step).__name__
        if type(step) is Pipeline:
            for _, each in step.steps:
                table = self._apply(each, table, name)
            return table
        if type(step) is ColumnTransformer:
            for _, each, columns in getattr(step, "transformers_", ()):
                part = _safe_indexing(table, columns, axis=1)
                if not isinstance(each, str) and (part.ndim == 1 or part.shape[1]):
                    self._apply(each, part, name)
        elif type(step) is FeatureUnion:
            for _, each in step.transformer_list:
                self._apply(each, table, name)
        elif kind == "FunctionTransformer" and step.func is not None:
            raise TrainingError(
                f"{name}: FunctionTransformer is not supported: apply its function to the table "
                "beforehand"
            )
        elif not type(step).__module__.startswith("sklearn.") or kind not in {
            *_AFFINE,
            *_LOOK_UP,
            "FunctionTransformer",
        }:
            raise TrainingError(
                f"{name}: the pipeline's step {kind} is not supported; expected {_STEPS}; apply it "
                "to X beforehand"
            )
        elif "transform" in vars(step):
            raise TrainingError(f"{name}: {kind} has a transform of its own: use scikit-learn's")
        elif getattr(step, "clip", False):
            raise TrainingError(f"{name}: {kind}(clip=True) is not supported: use clip=False")
        elif kind in _LOOK_UP:
            self._refuse_mixed(step, table, name)
        try:
            return step.transform(table)
        except Exception as error:
            cure = "use handle_unknown='ignore'" if kind in _LOOK_UP else "fit it on X"
            raise TrainingError(f"{name}: {kind} fails ({cause(error)}): {cure}") from None

    def _refuse_mixed(self, step: Any, table: Any, name: str) -> None:
        """Raise if a step looks up numbers, or what depends on several columns."""
        kind = type(step).__name__
        fills = kind in _ON_GAPS and repr(step.missing_values) in _GAPS
        found = np.asarray(dense(table), dtype=object)
        for cells in found.reshape(len(found), -1).T:
            texts = [repr(each) for each in cells]
            differs = np.array([text != texts[0] for text in texts])
            sources = {self.names[column] for column in self.columns[differs]}
            if len(sources) > 1:
                raise TrainingError(
                    f"{name}: {kind} follows a step that combines columns "
                    f"({', '.join(sorted(sources))}): put {kind} first"
                )
            if not fills and (differs & self.numbers).any():
                (column,) = sources
                cure = (
                    "write gaps as NaN"
                    if kind in _ON_GAPS
                    else "pass a data frame with raw=True in which they are categories, "
                    f"df[{column!r}].astype('category')"
                )
                raise TrainingError(f"{name}: {kind} looks up numbers of {column!r}: {cure}")


def dense(table: Any) -> Any:
    """Return an array where it was sparse."""
    return table.toarray() if hasattr(table, "toarray") else table


def refuse_spellings(column: CategoryColumn, cells: list[Any], source: str) -> None:
    """Raise if scikit-learn distinguishes what is one word to us."""
    if len({repr(each) for each in cells}) > len(column.categories):
        raise TrainingError(
            f"{source}: column {column.name!r} has the same word in several forms (with "
            "blanks, or None and NaN), which scikit-learn distinguishes: write each in one form"
        )
