"""Rows whose deletion changes a forest's answers, exactly, by its family."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.models.forest.classifier import DareForestClassifier
from leaveout.models.forest.columns import COLUMNS, load_columns
from leaveout.models.forest.digests import forest_digest
from leaveout.models.forest.leave_one_out import leave_one_out
from leaveout.models.forest.plain import Ensemble
from leaveout.models.forest.scored import ScoredForest
from leaveout.verifier.by_row import ByRowRecord
from leaveout.verifier.evidence.rows_networks import find_file
from leaveout.verifier.evidence.rows_points import Asked
from leaveout.verifier.guard.forests.folder import ForestAccess
from leaveout.verifier.guard.forests.leaks import ForestLeakTest
from leaveout.verifier.guard.forests.subject import ForestSubject
from leaveout.verifier.points.given import GivenPoints
from leaveout.verifier.row_records import RowsError

Floats = NDArray[np.float64]


def ask_forest(
    record: ByRowRecord, given: GivenPoints, data: Any, forest: Path | None, folders: Sequence[Path]
) -> Asked:
    """Evaluate a forest, and its members without each row, at points."""
    path = find_file(record.network, forest, folders, "--network")
    ensemble = DareForestClassifier.load(path).ensemble()
    if forest_digest(ensemble) != record.network_sha256:
        raise RowsError(
            f"{path}: is not the forest that the results are of: other rows, trees or settings; "
            "give the one that was verified, or verify again"
        )
    family = leave_one_out(ensemble)
    x = _points(path, ensemble, family, given, data)
    scores = ScoredForest.of(ensemble).probabilities(x)
    labels = scores.argmax(axis=1)
    rest = scores.copy()
    places = np.arange(len(x))
    rest[places, labels] = -np.inf
    others = rest.max(axis=1)
    confidences = scores[places, labels] - np.where(np.isfinite(others), others, 0.0)
    test = ForestLeakTest(family)
    apart = [test.flips(point)[1] for point in x]

    def answer(member: int, point: int) -> int:
        return int(family.member(member).probabilities(x[point][None])[0].argmax())

    return Asked(x, labels, confidences, family.removed, apart, answer)


def _points(path: Path, ensemble: Ensemble, family: Any, given: GivenPoints, data: Any) -> Floats:
    beside = path.with_name(COLUMNS)
    width = ensemble.X.shape[1]
    columns = load_columns(beside, width) if beside.exists() else None
    if columns is not None and columns.encoding is None:
        columns = None
    subject = ForestSubject(ForestAccess(path.parent, ensemble, columns, family, ()))
    if given.table is not None:
        header = given.table.header
        rows = [dict(zip(header, row, strict=True)) for row in given.table.rows]
        x = subject.encode(rows)
    elif given.name != given.place:
        x = subject.read_arrays(Path(data))
    else:
        x = np.asarray(data, np.float64).reshape(len(data), -1)
    if x.shape[1] != width:
        raise RowsError(
            f"{given.place}: a point has {x.shape[1]} features, the forest reads {width}"
        )
    return np.require(x, np.float64, ["C", "W"])
