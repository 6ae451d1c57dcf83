"""What is proved of each row of a forest, for the report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leaveout.bab.forests import ForestWitness
from leaveout.encoders import Box
from leaveout.models.forest.digests import forest_digest
from leaveout.models.forest.plain import Ensemble
from leaveout.verifier.by_row import ByRowRecord
from leaveout.verifier.points.forest_words import ForestNames
from leaveout.verifier.points.row_bounds import Kept, label_record, rows_of
from leaveout.verifier.points.sentences import box_record


def forest_rows(
    path: Path,
    ensemble: Ensemble,
    box: Box,
    names: ForestNames,
    statements: tuple[str, ...],
    kept: Mapping[int, Kept[ForestWitness]],
) -> ByRowRecord:
    """Return what is known of a forest's rows, each of which has a member."""
    digest = forest_digest(ensemble)
    fields = rows_of(ensemble.names, 0, names.row_id)
    return ByRowRecord(
        model="forest",
        network=str(path),
        family=str(path),
        network_sha256=digest,
        family_sha256=digest,
        statements=statements,
        box=box_record(box),
        labels=tuple(
            label_record(label, names.label_name(label), each, ensemble.names, fields["rows"])
            for label, each in kept.items()
        ),
        label_names=names.labels,
        **fields,
    )
