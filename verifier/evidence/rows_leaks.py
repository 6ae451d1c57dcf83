"""Leaks of rows found after a run, merged into the run's record."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from leaveout.verifier.by_row import ByRowRecord, RowLeakRecord


def with_leaks(record: ByRowRecord, found: Sequence[tuple[int, RowLeakRecord]]) -> ByRowRecord:
    """Return a record with leaks added where they are worse than the known ones."""
    labels = []
    for own in record.labels:
        worst = {leak.row: leak for leak in own.leaks}
        for label, leak in found:
            before = worst.get(leak.row)
            if label == own.label and (before is None or leak.confidence > before.confidence):
                worst[leak.row] = leak
        order = sorted(worst.values(), key=lambda each: (-each.confidence, each.row))
        labels.append(structs.replace(own, leaks=tuple(order)))
    return structs.replace(record, labels=tuple(labels))
