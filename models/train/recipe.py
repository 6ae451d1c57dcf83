"""The recipe: how every network of a family is trained."""

from __future__ import annotations

import math

import msgspec

from leaveout.errors import TrainingError

__all__ = ["Recipe", "parse_layers"]

_CNN_DROPOUT = 0.1


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Hyper-parameters of training, shared by the network and all its members.

    The defaults are those of LUCID, section 7, with the weight decay and the dropout of
    its authors' program: plain SGD, constant learning rate, cross-entropy.

    Attributes
    ----------
    layers : tuple of int
        Widths of the hidden layers of a dense ReLU network; not used with ``cnn``.
    cnn : bool
        LUCID's small convolutional network instead of a dense one.
    epochs, batch : int
    learning_rate, weight_decay : float
        The decay is added to the gradient of weights and biases, as torch's SGD does.
    dropout : float or None
        Probability of dropping a hidden value in training, in [0, 1). One mask a batch,
        shared by all members. None: 0.1 for ``cnn``, 0 for dense networks.
    seed : int
        Of the initial weights, the shuffles and the dropout masks.

    Raises
    ------
    TrainingError
        If a value is outside its range; the message says which flag and what it takes.
    """

    layers: tuple[int, ...] = (50, 50)
    cnn: bool = False
    epochs: int = 50
    batch: int = 100
    learning_rate: float = 0.1
    weight_decay: float = 1e-5
    dropout: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.cnn and (not self.layers or min(self.layers) < 1):
            raise TrainingError(
                f"--layers {','.join(map(str, self.layers)) or repr('')}: expected the widths "
                "of the hidden layers, each at least 1, as in --layers 50,50"
            )
        for flag, count in (("--epochs", self.epochs), ("--batch", self.batch)):
            if count < 1:
                raise TrainingError(f"{flag} {count}: expected a whole number of at least 1")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise TrainingError(f"--lr {self.learning_rate}: expected a number above 0, as in 0.1")
        if not 0 <= self.weight_decay * self.learning_rate < 1:
            raise TrainingError(
                f"--weight-decay {self.weight_decay}: expected a number of at least 0 and, "
                "times --lr, below 1, as in 1e-5"
            )
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise TrainingError(f"--dropout {self.dropout}: expected a number in [0, 1), as in 0.1")
        if not 0 <= self.seed < 2**63:
            raise TrainingError(f"--seed {self.seed}: expected a whole number from 0 to 2**63 - 1")

    @property
    def dropped(self) -> float:
        """The dropout probability that applies."""
        if self.dropout is not None:
            return self.dropout
        return _CNN_DROPOUT if self.cnn else 0.0

    def settings(self) -> dict[str, object]:
        """Return everything but the seed in JSON types, for the family's manifest."""
        return {
            "network": "cnn" if self.cnn else "dense",
            "layers": [] if self.cnn else list(self.layers),
            "epochs": self.epochs,
            "batch": self.batch,
            "optimizer": "sgd",
            "learning_rate": self.learning_rate,
            "weight_decay": self.weight_decay,
            "loss": "cross-entropy",
            "dropout": self.dropped,
        }


def parse_layers(text: str) -> tuple[int, ...]:
    """Read hidden widths such as ``50,50``.

    Raises
    ------
    TrainingError
        If a part is not a whole number of at least 1.
    """
    widths = []
    for part in text.split(","):
        word = part.strip()
        if not (word.isascii() and word.isdigit() and 1 <= int(word) <= 2**20):
            raise TrainingError(
                f"--layers {text}: {part!r} is not a width; expected whole numbers of at least 1 "
                "with commas between them, as in --layers 50,50"
            )
        widths.append(int(word))
    return tuple(widths)
