"""Data frames, of pandas or any library whose columns have names, as tables."""

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
    """Whether what a program holds has columns with names."""
    return hasattr(given, "columns") and hasattr(given, "__getitem__")


def frame_table(frame: Any, source: str) -> Table:
    """Return a data frame as a table, every cell a text from which the same value is read."""
    header = header_of(frame, source)
    columns = [[_shown(value) for value in values_of(frame[name])] for name in frame.columns]
    rows = range(len(columns[0]) if columns else 0)
    return Table(Path(source), header, tuple(map(Cells.of, columns)), rows, "row")


def header_of(frame: Any, source: Path | str) -> list[str]:
    """Return the names of the columns; TrainingError as `frame_table` raises."""
    header = [str(name).strip() for name in frame.columns]
    for place, name in enumerate(header):
        if name in header[:place]:
            raise TrainingError(f"{source}: two columns are named {name!r}; rename one")
        if not name:
            raise TrainingError(f"{source}: column {place} has no name; give it one")
    return header


def values_of(column: Any) -> list[Any]:
    """Return the values of a column, or of anything that can be iterated over."""
    return list(column.to_list() if hasattr(column, "to_list") else column)


def cell(value: Any) -> str | None:
    """Write a value as a table has it; None where it is neither a number nor a word."""
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


def _shown(value: Any) -> str:
    """Write a value, also one such as a date, in a column that nothing may read."""
    text = cell(value)
    return str(value) if text is None else text
