"""Settings of unlearning and retraining: schedule and game."""

from __future__ import annotations

import math

import msgspec

from leaveout.errors import TrainingError


def _at_least(flag: str, value: int, least: int) -> None:
    if value < least:
        raise TrainingError(f"{flag} {value}: expected a whole number of at least {least}")


def _rate(flag: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise TrainingError(f"{flag} {value}: expected a number above 0, e.g. 0.1")


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """How a network is trained from freshly drawn weights: plain SGD on cross-entropy.

    The defaults are those of ``leaveout train``.

    Attributes
    ----------
    epochs, batch : int
    learning_rate, weight_decay : float
        The decay is added to the gradient of weights and biases.

    Raises
    ------
    TrainingError
        If a value is outside its range; the message names the flag and its allowed values.
    """

    epochs: int = 50
    batch: int = 100
    learning_rate: float = 0.1
    weight_decay: float = 1e-5

    def __post_init__(self) -> None:
        _at_least("--epochs", self.epochs, 1)
        _at_least("--batch", self.batch, 1)
        _rate("--lr", self.learning_rate)
        if not 0 <= self.weight_decay * self.learning_rate < 1:
            raise TrainingError(
                f"--weight-decay {self.weight_decay}: expected a number of at least 0 whose "
                "product with --lr is below 1, e.g. 1e-5"
            )


class Game(msgspec.Struct, frozen=True, kw_only=True):
    """How the two players move (Game-Theoretic Machine Unlearning, section IV).

    Attributes
    ----------
    rounds : int
        The paper plays 100.
    leader_steps, follower_steps : int
        Gradient steps of each player per round.
    batch : int
        Retained and third-party rows, each, in a step of the leader; a step of the follower uses
        all forgotten rows.
    learning_rate : float
        Learning rate of both players.
    target : float
        The paper's lambda: the answer of the attack that the follower aims at.
    share : float
        Share of the retained rows on which the alternative model is trained.
    attack_steps : int
        Full-batch steps that train the membership attack.

    Raises
    ------
    TrainingError
        If a value is outside its range.
    """

    rounds: int = 100
    leader_steps: int = 10
    follower_steps: int = 1
    batch: int = 500
    learning_rate: float = 0.05
    target: float = 0.5
    share: float = 0.2
    attack_steps: int = 300

    def __post_init__(self) -> None:
        _at_least("--rounds", self.rounds, 1)
        _at_least("--leader-steps", self.leader_steps, 1)
        # Without a follower the leader plays alone, for comparison.
        _at_least("--follower-steps", self.follower_steps, 0)
        _at_least("--game-batch", self.batch, 1)
        _at_least("--attack-steps", self.attack_steps, 1)
        _rate("--game-lr", self.learning_rate)
        if not 0 < self.target < 1:
            raise TrainingError(f"--target {self.target}: expected a number in (0, 1), e.g. 0.5")
        if not 0 < self.share <= 1:
            raise TrainingError(f"--share {self.share}: expected a number in (0, 1], e.g. 0.2")
