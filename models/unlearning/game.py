"""The two-player unlearner: a leader close to retraining, a follower that hides the deletion."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.unlearning.classifier import (
    C,
    Purpose,
    fresh,
    generator,
    posteriors,
    single_threaded,
)
from leaveout.models.unlearning.settings import Game, Schedule

if TYPE_CHECKING:
    from torch import Tensor

_HIDDEN = 16
_RATE = 0.01
_DECAY = 1e-3
_MEAN, _SQUARE, _LEAST = 0.9, 0.999, 1e-8
"""Decay rates of Adam's averages, and the least divisor, as in torch."""


class PosteriorAttack:
    """A one-hidden-layer network that recognises forgotten rows by both models' posteriors."""

    def __init__(self, labels: int, seed: int) -> None:
        import torch

        rng = generator(seed, Purpose.ATTACK)
        inputs = 3 * labels
        self.values: list[Tensor] = [
            torch.from_numpy(
                rng.normal(scale=1 / np.sqrt(fan_in), size=shape).astype(np.float32)
            ).requires_grad_(True)
            for fan_in, shape in (
                (inputs, (inputs, _HIDDEN)),
                (inputs, (_HIDDEN,)),
                (_HIDDEN, (_HIDDEN, 1)),
                (_HIDDEN, (1,)),
            )
        ]

    def logits(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the log-odds, shape (rows,), for posteriors of shape (rows, labels)."""
        import torch

        first, offset, second, bias = self.values
        # Squares, since absolute values have a kink where the game starts: both equal.
        features = torch.cat([before, after, (before - after).square()], dim=1)
        return (torch.tanh(features @ first + offset) @ second + bias)[:, 0]

    def __call__(self, before: Tensor, after: Tensor) -> Tensor:
        """Return probabilities of shape (rows,): the paper's ``M_A(M_o(x), M_u(x))``, eq. 3."""
        import torch

        return torch.sigmoid(self.logits(before, after))


def train_attack(
    members: tuple[NDArray[np.float32], NDArray[np.float32]],  # shape (rows, labels)
    others: tuple[NDArray[np.float32], NDArray[np.float32]],
    steps: int,
    seed: int,
) -> PosteriorAttack:
    """Train the attack on rows whose membership is known."""
    import torch
    from torch.nn import functional

    before, after = (
        torch.from_numpy(np.concatenate(pair)) for pair in zip(members, others, strict=True)
    )
    yes, no = len(members[0]), len(others[0])
    truth = torch.cat([torch.ones(yes), torch.zeros(no)])
    weight = torch.cat([torch.full((yes,), 0.5 / yes), torch.full((no,), 0.5 / no)])
    attack = PosteriorAttack(before.shape[1], seed)
    moments = [(torch.zeros_like(value), torch.zeros_like(value)) for value in attack.values]
    for step in range(1, steps + 1):
        loss = functional.binary_cross_entropy_with_logits(
            attack.logits(before, after), truth, weight, reduction="sum"
        )
        slopes = torch.autograd.grad(loss, attack.values)
        with torch.no_grad():
            for value, slope, (mean, square) in zip(attack.values, slopes, moments, strict=True):
                _adam(value, slope.add(value, alpha=_DECAY), mean, square, step)
    for value in attack.values:
        value.requires_grad_(False)
    return attack


def _adam(value: Tensor, slope: Tensor, mean: Tensor, square: Tensor, step: int) -> None:
    """Take a step bit-identical to ``torch.optim.Adam``, without its import of a compiler."""
    mean.lerp_(slope, 1 - _MEAN)
    square.mul_(_SQUARE).addcmul_(slope, slope, value=1 - _SQUARE)
    size = (square.sqrt() / (1 - _SQUARE**step) ** 0.5).add_(_LEAST)
    value.addcdiv_(mean, size, value=-(_RATE / (1 - _MEAN**step)))


def retrain(
    model: C,
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    schedule: Schedule,
    seed: int,
    on_epoch: Callable[[int], None] | None = None,
) -> C:
    """Train a network of the same architecture from freshly drawn weights.

    Parameters
    ----------
    model : Classifier
        Only its architecture is used; it is not changed.
    X : ndarray of float32, shape (rows, features)
    y : ndarray of int64, shape (rows,)
    schedule : Schedule
    seed : int
        Seed of the weights and shuffles. The same seed gives the same bits on the same kind of
        machine.
    on_epoch : callable or None
        Receives the number of finished epochs.

    Raises
    ------
    TrainingError
        If there is no row, or training diverges.
    """
    import torch
    from torch.nn import functional

    if not len(X):
        raise TrainingError("no rows to train on; forget fewer rows")
    new = fresh(model, seed)
    mode = getattr(new, "train", None)
    if mode is not None:
        mode()
    inputs, truth = torch.from_numpy(np.ascontiguousarray(X)), torch.from_numpy(y)
    values = [value for value in new.parameters() if value.requires_grad]
    rate, keep = schedule.learning_rate, 1 - schedule.learning_rate * schedule.weight_decay
    # A torch module may contain dropout, which uses torch's global random stream.
    with single_threaded(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for epoch in range(schedule.epochs):
            order = torch.from_numpy(generator(seed, Purpose.ORDER, epoch).permutation(len(X)))
            last = torch.zeros(())
            for rows in torch.split(order, schedule.batch):
                last = functional.cross_entropy(new(inputs[rows]), truth[rows])
                gradients = torch.autograd.grad(last, values)
                with torch.no_grad():
                    torch._foreach_mul_(values, keep)
                    torch._foreach_add_(values, gradients, alpha=-rate)
            if not torch.isfinite(last):
                raise TrainingError(
                    f"training diverged in epoch {epoch + 1}: the loss is not a finite number; "
                    f"lower the learning rate (--lr), now {rate:g}"
                )
            if on_epoch is not None:
                on_epoch(epoch + 1)
    return new


_ATTACKED = 4096


@dataclass(frozen=True, eq=False)
class Deletion:
    """The rows of one deletion request."""

    X: NDArray[np.float32]  # shape (rows, features): all training rows
    y: NDArray[np.int64]  # shape (rows, features): all training rows
    forgotten: NDArray[np.bool_]  # shape (rows,)
    third: NDArray[np.float32]  # shape (rows, features)


class Curves(msgspec.Struct, frozen=True):
    """The losses of both players, one number per round."""

    distance: tuple[float, ...]
    error: tuple[float, ...]  # parts of the leader's loss before its last step in a round
    follower: tuple[float, ...]
    attack: tuple[float, ...]  # the attack's mean answer for the forgotten rows at that time

    @property
    def leader(self) -> tuple[float, ...]:
        """The leader's loss."""
        return tuple(a + b for a, b in zip(self.distance, self.error, strict=True))


@dataclass(frozen=True, eq=False)
class Played(Generic[C]):
    """The outcome of a game.

    Attributes
    ----------
    model : Classifier
        The unlearned model.
    curves : Curves
    seconds : float
        Duration of forgetting, including training of the alternative model and the attack.
    """

    model: C
    curves: Curves
    seconds: float


def play(
    original: C,
    deletion: Deletion,
    game: Game,
    schedule: Schedule,
    seed: int,
    on_round: Callable[[int], None] | None = None,
) -> Played[C]:
    """Unlearn rows (Game-Theoretic Machine Unlearning, algorithms 1 and 2).

    The leader descends ``||M_u(D_third) - M_r'(D_third)||_2`` (a mean over rows) plus the
    cross-entropy of ``M_u`` on the retained rows (eq. 10), where ``M_r'`` is trained from scratch
    on a share of them; the follower descends ``|M_A(M_o(D_f), M_u(D_f)) - target|`` (eq. 13). They
    take turns, starting from the original.

    The paper does not specify the attack's training data. Here they are what the defender has: rows
    on which ``M_o`` but not ``M_r'`` was trained, against third-party rows.

    Parameters
    ----------
    original : Classifier
        It is not changed.
    deletion : Deletion
    game : Game
    schedule : Schedule
        Training of the alternative model.
    seed : int
    on_round : callable or None
        Receives the number of finished rounds.

    Raises
    ------
    TrainingError
        If no row is forgotten, none is kept, there are no third-party rows, or a loss is not
        finite.
    """
    import torch

    started = time.perf_counter()
    kept = np.flatnonzero(~deletion.forgotten)
    _refuse_empty(deletion, kept)
    rng = generator(seed, Purpose.ALTERNATIVE)
    subset = np.sort(rng.permutation(kept)[: max(1, round(game.share * len(kept)))])
    alternative = retrain(
        original,
        deletion.X[subset],
        deletion.y[subset],
        schedule,
        int(rng.integers(2**63 - 1)),
    )
    with single_threaded(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rest = np.setdiff1d(kept, subset)
        # With share = 1 no row is left over; then the forgotten rows are used, which both lack.
        shadow = _some(deletion.X[rest] if len(rest) else deletion.X[deletion.forgotten], rng)
        third = _some(deletion.third, rng)
        attack = train_attack(
            (posteriors(original, shadow), posteriors(alternative, shadow)),
            (posteriors(original, third), posteriors(alternative, third)),
            game.attack_steps,
            seed,
        )
        mover = Players(original, alternative, attack, deletion, game, seed)
        for done in range(game.rounds):
            mover.round()
            if on_round is not None:
                on_round(done + 1)
    return Played(mover.model, mover.curves(), time.perf_counter() - started)


def _some(X: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw enough rows to train a small attack."""
    return X if len(X) <= _ATTACKED else X[np.sort(rng.permutation(len(X))[:_ATTACKED])]


def _refuse_empty(deletion: Deletion, kept: NDArray[np.int64]) -> None:
    if not deletion.forgotten.any():
        raise TrainingError("no rows to forget; name at least one")
    if not len(kept):
        raise TrainingError("all training rows are to be forgotten; leave at least one to train on")
    if not len(deletion.third):
        raise TrainingError(
            "no third-party rows: pass test rows, which the model was not trained on"
        )


class Players(Generic[C]):
    """Both players, and the model they change."""

    def __init__(
        self,
        original: C,
        alternative: C,
        attack: PosteriorAttack,
        deletion: Deletion,
        game: Game,
        seed: int,
    ) -> None:
        import torch

        self.model = copy.deepcopy(original)
        mode = getattr(self.model, "eval", None)
        if mode is not None:
            mode()
        self._game, self._attack = game, attack
        self._values = [value for value in self.model.parameters() if value.requires_grad]
        self._rng = generator(seed, Purpose.GAME)
        kept = ~deletion.forgotten
        self._kept = torch.from_numpy(deletion.X[kept])
        self._truth = torch.from_numpy(deletion.y[kept])
        self._third = torch.from_numpy(np.ascontiguousarray(deletion.third))
        self._wanted = torch.from_numpy(posteriors(alternative, deletion.third))
        self._forgotten = torch.from_numpy(deletion.X[deletion.forgotten])
        self._before = torch.from_numpy(posteriors(original, deletion.X[deletion.forgotten]))
        self._losses: list[tuple[float, ...]] = []  # a tuple of `Curves` per round

    def round(self) -> None:
        """Move the leader, then the follower."""
        import torch

        for _ in range(self._game.leader_steps):
            distance, error = self._margin()
        for _ in range(self._game.follower_steps):
            self.follow()
        with torch.no_grad():
            loss, answer = self.risk()
        numbers = (float(distance), float(error), float(loss), float(answer))
        if not np.isfinite(numbers).all():
            raise TrainingError(
                f"the game diverged in round {len(self._losses) + 1}: a loss is not a finite "
                f"number; lower its learning rate (--game-lr), now {self._game.learning_rate:g}"
            )
        self._losses.append(numbers)

    def curves(self) -> Curves:
        """Return the losses so far."""
        return Curves(*zip(*self._losses, strict=True))

    def _margin(self) -> tuple[Tensor, Tensor]:
        import torch
        from torch.nn import functional

        third, kept = self._some(len(self._third)), self._some(len(self._kept))
        gap = torch.softmax(self.model(self._third[third]), 1) - self._wanted[third]
        # The norm has no gradient at 0, where both models agree.
        distance = (gap.square().sum(1) + 1e-12).sqrt().mean()
        error = functional.cross_entropy(self.model(self._kept[kept]), self._truth[kept])
        self._step(distance + error)
        return distance.detach(), error.detach()

    def follow(self) -> None:
        """Take one step of the follower."""
        self._step(self.risk()[0])

    def risk(self) -> tuple[Tensor, Tensor]:
        """Return the follower's loss (eq. 13) and the attack's mean answer."""
        import torch

        after = torch.softmax(self.model(self._forgotten), 1)
        answer = self._attack(self._before, after)
        return (answer - self._game.target).abs().mean(), answer.mean()

    def _step(self, loss: Tensor) -> None:
        import torch

        gradients = torch.autograd.grad(loss, self._values)
        with torch.no_grad():
            torch._foreach_add_(self._values, gradients, alpha=-self._game.learning_rate)

    def _some(self, count: int) -> Tensor:
        import torch

        size = min(self._game.batch, count)
        return torch.from_numpy(self._rng.integers(0, count, size))


class Accuracies(msgspec.Struct, frozen=True):
    """Shares of rows labelled correctly, in [0, 1]."""

    forgotten: float
    retained: float
    test: float  # on test rows that the unlearner did not see
    lost_labels: float | None = None
    other_labels: float | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``unlearning.json``: the full origin of the unlearned model."""

    network: str  # file name
    data: str  # file name; ``data_sha256`` is of its training rows
    data_sha256: str
    forgotten: tuple[int, ...]  # rows, counted from 0
    labels_lost: tuple[str, ...]  # labels without retained rows
    third: float  # share of the test rows that the unlearner saw
    seed: int  # seed of the game; ``retrained`` has those of the retrained networks
    retrained: tuple[int, ...]
    undrawn: tuple[str, ...]
    game: Game
    schedule: Schedule
    curves: Curves
    seconds: float  # for unlearning
    retrain_seconds: float  # mean of the retrained networks, 0 if none
    original: Accuracies
    unlearned: Accuracies
    retrained_accuracies: tuple[Accuracies, ...]  # one per retrained network
