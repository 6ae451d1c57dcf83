"""Trainers: a network and its family, every member lacking one row of the data.

Importing this package needs no torch; training does.
"""

from __future__ import annotations

from leaveout.models.train.encoding import (
    CategoryColumn,
    Encoding,
    NumberColumn,
    decode_row,
    encode_rows,
    encoding_of,
)
from leaveout.models.train.estimator import NetworkClassifier
from leaveout.models.train.recipe import Recipe, parse_layers
from leaveout.models.train.training import (
    TrainingInterruptedError,
    TrainingProgress,
    TrainingReport,
    run,
)

__all__ = [
    "CategoryColumn",
    "Encoding",
    "NetworkClassifier",
    "NumberColumn",
    "Recipe",
    "TrainingInterruptedError",
    "TrainingProgress",
    "TrainingReport",
    "decode_row",
    "encode_rows",
    "encoding_of",
    "parse_layers",
    "run",
]
