"""The two-player unlearner: a leader near retraining, a follower that hides deletion."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.unlearning.attack import PosteriorAttack, train_attack
from leaveout.models.unlearning.classifier import C, copy_model, posteriors, single_threaded
from leaveout.models.unlearning.draws import Purpose, generator
from leaveout.models.unlearning.fitting import retrain
from leaveout.models.unlearning.settings import Game, Schedule

if TYPE_CHECKING:
    from torch import Tensor


_ATTACKED = 4096


@dataclass(frozen=True, eq=False)
class Deletion:
    """The rows of one deletion request.

    Attributes
    ----------
    X, y : ndarray of float32, shape (rows, features), and of int64, shape (rows,)
        All training rows.
    forgotten : ndarray of bool, shape (rows,)
    third : ndarray of float32, shape (rows, features)
        Third-party rows, which the original was not trained on.
    """

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    forgotten: NDArray[np.bool_]
    third: NDArray[np.float32]


class Curves(msgspec.Struct, frozen=True):
    """The losses of both players, one number per round."""

    distance: tuple[float, ...]
    error: tuple[float, ...]  # the two parts of the leader's loss before its last step of the round
    follower: tuple[float, ...]
    attack: tuple[float, ...]  # mean of what the attack answers for the forgotten rows then

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
        Of all that forgetting took, training the alternative model and the attack included.
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
    cross-entropy of ``M_u`` on the retained rows (eq. 10), ``M_r'`` being trained from scratch on
    a share of them; the follower descends ``|M_A(M_o(D_f), M_u(D_f)) - target|`` (eq. 13). They
    move in turn, from the original.

    The paper leaves open what the attack is trained on. Here it is what the defender has at
    hand: rows that ``M_o`` was trained on and ``M_r'`` was not, against third-party rows.

    Parameters
    ----------
    original : Classifier
        It is left as it is.
    deletion : Deletion
    game : Game
    schedule : Schedule
        How the alternative model is trained.
    seed : int
    on_round : callable or None
        Told how many rounds are behind.

    Raises
    ------
    TrainingError
        If nothing is forgotten, nothing is kept, there are no third-party rows, or a loss is no
        longer finite.
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
        # With share = 1 nothing is left over; the forgotten rows themselves are gone from both.
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
        raise TrainingError("no row is to be forgotten; name at least one")
    if not len(kept):
        raise TrainingError("every training row is to be forgotten; a model needs some to be left")
    if not len(deletion.third):
        raise TrainingError(
            "there are no third-party rows: give test rows, which the model was not trained on"
        )


class Players(Generic[C]):
    """Both players, and the model they move."""

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

        self.model = copy_model(original)
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
        self._distance: list[float] = []
        self._error: list[float] = []
        self._follower: list[float] = []
        self._answers: list[float] = []

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
        curves = (self._distance, self._error, self._follower, self._answers)
        for curve, number in zip(curves, numbers, strict=True):
            if not np.isfinite(number):
                raise TrainingError(
                    f"the game diverged in round {len(self._distance) + 1}: a loss is not a "
                    "finite number; lower its learning rate (--game-lr), now "
                    f"{self._game.learning_rate:g}"
                )
            curve.append(number)

    def curves(self) -> Curves:
        """Return the losses so far."""
        return Curves(
            tuple(self._distance), tuple(self._error), tuple(self._follower), tuple(self._answers)
        )

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
