"""What is proved of each row that a member lacks, for the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from leaveout.bab import Instance, Witness
from leaveout.bab.native.files.digests import family_digest, network_digest
from leaveout.deadline import Deadline
from leaveout.verifier.by_row import ByRowRecord
from leaveout.verifier.points.names import label_name, row_id
from leaveout.verifier.points.row_bounds import Kept, label_record, rows_of
from leaveout.verifier.points.sentences import box_record
from leaveout.verifier.time_sharing import Clock

_MOST = 10.0
"""Seconds that bounding single members may take, where a run has no deadline."""


def tighten(instance: Instance, kept: Mapping[int, Kept[Witness]], clock: Clock) -> None:
    """Bound single members by propagation, highest bounds first, within the time left.

    A search bounds all members together, so a single member keeps the worst one's bound.
    """
    if clock.interrupted or not kept:
        return
    deadline = Deadline.after(
        _MOST if clock.seconds_left is None else min(_MOST, clock.seconds_left)
    )
    highest = np.max([each.upper for each in kept.values()], axis=0)
    try:
        for member in np.argsort(-highest, kind="stable").tolist():
            if deadline.over or not highest[member] > 0:
                return
            alone = instance.alone(member)
            for label, each in kept.items():
                each.upper[member] = min(each.upper[member], max(0.0, alone.most(label)))
    except KeyboardInterrupt:
        clock.interrupted = True


def network_rows(
    instance: Instance,
    files: tuple[Path, Path],
    statements: tuple[str, ...],
    kept: Mapping[int, Kept[Witness]],
) -> ByRowRecord:
    """Return what is known of a family's rows."""
    family, facts = instance.family, instance.family.manifest.data
    trained = 0 if facts is None else facts.rows
    fields = rows_of(family.removed, trained, lambda row: row_id(facts, row))
    return ByRowRecord(
        model="network",
        network=str(files[0]),
        family=str(files[1]),
        network_sha256=network_digest(instance.network),
        family_sha256=family_digest(family),
        statements=statements,
        box=box_record(instance.box),
        labels=tuple(
            label_record(label, label_name(facts, label), each, family.removed, fields["rows"])
            for label, each in kept.items()
        ),
        label_names=facts.labels if facts is not None else (),
        **fields,
    )
