"""Conversion of data frames, of pandas or any library with named columns, to tables."""

from __future__ import annotations

import math
import numbers
from pathlib import Path
from typing import Any

import numpy as np

from leaveout.errors import TrainingError
from leaveout.models.cells import Cells
from leaveout.models.table import Table


def is_frame(given: object) -> bool:
    """Return whether an object has named columns."""
    return hasattr(given, "columns") and hasattr(given, "__getitem__")


def frame_table(frame: Any, source: str) -> Table:
    """Return a data frame as a table whose texts read back as the same values."""
    header = header_of(frame, source)
    columns = [[_display_text(value) for value in values_of(frame[name])] for name in frame.columns]
    rows = range(len(columns[0]) if columns else 0)
    return Table(Path(source), header, tuple(map(Cells.of, columns)), rows, "row")


def header_of(frame: Any, source: Path | str) -> list[str]:
    """Return the column names; raises TrainingError as `frame_table` does."""
    header = [str(name).strip() for name in frame.columns]
    for place, name in enumerate(header):
        if name in header[:place]:
            raise TrainingError(f"{source}: two columns are named {name!r}; rename one")
        if not name:
            raise TrainingError(f"{source}: column {place} has no name; give it one")
    return header


def values_of(column: Any) -> list[Any]:
    """Return the values of a column, or of any iterable."""
    return list(column.to_list() if hasattr(column, "to_list") else column)


def cell(value: Any) -> str | None:
    """Return a value as table text; None if it is neither a number nor a word."""
    if value is None or str(value) in {"<NA>", "NaT"}:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        # A missing number, as pandas has it.
        return "" if math.isnan(value) else repr(float(value))
    return None


def _display_text(value: Any) -> str:
    """Return a value of any type as text, for a column that is never parsed."""
    text = cell(value)
    return str(value) if text is None else text
