"""Audit files: ``.npz`` archives of attackers' views or of counted events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import AuditError, TrainingError
from leaveout.files import TABLE, read_whole, why_unread
from leaveout.kernel.audits import Counts
from leaveout.models.archive import (
    MANIFEST,
    expect_arrays,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)
from leaveout.models.reading import read_table
from leaveout.verifier.audits.membership.result import Counted
from leaveout.verifier.audits.membership.views import Views


@dataclass(frozen=True, eq=False)
class Events:
    """Counts of each event among independent trials, in either arm.

    Events are fixed before the trials, such as "the attack says member". Trials are independent
    only if each has a separate model.

    Attributes
    ----------
    names : tuple of str
    unlearned_hits, unlearned_trials : ndarray of int64, shape (events,)
    retrained_hits, retrained_trials : ndarray of int64, shape (events,)
    source : str
        File name in messages.

    Raises
    ------
    AuditError
        If the counts are not valid.
    """

    names: tuple[str, ...]
    unlearned_hits: NDArray[np.int64]
    unlearned_trials: NDArray[np.int64]
    retrained_hits: NDArray[np.int64]
    retrained_trials: NDArray[np.int64]
    source: str = "audit"

    def __post_init__(self) -> None:
        if not self.names:
            raise AuditError(f"{self.source}: no events; name at least one in 'event'")
        if len(set(self.names)) != len(self.names):
            raise AuditError(f"{self.source}: two events have the same name; rename one")
        for arm in ("unlearned", "retrained"):
            hits, trials = getattr(self, f"{arm}_hits"), getattr(self, f"{arm}_trials")
            for name, array in ((f"{arm}_hits", hits), (f"{arm}_trials", trials)):
                if array.shape != (len(self.names),):
                    raise AuditError(
                        f"{self.source}: {name!r} has shape {array.shape}; expected "
                        f"{(len(self.names),)}, one number per event"
                    )
            wrong = (trials < 1) | (hits < 0) | (hits > trials)
            if wrong.any():
                at = int(np.argmax(wrong))
                raise AuditError(
                    f"{self.source}: event {self.names[at]!r} happened {hits[at]} times in "
                    f"{trials[at]} trials of the {arm} arm; expected 0 up to the number of "
                    "trials, and at least 1 trial"
                )

    @property
    def counts(self) -> Counts:
        """The same, as the kernel knows it."""
        arms = [
            list(zip(hits.tolist(), trials.tolist(), strict=True))
            for hits, trials in (
                (self.unlearned_hits, self.unlearned_trials),
                (self.retrained_hits, self.retrained_trials),
            )
        ]
        return Counts(*arms)

    @property
    def event_counts(self) -> tuple[Counted, ...]:
        """How often each event occurred."""
        columns = (
            self.unlearned_hits,
            self.retrained_hits,
            self.unlearned_trials,
            self.retrained_trials,
        )
        rows = zip(self.names, *(column.tolist() for column in columns), strict=True)
        return tuple(Counted(*row) for row in rows)


Audit: TypeAlias = Views | Events
"""The result of `read_audit`."""

_VERSION = 1
_ROWS = ("trial", "forgotten", "label")
_VIEWS = (*_ROWS, "unlearned", "retrained")
_COUNTS = ("unlearned_hits", "unlearned_trials", "retrained_hits", "retrained_trials")
_EVENTS = ("event", *_COUNTS)
_ARM = (*_ROWS, "posteriors")


class _Manifest(msgspec.Struct):
    """The JSON content of the array ``manifest``: how the audit was made."""

    version: int
    made: dict[str, object] = {}


def read_audit(path: Path | str) -> Audit:
    """Read an audit.

    Parameters
    ----------
    path : Path or str
        An ``.npz`` with ``trial``, ``forgotten``, ``label``, ``unlearned``, ``retrained`` and
        optionally ``original``, as in `Views`; or with ``event``, ``unlearned_hits``,
        ``unlearned_trials``, ``retrained_hits`` and ``retrained_trials``, as in `Events`.

    Raises
    ------
    AuditError
        If the file cannot be read or its numbers are not an audit's; states the place and the
        remedy.
    """
    source = Path(path)
    arrays = read_archive(source, AuditError)
    raw = arrays.pop(MANIFEST, None)
    if raw is not None:
        read_manifest(source, raw, _Manifest, AuditError, _VERSION)
    where = str(source)
    if "event" in arrays:
        expect_arrays(source, arrays, AuditError, _EVENTS, ())
        counts = {name: _whole(source, name, arrays[name]) for name in _COUNTS}
        return Events(names=_names(source, arrays["event"]), **counts, source=where)
    expect_arrays(source, arrays, AuditError, _VIEWS, ("original",))
    original = arrays.get("original")
    return Views(
        **_rows(source, arrays),
        unlearned=_numbers(source, "unlearned", arrays["unlearned"]),
        retrained=_numbers(source, "retrained", arrays["retrained"]),
        original=None if original is None else _numbers(source, "original", original),
        source=where,
    )


def join_arms(unlearned: Path | str, retrained: Path | str) -> Views:
    """Make an audit from two files of posteriors, from any unlearning method.

    Parameters
    ----------
    unlearned, retrained : Path or str
        Each an ``.npz`` with ``trial``, ``forgotten``, ``label`` and ``posteriors``, the same
        rows in the same order; ``original`` may be in either.

    Raises
    ------
    AuditError
        If a file cannot be used, or the rows differ.
    """
    paths = (Path(unlearned), Path(retrained))
    first, second = (read_archive(path, AuditError) for path in paths)
    for path, arrays in zip(paths, (first, second), strict=True):
        expect_arrays(path, arrays, AuditError, _ARM, ("original", MANIFEST))
    rows = _rows(paths[0], first)
    for name, value in _rows(paths[1], second).items():
        if not np.array_equal(value, rows[name]):
            raise AuditError(
                f"{paths[1]}: {name!r} differs from that of {paths[0]}; pass the same rows of "
                "the same trials in the same order"
            )
    for path, arrays in zip(paths, (first, second), strict=True):
        if len(arrays["posteriors"]) != len(rows["trial"]):
            raise AuditError(
                f"{path}: 'posteriors' has {len(arrays['posteriors'])} rows, but 'trial' has "
                f"{len(rows['trial'])}"
            )
    original = first.get("original", second.get("original"))
    return Views(
        **rows,
        unlearned=_numbers(paths[0], "posteriors", first["posteriors"]),
        retrained=_numbers(paths[1], "posteriors", second["posteriors"]),
        original=None if original is None else _numbers(paths[0], "original", original),
        source=f"{paths[0]} and {paths[1]}",
    )


def write_audit(audit: Audit, path: Path | str, made: dict[str, object] | None = None) -> None:
    """Write an audit atomically and deterministically.

    Parameters
    ----------
    audit : Views or Events
    path : Path or str
    made : dict or None
        How it was made, in JSON types; for human readers, not read back.

    Raises
    ------
    AuditError
        If the file cannot be written.
    """
    target = Path(path)
    if isinstance(audit, Events):
        arrays: dict[str, Any] = {"event": np.array(audit.names, dtype=np.str_)}
        arrays |= {name: getattr(audit, name) for name in _COUNTS}
    else:
        arrays = {name: getattr(audit, name) for name in _ROWS}
        arrays |= {name: array.astype(np.float32) for name, array in audit.arms.items()}
    arrays[MANIFEST] = manifest_array(_Manifest(_VERSION, made or {}))
    write_archive(target, arrays, AuditError, compressed=True)


def _rows(source: Path, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    flags = arrays["forgotten"]
    if flags.dtype.kind != "b" and not (flags.dtype.kind in "iu" and np.isin(flags, (0, 1)).all()):
        raise AuditError(
            f"{source}: 'forgotten' is {flags.dtype}; expected true where a row was forgotten "
            "and false where no model saw it"
        )
    return {
        "trial": _whole(source, "trial", arrays["trial"]),
        "forgotten": flags.astype(np.bool_),
        "label": _whole(source, "label", arrays["label"]),
    }


def _whole(source: Path, name: str, array: NDArray[Any]) -> NDArray[np.int64]:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise AuditError(
            f"{source}: {name!r} is {array.dtype} of shape {array.shape}, expected a list of whole "
            "numbers"
        )
    return array.astype(np.int64)


def _numbers(source: Path, name: str, array: NDArray[Any]) -> NDArray[np.float64]:
    if array.dtype.kind != "f":
        raise AuditError(f"{source}: {name!r} is {array.dtype}, expected probabilities")
    return array.astype(np.float64)


def _names(source: Path, array: NDArray[Any]) -> tuple[str, ...]:
    if array.ndim != 1 or array.dtype.kind != "U":
        raise AuditError(
            f"{source}: 'event' is {array.dtype} of shape {array.shape}, expected a list of strings"
        )
    return tuple(map(str, array))


_MOST = 2**53


def read_counts(path: Path) -> Events:
    """Read how often events occurred in both arms of trials run elsewhere.

    Parameters
    ----------
    path : Path
        A CSV with the columns ``event, unlearned_hits, unlearned_trials, retrained_hits,
        retrained_trials``, in any order; or, named ``.json``, a list of objects with these keys.

    Raises
    ------
    AuditError
        If it is not such a file, or its counts are invalid; states the place and the remedy.
    """
    rows = _json(path) if path.suffix.lower() == ".json" else _csv(path)
    if not rows:
        raise AuditError(f"{path}: no events; add one row per event")
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
        raise AuditError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise AuditError(f"{path}: expected a list of objects, each with {', '.join(_EVENTS)}")
    rows = [(f"{path}, event {place}", each) for place, each in enumerate(found)]
    for place, row in rows:
        _check_keys(place, list(row))
        if not isinstance(row["event"], str):
            raise AuditError(f"{place}: 'event' is {row['event']!r}, expected a string")
    return rows


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a duplicate key")
    return found


def _check_keys(place: str, keys: Sequence[str]) -> None:
    for name in _EVENTS:
        if name not in keys:
            raise AuditError(f"{place}: no {name!r}; expected {', '.join(_EVENTS)}")
    for name in keys:
        if name not in _EVENTS:
            raise AuditError(f"{place}: unknown key {name!r}; expected only {', '.join(_EVENTS)}")


def _count(place: str, value: object, name: str) -> int:
    text = value if isinstance(value, str) else None
    if text is not None and text.isascii() and text.isdigit() and len(text) < 17:
        value = int(text)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST:
        raise AuditError(
            f"{place}: {name!r} is {value!r}; expected a whole number from 0, digits only, below "
            f"{_MOST:,}"
        )
    return value
