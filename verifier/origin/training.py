"""What families and forests state of their training rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import LeaveoutError
from leaveout.models.archive import MANIFEST, read_archive
from leaveout.models.family import Manifest
from leaveout.verifier.origin.records import TrainingRecord

_ROWS = ("X", "y", "classes")


def of_family(file: Path, path: str) -> TrainingRecord | None:
    """Return what a family file states of its training rows; None if nothing."""
    raw = _arrays(file, (MANIFEST,)).get(MANIFEST)
    if raw is None:
        return None
    content = raw.tobytes()
    try:
        facts = msgspec.json.decode(content, type=Manifest).data
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if facts is None:
        return None
    return TrainingRecord(
        path=path,
        sha256=facts.sha256,
        manifest_sha256=hashlib.sha256(content).hexdigest(),
        rows=facts.rows,
        features=len(facts.minimum),
        labels=facts.labels,
    )


def of_forest(file: Path, path: str) -> TrainingRecord | None:
    """Return what a forest states of its rows; None if the file is not a forest."""
    held = _arrays(file, _ROWS)
    if set(held) != set(_ROWS) or held["X"].ndim != 2:
        return None
    digest = hashlib.sha256()
    for name in ("X", "y"):
        array = held[name]
        digest.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    rows, features = held["X"].shape
    return TrainingRecord(
        path=path,
        sha256=digest.hexdigest(),
        manifest_sha256="",
        rows=rows,
        features=features,
        labels=tuple(map(str, held["classes"].tolist())),
    )


def _arrays(file: Path, names: tuple[str, ...]) -> Mapping[str, NDArray[Any]]:
    try:
        return read_archive(file, LeaveoutError, only=names)
    except LeaveoutError:
        # Whoever loads it says what is wrong with it.
        return {}
