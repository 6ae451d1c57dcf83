"""What a report proves of each training row."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import structs

from leaveout.names import hint
from leaveout.verifier.amounts import bound as shown
from leaveout.verifier.amounts import count_noun
from leaveout.verifier.points.row_bounds import NO_LEAK
from leaveout.verifier.points.sentences import DRAWN_ALONE, NO_CONFIDENCE, label_phrase, row_name
from leaveout.verifier.records import ByRowRecord, LabelByRowRecord, RowLeakRecord
from leaveout.verifier.row_records import (
    RowLabelRecord,
    RowList,
    RowPointsRecord,
    RowRecord,
    RowsError,
)
from leaveout.version import VERSION
from leaveout.written import TableWriter, as_json

if TYPE_CHECKING:
    from leaveout.verifier.report import Report

__all__ = [
    "ORDERS",
    "Order",
    "RowLabelRecord",
    "RowPointsRecord",
    "RowRecord",
    "RowsError",
    "find_rows",
    "folders_of",
    "in_order",
    "rows",
    "to_csv",
    "to_json",
]

_BYTES = {"network": 4, "forest": 8, "linear": 8}


def refuse_unfit(record: ByRowRecord) -> None:
    """Raise if the parts of a record are inconsistent."""
    where = f"the rows of {record.network}"
    rows, members = record.rows, record.members
    if len(members) != len(rows) or len(record.ids) not in {0, len(rows)}:
        raise RowsError(
            f"{where}: {len(rows)} rows, {len(members)} member counts and {len(record.ids)} "
            "names; expected one per row"
        )
    if any(after <= before for before, after in pairwise(rows)) or any(n < 0 for n in members):
        raise RowsError(f"{where} do not ascend, or have negative member counts")
    if len(record.box.lower) != len(record.box.upper):
        raise RowsError(f"{where}: a box with unequal numbers of lower and upper ends")
    for each in record.labels:
        _refuse_label(record, each, f"{where}, label {each.label}")


def _refuse_label(record: ByRowRecord, own: LabelByRowRecord, where: str) -> None:
    levels = own.levels
    if len(own.level) != len(record.rows):
        raise RowsError(f"{where}: {len(own.level)} bounds, expected one per row")
    if not all(-1 <= at < len(levels) for at in own.level):
        raise RowsError(f"{where}: a row refers to a missing bound")
    if not all(math.isfinite(each) and (each >= 0 or each == NO_LEAK) for each in levels):
        raise RowsError(
            f"{where}: a bound is neither a number of at least 0 nor -1 for no leak at all"
        )
    if any(at >= 0 and not count for at, count in zip(own.level, record.members, strict=True)):
        raise RowsError(f"{where}: a row that was not left out has a bound")
    place = {row: at for at, row in enumerate(record.rows)}
    size = _BYTES[record.model] * len(record.box.lower)
    for leak in own.leaks:
        at = place.get(leak.row, -1)
        if at < 0 or not math.isfinite(leak.confidence) or len(leak.x) not in {0, size}:
            raise RowsError(
                f"{where}: a leak of row {leak.row} is damaged, or there is no such row"
            )
        if own.level[at] < 0 or leak.confidence > levels[own.level[at]]:
            raise RowsError(
                f"{where}: the leak of row {leak.row} has a confidence of {leak.confidence:.6g}, "
                "above the row's bound; verify again"
            )


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


def to_csv(records: Sequence[RowRecord]) -> str:
    """Return rows as CSV: one line each, with the bound and worst known leak per label.

    What is not known is empty. Numbers are written so that they are read back as they are, text so
    that no spreadsheet takes it for a formula.
    """
    labels = {_column(each): each.label for record in records for each in record.labels}
    points = any(record.points is not None for record in records)
    unit = "group" if any(record.group for record in records) else "row"
    header = [unit, "name", "model", "statements", "members", "bound", "leak"]
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


Order = Literal["bound", "leak", "changed", "row", "name"]
ORDERS: tuple[Order, ...] = ("bound", "leak", "changed", "row", "name")
"""What rows may be sorted by."""


def rows(
    report: Report,
    *,
    data: Any = None,
    network: Path | None = None,
    family: Path | None = None,
    folder: Path | None = None,
) -> RowList:
    """Return what is proved of each training row, in row order, one model at a time.

    Parameters
    ----------
    report : Report
    data : path, data frame or array_like, optional
        Points, as `leaveout.verify` takes them: of each row it is found out which of their answers
        its absence changes. That needs the network (or forest) and the family.
    network, family : Path, optional
        Where they lie now, if not where they were.
    folder : Path, optional
        Of the report's file: paths are looked for from there too.

    Raises
    ------
    LeaveoutError
        If the report says nothing of rows, the points cannot be read, or the files are not those
        of the report.
    """
    if not report.by_row:
        raise RowsError(_nothing(report))
    found = RowList()
    for record in report.by_row:
        refuse_unfit(record)
        if data is None:
            found += _records(record)
            continue
        from leaveout.verifier.rows.points import changed_points

        changed = changed_points(record, data, network, family, folders_of(report, folder))
        known = [found for each in changed.values() for found in each.leaks]
        for one in _records(with_leaks(record, known)):
            given = changed[one.row].points if one.row in changed else None
            words = one.words if given is None else _with_points(one.words, given)
            found.append(structs.replace(one, points=given, words=words))
    return found


def folders_of(report: Report, folder: Path | None = None) -> tuple[Path, ...]:
    """Return the folders where a report's files may lie."""
    bases = (Path(), *(() if folder is None else (folder,)))
    return (*bases, *(base / report.folder for base in bases if report.folder))


