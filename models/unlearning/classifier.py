"""The interface of unlearnable models: differentiable scores and parameters."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError

if TYPE_CHECKING:
    from torch import Tensor


class Purpose(IntEnum):
    """The purposes of random streams, one stream each."""

    WEIGHTS = 100
    ORDER = 101
    FORGET = 102
    ALTERNATIVE = 103
    GAME = 104
    ATTACK = 105
    THIRD = 106
    TRIAL = 107


def generator(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """Return a seed's random stream for one purpose."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, purpose, *key))))


_CHUNK = 8192


class Classifier(Protocol):
    """A torch module of scores, or a `GraphNetwork`."""

    def __call__(self, x: Tensor, /) -> Tensor:
        """Return scores (rows, labels) of inputs (rows, features)."""

    def parameters(self) -> Iterable[Tensor]:
        """Return the trained parameters."""


C = TypeVar("C", bound=Classifier)


def require_torch(who: str) -> None:
    """Raise if torch is missing."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise TrainingError(f"{who} needs torch: pip install 'leaveout[train]'") from None


@contextmanager
def single_threaded() -> Iterator[None]:
    """Run torch on one thread: faster for small networks, with a fixed sum order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fresh(model: C, seed: int) -> C:
    """Return a network of the same architecture with freshly drawn weights."""
    import torch

    new = copy.deepcopy(model)
    redraw = getattr(new, "redraw", None)
    if redraw is not None:
        redraw(generator(seed, Purpose.WEIGHTS))
        return new
    module = cast(Any, new)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, Purpose.WEIGHTS).integers(2**63 - 1)))
        known: set[int] = set()
        for part in module.modules():
            if hasattr(part, "reset_parameters"):
                part.reset_parameters()
                known |= {id(value) for value in part.parameters(recurse=False)}
    for name, value in module.named_parameters():
        if id(value) not in known:
            raise TrainingError(
                f"parameter {name!r} belongs to a module without reset_parameters, so it cannot "
                "be retrained; add that method to the module"
            )
    return new


def posteriors(model: Classifier, X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the softmax of the scores."""
    import torch

    evaluate = getattr(model, "eval", None)
    if evaluate is not None:
        evaluate()
    with torch.no_grad():
        parts = [
            torch.softmax(model(torch.from_numpy(X[start : start + _CHUNK])), 1).numpy()
            for start in range(0, len(X), _CHUNK)
        ]
    result = np.concatenate(parts) if parts else np.zeros((0, 0), dtype=np.float32)
    if not np.isfinite(result).all():
        row = int(np.argmax(~np.isfinite(result).all(axis=1)))
        raise TrainingError(
            f"the model's scores of row {row} are not finite; training diverged: lower the "
            "learning rate"
        )
    return result.astype(np.float32, copy=False)
