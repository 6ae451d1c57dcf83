"""Forests of tables: folders with a forest, its columns and a specification."""

from __future__ import annotations

from leaveout.models.forest.columns import COLUMNS, FOREST, SPEC, ForestColumns, load_columns
from leaveout.models.forest.folders.folder import (
    ForestFolder,
    add_rows,
    change_forest,
    delete_rows,
    rows_of_table,
)
from leaveout.models.forest.folders.training import ForestReport, train_forest
from leaveout.models.train.changes import Addition, Deletion

__all__ = [
    "COLUMNS",
    "FOREST",
    "SPEC",
    "Addition",
    "Deletion",
    "ForestColumns",
    "ForestFolder",
    "ForestReport",
    "add_rows",
    "change_forest",
    "delete_rows",
    "load_columns",
    "rows_of_table",
    "train_forest",
]
