"""Ballots files: an ``.npz`` or a CSV, distinguished by content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import BallotError
from leaveout.files import why_unread
from leaveout.models.archive import (
    MANIFEST,
    expect_arrays,
    holds_archive,
    manifest_array,
    read_archive,
    read_manifest,
    write_archive,
)
from leaveout.models.votes.ballots import MOST_LABELS, NEVER, Ballots
from leaveout.models.votes.csv_file import read_csv
from leaveout.models.votes.origin import Origin

_VERSION = 1
_NEEDED = ("ballots", "truth", "labels")
_MORE = ("scores", "thresholds", MANIFEST)
_INT32 = np.iinfo(np.int32)
_EXPECTED = {
    "labels": f"expected how many labels there are: 2 to {MOST_LABELS:,}",
    "thresholds": f"no threshold; expected the edits it takes, at most {_INT32.max:,}, or {NEVER} "
    "where none suffice",
}
"""Of numbers far out of range, where they are no labels themselves."""


class _Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the array ``manifest``, as JSON."""

    version: int
    origin: Origin


def read_ballots(path: Path | str) -> Ballots:
    """Read a ballots file.

    Parameters
    ----------
    path : Path or str
        An ``.npz`` with ``ballots`` (points, parts), ``truth`` (points,) and ``labels`` (how many
        there are), and optionally ``scores``, ``thresholds`` (both points, parts, labels) and
        ``manifest`` (JSON in bytes); or a CSV with the header ``truth,part_0,part_1,...``, before
        which a line ``# labels = 10`` may say how many labels there are.

    Raises
    ------
    BallotError
        With the place and the cure, if the file cannot be read or its numbers cannot be ballots.
    """
    source = Path(path)
    try:
        return _read_npz(source) if holds_archive(source, BallotError) else read_csv(source)
    except MemoryError:
        raise BallotError(f"{source}: the ballots do not fit into memory") from None
    except OSError as error:
        raise BallotError(f"{source}: {why_unread(error)}") from None


def write_ballots(ballots: Ballots, path: Path | str) -> None:
    """Write ballots as an ``.npz`` atomically; equal ballots give equal bytes.

    Raises
    ------
    BallotError
        If the file cannot be written.
    """
    target = Path(path)
    kind = np.min_scalar_type(-ballots.labels)
    arrays: dict[str, Any] = {
        "ballots": ballots.votes.astype(kind),
        "truth": ballots.truth.astype(kind),
        "labels": np.array(ballots.labels, dtype=np.int64),
        MANIFEST: manifest_array(_Manifest(_VERSION, ballots.origin)),
    }
    if ballots.scores is not None:
        arrays["scores"] = ballots.scores
    if ballots.thresholds is not None:
        arrays["thresholds"] = ballots.thresholds
    write_archive(target, arrays, BallotError)


def _read_npz(source: Path) -> Ballots:
    arrays = read_archive(source, BallotError)
    expect_arrays(source, arrays, BallotError, _NEEDED, _MORE)
    scores = arrays.get("scores")
    if scores is not None and scores.dtype.kind != "f":
        raise BallotError(f"{source}: 'scores' holds {scores.dtype}, expected floating-point")
    if scores is not None and scores.dtype.itemsize not in {4, 8}:
        scores = scores.astype(np.float32 if scores.dtype.itemsize < 4 else np.float64)
    labels = _whole(source, "labels", arrays["labels"])
    if labels.size != 1:
        raise BallotError(
            f"{source}: 'labels' has shape {labels.shape}, expected one number: how many there are"
        )
    thresholds = arrays.get("thresholds")
    return Ballots(
        votes=_whole(source, "ballots", arrays["ballots"]),
        truth=_whole(source, "truth", arrays["truth"]),
        labels=int(labels.reshape(())),
        scores=scores,
        thresholds=None if thresholds is None else _whole(source, "thresholds", thresholds),
        origin=_origin(source, arrays.get(MANIFEST)),
        source=str(source),
    )


def _whole(source: Path, name: str, array: NDArray[Any]) -> NDArray[np.int32]:
    if array.dtype.kind not in "iu":
        raise BallotError(
            f"{source}: {name!r} holds {array.dtype}, expected integers; save it as "
            f"{name}.astype(int)"
        )
    if array.size:
        for extreme in (array.argmin(), array.argmax()):
            value = int(array.reshape(-1)[extreme])
            if not _INT32.min <= value <= _INT32.max:
                where = tuple(int(i) for i in np.unravel_index(int(extreme), array.shape))
                place = f"{name!r} at {where}" if where else repr(name)
                said = _EXPECTED.get(name, "far beyond any label; number the labels from 0")
                raise BallotError(f"{source}: {place} is {value}, {said}")
    return np.ascontiguousarray(array, dtype=np.int32).reshape(array.shape)


def _origin(source: Path, raw: NDArray[Any] | None) -> Origin:
    if raw is None:
        return Origin()
    return read_manifest(source, raw, _Manifest, BallotError, _VERSION).origin
