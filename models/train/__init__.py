"""Trainers of a network and its family; each member lacks one row.

Training needs torch; importing this package does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leaveout.models.train.draws import OrderedBatches, Rows
from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    decode_row,
    encode_rows,
    encoding_of,
)
from leaveout.models.train.recipe import Recipe, parse_layers
from leaveout.models.train.report import (
    TrainingInterruptedError,
    TrainingProgress,
    TrainingReport,
)
from leaveout.models.train.training import run

if TYPE_CHECKING:
    from leaveout.models.train.estimator import NetworkClassifier
    from leaveout.models.train.own import TrainingWarning, leave_one_out

__all__ = [
    "CategoryColumn",
    "Encoding",
    "NetworkClassifier",
    "NumberColumn",
    "OrderedBatches",
    "Recipe",
    "Rows",
    "TrainingInterruptedError",
    "TrainingProgress",
    "TrainingReport",
    "TrainingWarning",
    "decode_row",
    "encode_rows",
    "encoding_of",
    "leave_one_out",
    "parse_layers",
    "run",
]


# Imported on first use, so that reading an encoding does not import scikit-learn.
def __getattr__(name: str) -> object:
    if name == "NetworkClassifier":
        from leaveout.models.train.estimator import NetworkClassifier

        return NetworkClassifier
    if name in {"TrainingWarning", "leave_one_out"}:
        import leaveout.models.train.own as own

        return getattr(own, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
