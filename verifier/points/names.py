"""Names of rows, labels and columns from the training data, or else their numbers."""

from __future__ import annotations

from leaveout.models import DataFacts
from leaveout.models.train.encoding import CategoryColumn, Encoding

LETTERS = {"network": "N", "forest": "T"}
"""What a model is called where nobody has named it."""


def is_plain(encoding: Encoding) -> bool:
    """Return whether columns are read unencoded, like those of an array."""
    return not any(isinstance(each, CategoryColumn) or each.scaled for each in encoding.columns)


def row_id(facts: DataFacts | None, row: int) -> str:
    """Return the name of a training row, such as ``P-0193``; empty if it has none."""
    known = facts is not None and 0 <= row < len(facts.ids)
    return facts.ids[row] if facts is not None and known else ""


def row_name(row: int, name: str = "") -> str:
    """Return the phrase for a training row with the name from `row_id`."""
    return f"{name} (row {row})" if name else f"row {row}"


def label_name(facts: DataFacts | None, label: int) -> str:
    """Return the name of a label; empty if it only has a number."""
    known = facts.labels if facts is not None else ()
    named = 0 <= label < len(known) and known[label] != str(label)
    return known[label] if named else ""


def label_phrase(label: int, name: str = "") -> str:
    """Return the phrase for a label with the name from `label_name`."""
    return repr(name) if name else f"label {label}"


def unit_of(facts: DataFacts | None, column: str) -> str:
    """Return the unit of a column; empty if unknown."""
    return facts.units.get(column, "") if facts is not None else ""
