"""Given points whose answers each row's absence changes; every member is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.by_row import ByRowRecord, RowLeakRecord
from leaveout.verifier.points.answers import as_box
from leaveout.verifier.points.given import GivenPoints
from leaveout.verifier.row_records import RowPointsRecord, RowsError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Asked:
    """Points, the model's answers, and the members that answer differently."""

    x: NDArray[Any]  # shape (points, features)
    labels: NDArray[np.int64]  # shape (points,)
    confidences: Floats  # shape (points,)
    removed: NDArray[np.int64]  # shape (members,): the row that each member lacks
    apart: Sequence[NDArray[np.int64]]
    answer: Callable[[int, int], int]  # returns what a member answers to a point, both by position


@dataclass(frozen=True, eq=False)
class Changed:
    """The answers to some points that a row's absence changes."""

    points: RowPointsRecord
    leaks: tuple[tuple[int, RowLeakRecord], ...]


def changed_points(
    record: ByRowRecord,
    data: Any,
    network: Path | None,
    family: Path | None,
    folders: Sequence[Path],
) -> dict[int, Changed]:
    """Return for each left-out row which answers to some points it changes."""
    given = GivenPoints.of(data)
    if record.model == "network":
        from leaveout.verifier.evidence.rows_networks import ask_networks

        asked = ask_networks(record, given, network, family, folders)
    else:
        from leaveout.verifier.evidence.rows_forests import ask_forest

        asked = ask_forest(record, given, data, network, folders)
    # Of several members without a row any may be the one that answers otherwise.
    changed: dict[int, dict[int, int]] = {row: {} for row, _ in _left_out(record)}
    for point, members in enumerate(asked.apart):
        for member in members.tolist():
            changed[int(asked.removed[member])].setdefault(point, member)
    bounds = _bounds(record, asked)
    _check_against(record, given, asked, changed, bounds)
    excluded = _count_excluded(record, asked, bounds)
    return {
        row: Changed(
            RowPointsRecord(
                data=given.name,
                points=len(asked.x),
                changed=tuple(changed[row]),
                places=tuple(map(given.row_name, changed[row])),
                not_excluded=len(asked.x) - int(excluded[at]),
            ),
            tuple(_leaks(row, asked, changed[row], bounds)),
        )
        for row, at in _left_out(record)
    }


def _left_out(record: ByRowRecord) -> Iterator[tuple[int, int]]:
    """Yield the rows that members lack, with their positions in the record."""
    for at, (row, members) in enumerate(zip(record.rows, record.members, strict=True)):
        if members:
            yield row, at


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Bounds of rows per label, infinite if unknown, and the points they cover."""

    of: dict[int, Floats]
    inside: NDArray[np.bool_]


def _bounds(record: ByRowRecord, asked: Asked) -> _Bounds:
    of = {}
    for each in record.labels:
        levels = np.append(np.asarray(each.levels, np.float64), np.inf)
        of[each.label] = levels[np.asarray(each.level)]
    return _Bounds(of, as_box(record.box).contains(asked.x.astype(np.float64)))


def _check_against(
    record: ByRowRecord,
    given: GivenPoints,
    asked: Asked,
    changed: dict[int, dict[int, int]],
    bounds: _Bounds,
) -> None:
    """Raise if a point contradicts a record."""
    for row, at in _left_out(record):
        for point in changed[row]:
            of = bounds.of.get(int(asked.labels[point]))
            if of is None or not bounds.inside[point]:
                continue
            if asked.confidences[point] > of[at]:
                raise RowsError(
                    f"the results are wrong of row {row}: its bound of label "
                    f"{asked.labels[point]} is {of[at]:.6g}, and without it the answer to "
                    f"{given.row_name(point)} of {given.name}, confidence "
                    f"{asked.confidences[point]:.6g}, changes; verify again"
                )


def _leaks(
    row: int, asked: Asked, changed: dict[int, int], bounds: _Bounds
) -> Iterator[tuple[int, RowLeakRecord]]:
    """Yield the worst changed answer of each label asked about."""
    worst: dict[int, int] = {}
    for point in changed:
        label = int(asked.labels[point])
        if not bounds.inside[point] or label not in bounds.of:
            continue
        if label not in worst or asked.confidences[point] > asked.confidences[worst[label]]:
            worst[label] = point
    for label, point in worst.items():
        x = asked.x[point]
        yield (
            label,
            RowLeakRecord(
                row=row,
                member=changed[point],
                confidence=float(asked.confidences[point]),
                member_label=asked.answer(changed[point], point),
                x=x.astype(x.dtype.newbyteorder("<")).tobytes(),
            ),
        )


def _count_excluded(record: ByRowRecord, asked: Asked, bounds: _Bounds) -> NDArray[np.int64]:
    """Return for each row how many covered points lie above its bound."""
    excluded = np.zeros(len(record.rows), np.int64)
    for label, of in bounds.of.items():
        own = bounds.inside & (asked.labels == label)
        confidences = np.sort(asked.confidences[own])
        excluded += len(confidences) - np.searchsorted(confidences, of, side="right")
    return excluded
