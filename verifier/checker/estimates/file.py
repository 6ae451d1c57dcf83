"""Files of trials or counted events, as read by the checker."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from leaveout.models.archive import MANIFEST, read_archive
from leaveout.verifier.checker.errors import CertificateError, RejectedError

Floats: TypeAlias = NDArray[np.float64]
_ROWS = ("trial", "forgotten", "label")
_COUNTS = ("unlearned_hits", "unlearned_trials", "retrained_hits", "retrained_trials")
_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts of events in independent trials."""

    unlearned: tuple[tuple[int, int], ...]  # events and trials of each arm, one entry per event
    retrained: tuple[tuple[int, int], ...]  # events and trials of each arm, one entry per event


@dataclass(frozen=True, eq=False)
class Seen:
    """The attacker's view, row by row."""

    trial: NDArray[np.int64]  # shape (rows,)
    forgotten: NDArray[np.bool_]  # shape (rows,)
    label: NDArray[np.int64]  # shape (rows,)
    unlearned: Floats  # shape (rows, labels): posteriors of the unlearned arm
    retrained: Floats  # shape (rows, labels): posteriors of the retrained arm
    original: Floats | None  # shape (rows, labels)

    @cached_property
    def place(self) -> NDArray[np.int64]:
        """Each row's trial as an index into the ascending trial numbers."""
        return np.unique(self.trial, return_inverse=True)[1].ravel().astype(np.int64)

    @property
    def trials(self) -> int:
        """The number of trials."""
        return int(self.place.max()) + 1

    @property
    def has_unseen_rows(self) -> bool:
        """Whether there are rows that no model saw."""
        return not bool(self.forgotten.all())

    @cached_property
    def estimates(self) -> NDArray[np.bool_]:
        """Whether each trial is counted; the first third, at least two, only chooses attacks."""
        return np.arange(self.trials) >= max(2, self.trials // 3)


Audit: TypeAlias = Seen | Counts


def read_trials(path: Path) -> Audit:
    """Read an audit."""
    arrays = read_archive(path, CertificateError)
    arrays.pop(MANIFEST, None)
    if "event" in arrays:
        _expect(path, arrays, ("event", *_COUNTS), ())
        return _counts(path, arrays)
    _expect(path, arrays, (*_ROWS, "unlearned", "retrained"), ("original",))
    return _read_seen(path, arrays)


def _expect(
    path: Path, arrays: dict[str, NDArray[Any]], needed: tuple[str, ...], more: tuple[str, ...]
) -> None:
    if not set(needed) <= arrays.keys() <= {*needed, *more}:
        raise RejectedError(
            f"{path}: contains {', '.join(sorted(arrays))}; expected {', '.join(needed)}"
        )


def _counts(path: Path, arrays: dict[str, NDArray[Any]]) -> Counts:
    names = arrays["event"]
    if names.ndim != 1 or names.dtype.kind != "U" or not len(names):
        raise RejectedError(f"{path}: 'event' is not a list of strings")
    if len(set(names.tolist())) != len(names):
        raise RejectedError(f"{path}: two events have the same name")
    columns = {name: _whole(path, arrays, name, len(names)) for name in _COUNTS}
    found: list[tuple[tuple[int, int], ...]] = []
    for arm in ("unlearned", "retrained"):
        hits, trials = columns[f"{arm}_hits"].tolist(), columns[f"{arm}_trials"].tolist()
        pairs = tuple(zip(hits, trials, strict=True))
        if any(not 0 <= hit <= count or count < 1 for hit, count in pairs):
            raise RejectedError(
                f"{path}: the counts of the {arm} arm are not between 0 and the number of trials"
            )
        found.append(pairs)
    return Counts(found[0], found[1])


def _read_seen(path: Path, arrays: dict[str, NDArray[Any]]) -> Seen:
    """Return what an attacker sees, from the arrays of a file."""
    trial = _whole(path, arrays, "trial")
    rows = len(trial)
    if not rows:
        raise RejectedError(f"{path}: no rows")
    flags = arrays["forgotten"]
    if flags.shape != (rows,) or flags.dtype.kind not in "biu" or not np.isin(flags, (0, 1)).all():
        raise RejectedError(f"{path}: 'forgotten' does not contain one truth value per row")
    label = _whole(path, arrays, "label", rows)
    arms = {
        name: _posteriors(path, name, arrays[name], rows)
        for name in ("unlearned", "retrained", "original")
        if name in arrays
    }
    labels = {arm.shape[1] for arm in arms.values()}
    if len(labels) > 1 or (label < 0).any() or (label >= min(labels)).any():
        raise RejectedError(f"{path}: the labels do not match the columns of the posteriors")
    found = Seen(
        trial,
        flags.astype(np.bool_),
        label,
        arms["unlearned"],
        arms["retrained"],
        arms.get("original"),
    )
    gone, kept = (
        np.bincount(found.place[kind], minlength=found.trials)
        for kind in (found.forgotten, ~found.forgotten)
    )
    if not gone.all() or (kept.any() and not kept.all()):
        raise RejectedError(
            f"{path}: a trial has no forgotten rows, or has no unseen rows although others do"
        )
    return found


def _whole(
    path: Path, arrays: dict[str, NDArray[Any]], name: str, rows: int | None = None
) -> NDArray[np.int64]:
    array = arrays[name]
    if array.ndim != 1 or array.dtype.kind not in "iu" or rows not in (None, len(array)):
        raise RejectedError(f"{path}: {name!r} is not a list of whole numbers of the right length")
    # Unsigned numbers beyond int64 would wrap around.
    if len(array) and int(array.max()) >= 2**63:
        raise RejectedError(f"{path}: {name!r} contains a number that is too large")
    return array.astype(np.int64)


def _posteriors(path: Path, name: str, array: NDArray[Any], rows: int) -> Floats:
    if array.dtype.kind != "f" or array.ndim != 2 or len(array) != rows or array.shape[1] < 2:
        raise RejectedError(f"{path}: {name!r} does not contain one row of probabilities per row")
    found = array.astype(np.float64)
    if (
        not (np.isfinite(found).all() and (found >= 0).all())
        or (np.abs(found.sum(axis=1) - 1) > _TOLERANCE).any()
    ):
        raise RejectedError(
            f"{path}: {name!r} contains a row that is not a probability distribution"
        )
    return found
