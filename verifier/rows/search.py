"""Search of rows one at a time, for the bound and worst leak of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import structs

from leaveout.arrays import Floats
from leaveout.bab import Instance, make_instance, search_native
from leaveout.deadline import Deadline
from leaveout.verifier.options import VerifyOptions
from leaveout.verifier.points.answers import as_box
from leaveout.verifier.points.row_bounds import in_levels
from leaveout.verifier.points.sentences import NOUNS
from leaveout.verifier.records import ByRowRecord, RowLeakRecord
from leaveout.verifier.row_records import RowsError
from leaveout.verifier.rows.known import refuse_unfit, with_leaks
from leaveout.verifier.rows.points import network_and_family

OnRow = Callable[[int, int], None]
"""Called with how many rows were searched, and how many have members."""

_LEAST = 0.1  # seconds below which no search is started


def search_rows(
    record: ByRowRecord,
    seconds: float,
    *,
    network: Path | None = None,
    family: Path | None = None,
    folders: Sequence[Path] = (Path(),),
    progress: OnRow | None = None,
) -> tuple[ByRowRecord, int]:
    """Search the leaks of each row separately, highest bounds first."""
    deadline = Deadline.after(seconds)
    refuse_unfit(record)
    if record.model != "network":
        raise RowsError(
            f"--time: a {NOUNS[record.model]}'s rows are already searched individually; for "
            "tighter bounds raise --time of 'leaveout verify'"
        )
    whole, members = network_and_family(record, network, family, folders)
    instance = make_instance(whole, members, as_box(record.box))
    upper = {each.label: _bounds(each.levels, each.level) for each in record.labels}
    leaks: list[tuple[int, RowLeakRecord]] = []
    left_out = [at for at, count in enumerate(record.members) if count]
    highest = np.max(list(upper.values()), axis=0)
    done = 0
    try:
        for at in sorted(left_out, key=lambda at: (-highest[at], at)):
            if deadline.seconds_left < _LEAST or not highest[at] > 0:
                break
            own = np.flatnonzero(members.removed == record.rows[at]).tolist()
            for label, bounds in upper.items():
                bounds[at], found = _search(instance, own, label, bounds[at], deadline)
                leaks += [(label, leak) for leak in found]
            done += deadline.seconds_left > 0
            if progress is not None:
                progress(done, len(left_out))
    except KeyboardInterrupt:
        pass
    labels = []
    for each in record.labels:
        levels, level = in_levels(upper[each.label])
        labels.append(structs.replace(each, levels=levels, level=level))
    found_record = with_leaks(structs.replace(record, labels=tuple(labels)), leaks)
    refuse_unfit(found_record)
    return found_record, done


def _bounds(levels: tuple[float, ...], level: tuple[int, ...]) -> Floats:
    known = np.append(np.asarray(levels, np.float64), -np.inf)
    return np.asarray(known[np.asarray(level)])


def _search(
    instance: Instance, members: list[int], label: int, known: float, deadline: Deadline
) -> tuple[float, list[RowLeakRecord]]:
    """Return a bound of the members lacking a row, at most the known one, and leaks."""
    upper = 0.0
    leaks: list[RowLeakRecord] = []
    for member in members:
        alone = instance.alone(member)
        options = replace(VerifyOptions().native(max(deadline.seconds_left, 0.0)), workers=1)
        found = search_native(alone, label, options)
        if found.contradicted:
            return known, leaks
        upper = max(upper, found.upper)
        if found.witness is not None:
            witness = found.witness
            leaks.append(
                RowLeakRecord(
                    row=witness.removed,
                    member=member,
                    confidence=witness.confidence,
                    member_label=int(np.argmax(witness.member_scores)),
                    x=witness.x.astype("<f4").tobytes(),
                )
            )
        if found.interrupted:
            raise KeyboardInterrupt
    return min(known, upper), leaks
