"""Training data: the arrays a family is trained on, and the facts stored of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leaveout.models.family import DataFacts
from leaveout.models.train.encoding import Encoding


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training rows, and test rows if there are any."""

    X: NDArray[np.float32]  # shape (rows, features)
    y: NDArray[np.int64]  # shape (rows,): 0 to ``len(labels) - 1``
    labels: tuple[str, ...]  # a name a label
    features: tuple[str, ...] = ()  # a name a feature; empty where unknown
    encoding: Encoding | None = None  # how the features came from a table
    ids: tuple[str, ...] = ()  # a name a row; empty where rows have none
    units: Mapping[str, str] = field(
        default_factory=dict
    )  # what numbers are measured in, by columns
    X_test: NDArray[np.float32] | None = (
        None  # as ``X`` and ``y``; None where there is no test part
    )
    y_test: NDArray[np.int64] | None = None  # as ``X`` and ``y``; None where there is no test part

    def facts(self) -> DataFacts:
        """Return the facts on training rows stored in the family's manifest."""
        digest = hashlib.sha256(np.ascontiguousarray(self.X, dtype="<f4").reshape(-1).data)
        digest.update(np.ascontiguousarray(self.y, dtype="<i8").data)
        return DataFacts(
            sha256=digest.hexdigest(),
            rows=len(self.X),
            minimum=tuple(self.X.min(axis=0).tolist()),
            maximum=tuple(self.X.max(axis=0).tolist()),
            features=self.features,
            labels=self.labels,
            ids=self.ids,
            units=dict(self.units),
        )
