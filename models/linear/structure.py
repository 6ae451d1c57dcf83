"""Trees that a declared fifth of the rows chooses, so that the other rows have no part in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leaveout.arrays import Bools
from leaveout.errors import LinearError
from leaveout.models.train.rows import TableRows

EVERY = 5
"""Of so many rows one chooses trees."""

SHAPE = {
    "max_depth": 3, "num_leaves": 8, "min_data_in_leaf": 10, "learning_rate": 0.25,
    "feature_fraction": 0.6,
}  # fmt: skip
"""LightGBM's settings: small leaves and few features a tree make trees that differ."""


def boost(rows: TableRows, trees: int) -> tuple[bytes, TableRows]:
    """Train trees; return LightGBM's text and the rows that had no part in them.

    Which rows choose depends on their numbers alone: 0, 5, 10, ...; a group has the number of its
    first row. So no other row or group changes a tree by its absence.
    """
    chosen = _choosers(rows)
    for part, does in ((chosen, "chooses the trees"), (~chosen, "is left to fit the model to")):
        missing = np.setdiff1d(np.arange(len(rows.labels)), rows.y[part])
        if len(missing):
            raise LinearError(
                f"--trees: no row with the label {rows.labels[missing[0]]!r} {does}; shuffle the "
                "rows, or train without --trees"
            )
    return _train(rows, chosen, trees), _without(rows, chosen)


def _choosers(rows: TableRows) -> Bools:
    numbers = np.arange(len(rows.X)) if rows.names is None else rows.names
    if rows.groups is not None:
        _, first, group = np.unique(rows.groups[1], return_index=True, return_inverse=True)
        numbers = numbers[first][group]
    return np.asarray(numbers % EVERY == 0)


def _train(rows: TableRows, chosen: Bools, trees: int) -> bytes:
    try:
        import lightgbm
    except ImportError:
        raise LinearError(
            "--trees: lightgbm is not installed; pip install lightgbm, or pass a file of trees to "
            "--features"
        ) from None
    labels = len(rows.labels)
    goal = (
        {"objective": "binary"} if labels == 2 else {"objective": "multiclass", "num_class": labels}
    )
    weights = None if rows.weights is None else rows.weights[chosen]
    settings = {
        **SHAPE, **goal, "num_threads": 1, "seed": 0, "deterministic": True,
        "force_row_wise": True, "verbose": -1,
    }  # fmt: skip
    data = lightgbm.Dataset(rows.X[chosen], rows.y[chosen], weight=weights)
    return str(lightgbm.train(settings, data, trees).model_to_string()).encode()


def _without(rows: TableRows, gone: Bools) -> TableRows:
    kept = ~gone
    return replace(
        rows,
        X=rows.X[kept],
        y=rows.y[kept],
        names=np.flatnonzero(kept) if rows.names is None else rows.names[kept],
        listed=len(rows.X) if rows.names is None else rows.listed,
        groups=None if rows.groups is None else (rows.groups[0], rows.groups[1][kept]),
        weights=None if rows.weights is None else rows.weights[kept],
    )
