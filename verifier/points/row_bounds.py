"""Proved bounds of each member, collected over all statements of a question."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.bab import EngineResult, Witness
from leaveout.verifier.records import LabelByRowRecord, RowLeakRecord

NO_LEAK = -1.0
"""The bound of a row without which no answer changes, whatever its confidence."""

_INPUTS = 2**19  # bytes of inputs of leaks that are kept, a label


@dataclass(eq=False)
class Kept:
    """What is known of the members' leaks of one label."""

    upper: Floats  # shape (members,): no leak of this member has a higher confidence
    leaks: dict[int, Witness] = field(default_factory=dict)  # the worst leak found, by member

    @property
    def has_contradiction(self) -> bool:
        """Whether a replayed leak exceeds its member's bound."""
        return any(each.confidence > self.upper[at] for at, each in self.leaks.items())

    def offer(self, leaks: Iterable[Witness]) -> None:
        """Store leaks that are worse than those known of their members."""
        for leak in leaks:
            before = self.leaks.get(leak.member)
            if before is None or leak.confidence > before.confidence:
                self.leaks[leak.member] = leak


class RowBounds:
    """What is known of each question's members, per label."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[int, Kept]] = {}

    def take(self, question: Hashable, found: Sequence[EngineResult]) -> None:
        """Store what searches found."""
        for each in found:
            kept = self._of(question, each.label, len(each.member_upper))
            # Below 0 there is no leak at all: of a forest an answer at a tie may be one.
            upper = np.where(each.member_upper < 0, NO_LEAK, each.member_upper)
            kept.upper = np.minimum(kept.upper, upper)
            kept.offer(each.leaks if each.witness is None else (*each.leaks, each.witness))

    def cap(
        self, question: Hashable, label: int, members: NDArray[np.int64], upper: float, count: int
    ) -> None:
        """Store a bound of some of ``count`` members."""
        kept = self._of(question, label, count)
        kept.upper[members] = np.minimum(kept.upper[members], max(upper, 0.0))

    def of(self, question: Hashable) -> dict[int, Kept]:
        """Return what is known of a question, per label in order."""
        return dict(sorted(self._known.get(question, {}).items()))

    def forget(self) -> None:
        """Discard all proved bounds, but keep the replayed leaks."""
        for labels in self._known.values():
            for kept in labels.values():
                kept.upper[:] = np.inf

    def _of(self, question: Hashable, label: int, count: int) -> Kept:
        labels = self._known.setdefault(question, {})
        if label not in labels:
            labels[label] = Kept(np.full(count, np.inf))
        return labels[label]


def with_member_bounds(result: EngineResult, kept: Kept) -> EngineResult:
    """Return a result with all known bounds of its members, at least 0."""
    known = np.minimum(result.member_upper, np.maximum(kept.upper, 0.0))
    return replace(result, member_upper=known)


def rows_of(
    removed: NDArray[np.int64], trained: int, name: Callable[[int], str]
) -> dict[str, tuple[Any, ...]]:
    """Return the fields of a `ByRowRecord` that identify its rows."""
    rows, counts = np.unique(removed, return_counts=True)
    every = np.union1d(rows, np.arange(trained))
    members = np.zeros(len(every), np.int64)
    members[np.searchsorted(every, rows)] = counts
    ids = tuple(name(row) for row in every.tolist())
    return {
        "rows": tuple(every.tolist()),
        "ids": ids if any(ids) else (),
        "members": tuple(members.tolist()),
    }


def label_record(
    label: int, name: str, kept: Kept, removed: NDArray[np.int64], rows: Sequence[int]
) -> LabelByRowRecord:
    """Return what is known of one label by row, as stored in the report."""
    place = np.searchsorted(np.asarray(rows), removed)
    upper = np.full(len(rows), -np.inf)
    # Of several members without the same row any may be the one that leaks.
    np.maximum.at(upper, place, kept.upper)
    levels, level = in_levels(upper)
    return LabelByRowRecord(
        label=label, name=name, levels=levels, level=level, leaks=_leaks(kept)
    )  # fmt: skip


def in_levels(upper: Floats) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return the distinct bounds, ascending, and the index of each row's; -1 if none."""
    known = np.isfinite(upper)
    levels, at = np.unique(upper[known], return_inverse=True)
    level = np.full(len(upper), -1)
    level[known] = at
    return tuple(levels.tolist()), tuple(level.tolist())


def _leaks(kept: Kept) -> tuple[RowLeakRecord, ...]:
    order = sorted(kept.leaks.values(), key=lambda each: (-each.confidence, each.member))
    worst: dict[int, Witness] = {}
    for leak in order:
        worst.setdefault(leak.removed, leak)
    records, room = [], _INPUTS
    for row, leak in worst.items():
        x = np.ascontiguousarray(leak.x, leak.x.dtype.newbyteorder("<")).tobytes()
        room -= len(x)
        records.append(
            RowLeakRecord(
                row=row,
                member=leak.member,
                confidence=leak.confidence,
                member_label=int(np.argmax(leak.member_scores)),
                x=x if room >= 0 else b"",
            )
        )
    return tuple(records)
