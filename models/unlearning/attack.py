"""The membership attack that the follower plays against, on both models' posteriors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leaveout.models.unlearning.draws import Purpose, generator

if TYPE_CHECKING:
    from torch import Tensor


_HIDDEN = 16
_RATE = 0.01
_DECAY = 1e-3
_MEAN, _SQUARE, _LEAST = 0.9, 0.999, 1e-8
"""Of Adam, as torch has them: what its averages keep at each step, and the least divisor."""


class PosteriorAttack:
    """A one-hidden-layer network that tells forgotten rows by both posteriors.

    Differentiable in the posteriors, so the follower can move against it.
    """

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
        """Return the log-odds, shape (rows,), of posteriors of shape (rows, labels)."""
        import torch

        first, offset, second, bias = self.values
        # Squares, not absolute values: the game starts where both are equal, which must be no kink.
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
    """Take a step bit-identical to ``torch.optim.Adam``, which would load a compiler."""
    mean.lerp_(slope, 1 - _MEAN)
    square.mul_(_SQUARE).addcmul_(slope, slope, value=1 - _SQUARE)
    size = (square.sqrt() / (1 - _SQUARE**step) ** 0.5).add_(_LEAST)
    value.addcdiv_(mean, size, value=-(_RATE / (1 - _MEAN**step)))
