"""The recipe: how every network of a family is trained."""

from __future__ import annotations

import math

import msgspec

from leaveout.errors import TrainingError

_CNN_DROPOUT = 0.1
_OPTIMIZERS = ("sgd", "adam")
_SCHEDULES = ("constant", "step", "cosine")
_NO_LAYERS = {"", "none"}

ACTIVATIONS = {
    "relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "gelu": "Gelu", "silu": "Silu",
    "softplus": "Softplus", "elu": "Elu",
}  # fmt: skip
"""Names of activations, and theirs in `leaveout.kernel.smooth`."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Hyper-parameters of training, shared by the network and all its members.

    The defaults are those of LUCID, section 7, with the weight decay and dropout of its authors'
    program: plain SGD, constant learning rate, cross-entropy. Optimizers, schedules and class
    weights are those of torch.

    Attributes
    ----------
    layers : tuple of int
        Widths of the hidden layers of a dense network, empty for logistic regression; not used
        with ``cnn``.
    activation : str
        Of the hidden layers: a key of `ACTIVATIONS`.
    cnn : bool
        LUCID's small convolutional network instead of a dense one.
    epochs, batch : int
    learning_rate, weight_decay : float
        The decay is added to the gradient of weights and biases, as torch's SGD and Adam do.
    optimizer : str
        ``sgd`` or ``adam``.
    momentum : float
        Momentum of SGD, in [0, 1).
    schedule : str
        ``constant``; ``step``: times ``step_factor`` each ``step_every`` epochs; ``cosine``: half a
        wave down to 0.
    step_every : int
        Epochs.
    step_factor : float
        In (0, 1].
    class_weights : tuple of float or str
        Weight of each label in the loss, in order; ``balanced``: inversely proportional to its
        rows; empty: all equal.
    dropout : float or None
        Probability of dropping a hidden value in training, in [0, 1). All members share one mask
        per batch. None: 0.1 for ``cnn``, 0 for dense networks.
    seed : int
        Seed of the initial weights, shuffles and dropout masks.

    Raises
    ------
    TrainingError
        If a value is outside its range; the message names the flag and its allowed values.
    """

    layers: tuple[int, ...] = (50, 50)
    activation: str = "relu"
    cnn: bool = False
    epochs: int = 50
    batch: int = 100
    learning_rate: float = 0.1
    weight_decay: float = 1e-5
    dropout: float | None = None
    optimizer: str = "sgd"
    momentum: float = 0.0
    schedule: str = "constant"
    step_every: int = 10
    step_factor: float = 0.1
    class_weights: tuple[float, ...] | str = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.cnn and self.layers and min(self.layers) < 1:
            raise TrainingError(
                f"--layers {','.join(map(str, self.layers))}: expected the widths of the hidden "
                "layers, each at least 1, e.g. --layers 50,50"
            )
        counts = (
            ("--epochs", self.epochs),
            ("--batch", self.batch),
            ("--step-every", self.step_every),
        )
        for flag, count in counts:
            if count < 1:
                raise TrainingError(f"{flag} {count}: expected a whole number of at least 1")
        if not (self.learning_rate > 0 and math.isfinite(self.learning_rate)):
            raise TrainingError(f"--lr {self.learning_rate}: expected a number above 0, e.g. 0.1")
        if not 0 <= self.weight_decay * self.learning_rate < 1:
            raise TrainingError(
                f"--weight-decay {self.weight_decay} and --lr {self.learning_rate}: expected "
                "numbers of at least 0 whose product is below 1, e.g. 1e-5 and 0.1"
            )
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise TrainingError(f"--dropout {self.dropout}: expected a number in [0, 1), e.g. 0.1")
        self._check_steps()
        if not 0 <= self.seed < 2**63:
            raise TrainingError(f"--seed {self.seed}: expected a whole number from 0 to 2**63 - 1")

    def _check_steps(self) -> None:
        chosen = (
            ("--activation", self.activation, tuple(ACTIVATIONS)),
            ("--optimizer", self.optimizer, _OPTIMIZERS),
            ("--schedule", self.schedule, _SCHEDULES),
        )
        for flag, given, known in chosen:
            if given not in known:
                raise TrainingError(f"{flag} {given}: expected one of {', '.join(known)}")
        if not 0 <= self.momentum < 1:
            raise TrainingError(f"--momentum {self.momentum}: expected a number in [0, 1)")
        if self.momentum and self.optimizer != "sgd":
            raise TrainingError(
                f"--momentum {self.momentum}: {self.optimizer} has its own momentum; drop "
                "--momentum, or use --optimizer sgd"
            )
        if not 0 < self.step_factor <= 1:
            raise TrainingError(f"--step-factor {self.step_factor}: expected a number in (0, 1]")
        weights = self.class_weights
        if isinstance(weights, str):
            if weights != "balanced":
                raise TrainingError(f"--class-weights {weights}: expected 'balanced' or numbers")
        elif not all(weight > 0 and math.isfinite(weight) for weight in weights):
            raise TrainingError(
                f"--class-weights {','.join(map(str, weights))}: expected numbers above 0, one "
                "per label"
            )

    @property
    def dropout_rate(self) -> float:
        """The dropout probability in use."""
        if self.dropout is not None:
            return self.dropout
        return _CNN_DROPOUT if self.cnn else 0.0

    def settings(self) -> dict[str, object]:
        """Return everything but the seed in JSON types, for the family's manifest.

        Settings unknown to earlier versions are included only if used.
        """
        more: dict[str, object] = {}
        if self.activation != "relu":
            more["activation"] = self.activation
        if self.momentum:
            more["momentum"] = self.momentum
        if self.schedule != "constant":
            more["schedule"] = self.schedule
        if self.schedule == "step":
            more |= {"step_every": self.step_every, "step_factor": self.step_factor}
        if self.class_weights:
            given = self.class_weights
            more["class_weights"] = given if isinstance(given, str) else list(given)
        return {
            "network": "cnn" if self.cnn else "dense",
            "layers": [] if self.cnn else list(self.layers),
            "epochs": self.epochs,
            "batch": self.batch,
            "optimizer": self.optimizer,
            "learning_rate": self.learning_rate,
            "weight_decay": self.weight_decay,
            "loss": "cross-entropy",
            "dropout": self.dropout_rate,
            **more,
        }


def parse_layers(text: str) -> tuple[int, ...]:
    """Read hidden widths such as ``50,50``, or ``none``.

    Raises
    ------
    TrainingError
        If a part is not a whole number of at least 1.
    """
    if text.strip().lower() in _NO_LAYERS:
        return ()
    widths = []
    for part in text.split(","):
        word = part.strip()
        if not (word.isascii() and word.isdigit() and 1 <= int(word) <= 2**20):
            raise TrainingError(
                f"--layers {text}: {part!r} is not a width; expected comma-separated whole "
                "numbers of at least 1, e.g. --layers 50,50, or none for logistic regression"
            )
        widths.append(int(word))
    return tuple(widths)


def parse_class_weights(text: str) -> tuple[float, ...] | str:
    """Read the label weights, such as ``1,4.5``, or ``balanced``."""
    if text.strip().lower() == "balanced":
        return "balanced"
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise TrainingError(
            f"--class-weights {text}: expected 'balanced' or comma-separated numbers, one per "
            "label, e.g. --class-weights 1,4.5"
        ) from None