def in_order(records: Sequence[RowRecord], by: Order = "bound") -> RowList:
    """Return rows sorted: the worst first, or by number or name."""
    if by == "row":
        return RowList(sorted(records, key=lambda each: each.row))
    if by == "name":
        return RowList(sorted(records, key=lambda each: (each.name, each.row)))

    def worth(each: RowRecord) -> tuple[float, ...]:
        bound = -1.0 if each.bound is None else each.bound
        leak = -1.0 if each.leak is None else each.leak
        changed = -1.0 if each.points is None else float(len(each.points.changed))
        first = {"bound": bound, "leak": leak, "changed": changed}[by]
        return -first, -bound, -leak, -changed, float(each.row)

    return RowList(sorted(records, key=worth))


def find_rows(records: Sequence[RowRecord], name: str) -> RowList:
    """Return the rows with a name, or else a number: one per model."""
    found = [each for each in records if each.name == name]
    # A number is not another row's where names are numbers.
    if name.startswith("row ") or not any(each.name.isdecimal() for each in records):
        found = found or [each for each in records if str(each.row) == name.removeprefix("row ")]
    if found:
        return RowList(found)
    names = [each.display_name for each in records]
    raise RowsError(
        f"--row {name}: no such row{hint(name, names)}; there are {len(names):,}, from "
        f"{names[0]} to {names[-1]}"
    )


def _nothing(report: Report) -> str:
    if any(each.is_sampled for each in report.results):
        return DRAWN_ALONE
    if any(each.model == "linear" for each in report.models):
        return (
            "the results say nothing about single rows: no statement is about the labels of "
            "leave_one_out(L), such as 'find bound: least b per label such that forall x in X, M "
            "in F: confidence(L, x) > b => label(M, x) == label(L, x)'"
        )
    if any(each.kind == "trees" for each in report.files):
        return "rows of boosted trees are not bounded one by one; a guard asks every member"
    again = f"leaveout verify {report.spec} --json FILE"
    return (
        "the results say nothing about single rows: either an earlier version wrote them "
        f"(verify again: {again}), or no statement is about leaks of a family, such as 'find "
        "bound: least b per label such that forall x in X, M in F: confidence(N, x) > b => "
        "label(M, x) == label(N, x)'"
    )


def _records(record: ByRowRecord) -> list[RowRecord]:
    leaks = [{leak.row: leak for leak in each.leaks} for each in record.labels]
    names = record.ids or ("",) * len(record.rows)
    found = []
    for at, (row, name, members) in enumerate(zip(record.rows, names, record.members, strict=True)):
        labels = tuple(
            _label(record, each, at, known.get(row))
            for each, known in zip(record.labels, leaks, strict=True)
        )
        one = RowRecord(
            row=row,
            name=name,
            model=record.model,
            network=record.network,
            statements=record.statements,
            members=members,
            bound=max((each.bound for each in labels if each.bound is not None), default=None),
            leak=max((each.leak for each in labels if each.leak is not None), default=None),
            labels=labels,
            words="",
            group=record.group,
        )
        found.append(structs.replace(one, words=_words(one)))
    return found


def _label(
    record: ByRowRecord, own: LabelByRowRecord, at: int, leak: RowLeakRecord | None
) -> RowLabelRecord:
    level = own.level[at]
    bound = None if level < 0 else own.levels[level]
    if leak is None:
        return RowLabelRecord(label=own.label, name=own.name, bound=bound)
    kind = "<f4" if record.model == "network" else "<f8"
    names = record.label_names
    known = leak.member_label < len(names) and names[leak.member_label] != str(leak.member_label)
    return RowLabelRecord(
        label=own.label,
        name=own.name,
        bound=bound,
        leak=leak.confidence,
        member_label=leak.member_label,
        member_label_name=names[leak.member_label] if known else "",
        x=tuple(np.frombuffer(leak.x, kind).tolist()),
    )


def _words(one: RowRecord) -> str:
    row = row_name(one.row, one.name, one.group)
    if not one.members:
        return f"{row}: not retrained: nothing is proved about it"
    if one.bound is None:
        return f"{row}: not searched: nothing is proved about it"
    of = [label_phrase(each.label, each.name) for each in one.labels]
    about = "" if len(of) > 1 else f" {of[0]}"
    if one.bound < 0:
        return f"{row}: proved: without it no answer{about} changes"
    proved = (
        f"{row}: nothing is proved: {NO_CONFIDENCE}"
        if one.model == "forest" and one.bound >= 1
        else f"{row}: proved: without it no answer{about} with a confidence above "
        f"{shown(one.bound, up=True)} changes"
    )
    if one.leak is None:
        return f"{proved}; no leak is known"
    worst = max((each for each in one.labels if each.leak is not None), key=lambda e: e.leak or 0.0)
    own = label_phrase(worst.label, worst.name)
    other = label_phrase(worst.member_label or 0, worst.member_label_name)
    change = "is tied" if worst.member_label == worst.label else f"becomes {other}"
    return f"{proved}; a leak is known: {own} with confidence {shown(worst.leak)} {change}"


def _with_points(words: str, given: RowPointsRecord) -> str:
    return (
        f"{words}; of the {count_noun(given.points, 'answer')} to {given.data} it changes "
        f"{len(given.changed):,}"
    )
