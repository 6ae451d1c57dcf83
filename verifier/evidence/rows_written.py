"""All rows as CSV and as JSON."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from leaveout.verifier.row_records import RowLabelRecord, RowRecord
from leaveout.version import VERSION
from leaveout.written import TableWriter, as_json


def to_csv(records: Sequence[RowRecord]) -> str:
    """Return rows as CSV: one line each, with the bound and worst known leak per label.

    What is not known is empty. Numbers are written so that they are read back as they are, text so
    that no spreadsheet takes it for a formula.
    """
    labels = {_column(each): each.label for record in records for each in record.labels}
    points = any(record.points is not None for record in records)
    header = ["row", "name", "model", "statements", "members", "bound", "leak"]
    header += [f"{what} {column}" for column in labels for what in ("bound", "leak")]
    header += ["points", "changed", "not excluded", "changed points"] if points else []
    stream = io.StringIO()
    writer = TableWriter(stream)
    writer.row([*header, "words"])
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
        writer.row([*line, record.words])
    return stream.getvalue()


def to_json(records: Sequence[RowRecord]) -> bytes:
    """Return rows as JSON: ``{"leaveout": version, "rows": [...]}``."""
    whole = {"leaveout": VERSION, "rows": list(records)}
    return as_json(whole)


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
