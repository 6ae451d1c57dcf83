"""How given rows leave the input set, in the units of the data where known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from leaveout.encoders import Box
from leaveout.models import Manifest
from leaveout.models.train.decoding import cell_text, feature_text, nearest_record
from leaveout.models.train.encoding import CategoryColumn, NumberColumn, encoding_of
from leaveout.verifier.points.answers import Known, State
from leaveout.verifier.points.names import unit_of

_ROWS = 3
"""That are told."""


def why_outside(
    x: NDArray[np.float32],  # shape (rows, features)
    found: NDArray[np.int64],  # shape (rows,)
    known: Sequence[Known],
    manifest: Manifest,
    row_name: Callable[[int], str],
) -> tuple[str, ...]:
    """Return how the first outside rows leave the first input set."""
    if not known:
        return ()
    box = known[0].box
    said: list[str] = []
    for row in np.flatnonzero(found == State.OUTSIDE).tolist():
        why = leaves_box(x[row], box, manifest)
        if why and len(said) < _ROWS:
            said.append(f"{row_name(row)}: {why}")
    return tuple(said)


def leaves_box(point: NDArray[np.float32], box: Box, manifest: Manifest) -> str:
    """Return how a point leaves a box, in table units if possible; empty if it does not."""
    x = point.astype(np.float64)
    # Not <=: what is no number lies nowhere.
    wrong = np.flatnonzero(~((box.lower <= x) & (x <= box.upper)))
    if wrong.size:
        return _beyond(int(wrong[0]), point, box, manifest)
    for each in box.choices:
        values = x[each.columns]
        if not (each.values == values).all(axis=1).any():
            return _unlisted_reason(each.columns, point, manifest)
    return ""


def _beyond(at: int, point: NDArray[np.float32], box: Box, manifest: Manifest) -> str:
    low, high = float(box.lower[at]), float(box.upper[at])
    below = float(point[at]) < low
    side, end = ("below", low) if below else ("above", high)
    column = _column(at, manifest)
    if isinstance(column, NumberColumn):
        value, end = (_in_units(column, each) for each in (float(point[at]), end))
        unit = unit_of(manifest.data, column.name)
        unit = f" {unit}" if unit else ""
        return f"{column.name} = {value:.6g}{unit} is {side} {end:.6g}{unit}"
    if isinstance(column, CategoryColumn):
        return _word(column, point, manifest)
    return f"{_feature(at, manifest)} = {feature_text(point[at])} is {side} {end:.6g}"


def _unlisted_reason(
    columns: NDArray[np.int64], point: NDArray[np.float32], manifest: Manifest
) -> str:
    """Return how a point leaves the listed values of some columns."""
    at = int(columns[0])
    column = _column(at, manifest)
    if isinstance(column, CategoryColumn):
        return _word(column, point, manifest)
    if isinstance(column, NumberColumn):
        value = _in_units(column, float(point[at]))
        unit = unit_of(manifest.data, column.name)
        return (
            f"{column.name} = {value:.6g}{f' {unit}' if unit else ''} is none of the listed values"
        )
    named = ", ".join(_feature(each, manifest) for each in columns.tolist()[:3])
    return f"{named} {'takes' if len(columns) == 1 else 'take'} no listed value"


def _word(column: CategoryColumn, point: NDArray[np.float32], manifest: Manifest) -> str:
    encoding = encoding_of(manifest)
    assert encoding is not None
    values, wrong = nearest_record(encoding, point)
    if column.name in wrong:
        return f"{column.name} is {wrong[column.name]}"
    return f"{column.name} = {cell_text(values[column.name])} is not in the set of inputs"


def _in_units(column: NumberColumn, feature: float) -> float:
    if not column.scaled:
        return feature
    return column.minimum + feature * (column.maximum - column.minimum)


def _column(at: int, manifest: Manifest) -> NumberColumn | CategoryColumn | None:
    encoding, first = encoding_of(manifest), 0
    for column in () if encoding is None else encoding.columns:
        first += len(column.features)
        if at < first:
            return column
    return None


def _feature(at: int, manifest: Manifest) -> str:
    facts = manifest.data
    known = facts is not None and at < len(facts.features)
    return (
        f"feature {at} ({facts.features[at]})" if facts is not None and known else f"feature {at}"
    )
