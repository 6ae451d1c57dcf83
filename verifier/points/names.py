"""What rows, labels and columns are called: by the names the training data gave, else by number."""

from __future__ import annotations

from leaveout.models import DataFacts
from leaveout.models.train.encoding import CategoryColumn, Encoding

LETTERS = {"network": "N", "forest": "T"}
"""What a model is called where nobody has named it."""


def is_plain(encoding: Encoding) -> bool:
    """Whether columns are read as they are, as those of an array."""
    return not any(isinstance(each, CategoryColumn) or each.scaled for each in encoding.columns)


def row_id(facts: DataFacts | None, row: int) -> str:
    """Return the name of a training row, such as ``P-0193``; empty where it has none."""
    known = facts is not None and 0 <= row < len(facts.ids)
    return facts.ids[row] if facts is not None and known else ""


def row_name(row: int, name: str = "") -> str:
    """Return what a sentence calls a training row, of the name that `row_id` gives."""
    return f"{name} (row {row})" if name else f"row {row}"


def label_name(facts: DataFacts | None, label: int) -> str:
    """Return the name of a label; empty where it is called by its number."""
    known = facts.labels if facts is not None else ()
    named = 0 <= label < len(known) and known[label] != str(label)
    return known[label] if named else ""


def labelled(label: int, name: str = "") -> str:
    """Return what a sentence calls a label, of the name that `label_name` gives."""
    return repr(name) if name else f"label {label}"


def unit_of(facts: DataFacts | None, column: str) -> str:
    """Return what a column's numbers are measured in; empty where that is not known."""
    return facts.units.get(column, "") if facts is not None else ""
