"""Rows as CSV and as JSON, all of them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

import msgspec

from leaveout.verifier.row_records import RowLabelRecord, RowRecord
from leaveout.version import VERSION

__all__ = ["to_csv", "to_json"]


def to_csv(records: Sequence[RowRecord]) -> str:
    """Return rows as CSV: a line each, with the bound and the worst known leak of every label.

    What is not known is empty. Numbers are written so that they are read back as they are.
    """
    labels = {_column(each): each.label for record in records for each in record.labels}
    points = any(record.points is not None for record in records)
    header = ["row", "name", "model", "statements", "members", "bound", "leak"]
    header += [f"{what} {column}" for column in labels for what in ("bound", "leak")]
    header += ["points", "changed", "not excluded", "changed points"] if points else []
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*header, "words"])
    for record in records:
        own = {_column(each): each for each in record.labels}
        line: list[object] = [
            record.row,
            record.name,
            record.network,
            " ".join(record.statements),
            record.members,
            _number(record.bound),
            _number(record.leak),
        ]
        for column in labels:
            each = own.get(column)
            line += ["", ""] if each is None else [_number(each.bound), _number(each.leak)]
        line += _points(record) if points else ()
        writer.writerow([*line, record.words])
    return stream.getvalue()


def to_json(records: Sequence[RowRecord]) -> bytes:
    """Return rows as JSON: ``{"leaveout": version, "rows": [...]}``."""
    whole = {"leaveout": VERSION, "rows": list(records)}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def _column(each: RowLabelRecord) -> str:
    return each.name or str(each.label)


def _points(record: RowRecord) -> Iterator[object]:
    given = record.points
    if given is None:
        return iter([""] * 4)
    changed = len(given.changed)
    return iter([given.points, changed, given.not_excluded, "; ".join(given.places)])


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)
