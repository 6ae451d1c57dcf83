"""Approximate unlearning by a two-player game, and retraining for comparison.

Training needs torch; importing this package does not.
"""

from __future__ import annotations

from leaveout.models.unlearning.classifier import Classifier, posteriors
from leaveout.models.unlearning.forget import (
    draw_rows,
    labels_lost,
    read_forget,
    rows_of_label,
    third_party,
)
from leaveout.models.unlearning.game import (
    Accuracies,
    Curves,
    Deletion,
    Played,
    Record,
    play,
    retrain,
)
from leaveout.models.unlearning.graph_network import GraphNetwork
from leaveout.models.unlearning.settings import Game, Schedule
from leaveout.models.unlearning.unlearning import (
    UnlearningInterruptedError,
    UnlearningReport,
    matching_network,
    run,
)

__all__ = [
    "Accuracies",
    "Classifier",
    "Curves",
    "Deletion",
    "Game",
    "GraphNetwork",
    "Played",
    "Record",
    "Schedule",
    "UnlearningInterruptedError",
    "UnlearningReport",
    "draw_rows",
    "labels_lost",
    "matching_network",
    "play",
    "posteriors",
    "read_forget",
    "retrain",
    "rows_of_label",
    "run",
    "third_party",
]
