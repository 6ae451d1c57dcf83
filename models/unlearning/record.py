"""The record of an unlearning: its inputs, and how the game went."""

from __future__ import annotations

import msgspec

from leaveout.models.unlearning.game import Curves
from leaveout.models.unlearning.settings import Game, Schedule


class Accuracies(msgspec.Struct, frozen=True):
    """Shares of rows labelled correctly, in [0, 1]."""

    forgotten: float
    retained: float
    test: float  # of test rows that the unlearner did not see
    lost_labels: float | None = None
    other_labels: float | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``unlearning.json``: all the unlearned model came from."""

    network: str  # file names; ``data_sha256`` is of the training rows
    data: str  # file names; ``data_sha256`` is of the training rows
    data_sha256: str
    forgotten: tuple[int, ...]  # rows, from 0
    labels_lost: tuple[str, ...]  # labels that no retained row has
    third: float  # share of the test rows that the unlearner saw
    seed: int  # of the game; ``retrained`` names those of the retrained networks
    retrained: tuple[int, ...]
    undrawn: tuple[str, ...]
    game: Game
    schedule: Schedule
    curves: Curves
    seconds: float  # the second is the mean of the retrained networks, 0 where there is none
    retrain_seconds: (
        float  # the second is the mean of the retrained networks, 0 where there is none
    )
    original: Accuracies
    unlearned: Accuracies
    retrained_accuracies: tuple[Accuracies, ...]  # of each retrained network
