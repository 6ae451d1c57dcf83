"""What is kept of an unlearning: what the network came from, and how the game went."""

from __future__ import annotations

import msgspec

from leaveout.models.unlearning.game import Curves
from leaveout.models.unlearning.settings import Game, Schedule

__all__ = ["Accuracies", "Record"]


class Accuracies(msgspec.Struct, frozen=True):
    """Shares of rows labelled right, in [0, 1].

    Attributes
    ----------
    forgotten, retained : float
    test : float
        Of test rows that the unlearner did not see.
    lost_labels, other_labels : float or None
        The same of those whose label no retained row has, and of the others; None where no label
        is lost or there is no such row.
    """

    forgotten: float
    retained: float
    test: float
    lost_labels: float | None = None
    other_labels: float | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What ``unlearning.json`` holds: all that the unlearned model came from.

    Attributes
    ----------
    network, data : str
        File names; ``data_sha256`` is of the training rows.
    forgotten : tuple of int
        Rows, from 0.
    labels_lost : tuple of str
        Labels that no retained row has.
    third : float
        Share of the test rows that the unlearner saw.
    seed : int
        Of the game; ``retrained`` names those of the retrained networks.
    undrawn : tuple of str
        Initialisers of no layer: networks trained anew start from their values in the original.
    game, schedule
    curves : Curves
    seconds, retrain_seconds : float
        The second is the mean of the retrained networks, 0 where there is none.
    original, unlearned : Accuracies
    retrained_accuracies : tuple of Accuracies
        Of each retrained network.
    """

    network: str
    data: str
    data_sha256: str
    forgotten: tuple[int, ...]
    labels_lost: tuple[str, ...]
    third: float
    seed: int
    retrained: tuple[int, ...]
    undrawn: tuple[str, ...]
    game: Game
    schedule: Schedule
    curves: Curves
    seconds: float
    retrain_seconds: float
    original: Accuracies
    unlearned: Accuracies
    retrained_accuracies: tuple[Accuracies, ...]
