"""Audit files: ``.npz`` archives of attackers' views or of counted events."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import AuditError
from leaveout.models.archive import (
    MANIFEST,
    expect_arrays,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)
from leaveout.verifier.audits.membership.events import Events
from leaveout.verifier.audits.membership.views import Views

Audit: TypeAlias = Views | Events
"""What `read_audit` returns."""

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
        optionally ``original``, as `Views` has them; or with ``event``, ``unlearned_hits``,
        ``unlearned_trials``, ``retrained_hits`` and ``retrained_trials``, as `Events` has them.

    Raises
    ------
    AuditError
        With the place and the cure, if the file cannot be read or its numbers cannot be an audit.
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
    """Make an audit from two files of posteriors, of any unlearning method.

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
                f"{paths[1]}: {name!r} differs from that of {paths[0]}; give the same rows of the "
                "same trials in the same order"
            )
    for path, arrays in zip(paths, (first, second), strict=True):
        if len(arrays["posteriors"]) != len(rows["trial"]):
            raise AuditError(
                f"{path}: 'posteriors' has {len(arrays['posteriors'])} rows, 'trial' has "
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
        How it was made, in JSON types; kept for readers, and not read back.

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
            f"{source}: 'forgotten' is {flags.dtype}, expected true where a row was forgotten and "
            "false where no model saw it"
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
            f"{source}: 'event' is {array.dtype} of shape {array.shape}, expected a list of texts"
        )
    return tuple(map(str, array))
