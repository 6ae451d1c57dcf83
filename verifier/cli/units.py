"""The values of ``--unit``."""

from __future__ import annotations

from collections.abc import Sequence

from leaveout.errors import TrainingError


def read_units(given: Sequence[str]) -> dict[str, str]:
    """Return the units of numbers, by column."""
    units = {}
    for text in given:
        column, separator, unit = text.rpartition("=")
        if not (separator and column.strip() and unit.strip()):
            raise TrainingError(f"--unit {text}: expected COLUMN=UNIT, as in --unit dose=mg")
        units[column.strip()] = unit.strip()
    return units
