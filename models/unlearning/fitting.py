"""Training from scratch: the retrained arm, the original and the alternative model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.unlearning.classifier import C, fresh, single_threaded
from leaveout.models.unlearning.draws import Purpose, generator
from leaveout.models.unlearning.settings import Schedule


def retrain(
    model: C,
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    schedule: Schedule,
    seed: int,
    on_epoch: Callable[[int], None] | None = None,
) -> C:
    """Train a network of the same architecture from fresh weights.

    Parameters
    ----------
    model : Classifier
        Only its architecture counts; it is left as it is.
    X : ndarray of float32, shape (rows, features)
    y : ndarray of int64, shape (rows,)
    schedule : Schedule
    seed : int
        Of the weights and the shuffles. The same seed gives the same bits on the same kind of
        machine.
    on_epoch : callable or None
        Told how many epochs are behind.

    Raises
    ------
    TrainingError
        If there is no row, or training diverges.
    """
    import torch
    from torch.nn import functional

    if not len(X):
        raise TrainingError("there is no row to train on; forget fewer rows")
    new = fresh(model, seed)
    mode = getattr(new, "train", None)
    if mode is not None:
        mode()
    inputs, truth = torch.from_numpy(np.ascontiguousarray(X)), torch.from_numpy(y)
    values = [value for value in new.parameters() if value.requires_grad]
    rate, keep = schedule.learning_rate, 1 - schedule.learning_rate * schedule.weight_decay
    # A torch module may hold dropout, which draws from torch's own stream.
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
