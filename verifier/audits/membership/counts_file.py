"""Event counts from other programs: a CSV or JSON file, one row per event."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from leaveout.errors import AuditError, TrainingError
from leaveout.files import TABLE, read_whole, why_unread
from leaveout.models.table import read_table
from leaveout.verifier.audits.membership.events import Events

_COUNTS = ("unlearned_hits", "unlearned_trials", "retrained_hits", "retrained_trials")
_KEYS = ("event", *_COUNTS)
_MOST = 2**53


def read_counts(path: Path) -> Events:
    """Read how often events happened in both arms of trials made elsewhere.

    Parameters
    ----------
    path : Path
        A CSV with the columns ``event, unlearned_hits, unlearned_trials, retrained_hits,
        retrained_trials``, in any order; or, named ``.json``, a list of objects with these keys.

    Raises
    ------
    AuditError
        With the place and the cure, if it is no such file, or its counts cannot be counts.
    """
    rows = _json(path) if path.suffix.lower() == ".json" else _csv(path)
    if not rows:
        raise AuditError(f"{path}: there is no event; give a row for each")
    columns = {
        name: np.array([_count(place, row[name], name) for place, row in rows], dtype=np.int64)
        for name in _COUNTS
    }
    return Events(tuple(str(row["event"]) for _, row in rows), **columns, source=str(path))


def _csv(path: Path) -> list[tuple[str, Mapping[str, object]]]:
    try:
        table = read_table(path)
    except TrainingError as error:
        raise AuditError(str(error)) from None
    _check_keys(f"{path}, line 1", table.header)
    return [
        (f"{path}, line {line}", record)
        for line, record in zip(table.lines, table.records(), strict=True)
    ]


def _json(path: Path) -> list[tuple[str, Mapping[str, object]]]:
    try:
        found = json.loads(read_whole(path, TABLE), object_pairs_hook=_distinct)
    except OSError as error:
        raise AuditError(f"{path}: {why_unread(error)}") from None
    except (ValueError, RecursionError) as error:
        raise AuditError(f"{path}: is no JSON: {error}") from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise AuditError(f"{path}: expected a list of objects, each with {', '.join(_KEYS)}")
    rows = [(f"{path}, event {place}", each) for place, each in enumerate(found)]
    for place, row in rows:
        _check_keys(place, list(row))
        if not isinstance(row["event"], str):
            raise AuditError(f"{place}: 'event' is {row['event']!r}, expected a text")
    return rows


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _check_keys(place: str, keys: Sequence[str]) -> None:
    for name in _KEYS:
        if name not in keys:
            raise AuditError(f"{place}: there is no {name!r}; expected {', '.join(_KEYS)}")
    for name in keys:
        if name not in _KEYS:
            raise AuditError(f"{place}: {name!r} is unknown; expected only {', '.join(_KEYS)}")


def _count(place: str, value: object, name: str) -> int:
    text = value if isinstance(value, str) else None
    if text is not None and text.isascii() and text.isdigit() and len(text) < 17:
        value = int(text)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST:
        raise AuditError(
            f"{place}: {name!r} is {value!r}, expected a whole number from 0, in digits alone, "
            f"below {_MOST:,}"
        )
    return value
