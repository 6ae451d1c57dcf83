"""Checks that a file's statements on rows are consistent; it may be hand-written."""

from __future__ import annotations

import math
from itertools import pairwise

from leaveout.verifier.by_row import ByRowRecord, LabelByRowRecord
from leaveout.verifier.points.row_bounds import NO_LEAK
from leaveout.verifier.row_records import RowsError

_BYTES = {"network": 4, "forest": 8}


def refuse_unfit(record: ByRowRecord) -> None:
    """Raise if the parts of a record are inconsistent."""
    where = f"the rows of {record.network}"
    rows, members = record.rows, record.members
    if len(members) != len(rows) or len(record.ids) not in {0, len(rows)}:
        raise RowsError(
            f"{where}: {len(rows)} rows, {len(members)} numbers of members and {len(record.ids)} "
            "names; expected one a row"
        )
    if any(after <= before for before, after in pairwise(rows)) or any(n < 0 for n in members):
        raise RowsError(f"{where} do not ascend, or have fewer members than none")
    if len(record.box.lower) != len(record.box.upper):
        raise RowsError(f"{where}: a box with unequal numbers of lower and upper ends")
    for each in record.labels:
        _refuse_label(record, each, f"{where}, label {each.label}")


def _refuse_label(record: ByRowRecord, own: LabelByRowRecord, where: str) -> None:
    levels = own.levels
    if len(own.level) != len(record.rows):
        raise RowsError(f"{where}: {len(own.level)} bounds, expected one a row")
    if not all(-1 <= at < len(levels) for at in own.level):
        raise RowsError(f"{where}: a row has a bound that is not there")
    if not all(math.isfinite(each) and (each >= 0 or each == NO_LEAK) for each in levels):
        raise RowsError(f"{where}: a bound is no number from 0, nor -1 for no leak at all")
    if any(at >= 0 and not count for at, count in zip(own.level, record.members, strict=True)):
        raise RowsError(f"{where}: a row that was not left out has a bound")
    place = {row: at for at, row in enumerate(record.rows)}
    size = _BYTES[record.model] * len(record.box.lower)
    for leak in own.leaks:
        at = place.get(leak.row, -1)
        if at < 0 or not math.isfinite(leak.confidence) or len(leak.x) not in {0, size}:
            raise RowsError(f"{where}: a leak of row {leak.row} is damaged, or of no such row")
        if own.level[at] < 0 or leak.confidence > levels[own.level[at]]:
            raise RowsError(
                f"{where}: the leak of row {leak.row} has a confidence of {leak.confidence:.6g}, "
                "above the row's bound; verify again"
            )
