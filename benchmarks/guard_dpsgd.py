"""DP-SGD with Opacus: the same layers, epochs and batch size, trained to be private as a whole."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from leaveout.models.train import Recipe
from leaveout.models.train.data import TrainingData

if TYPE_CHECKING:
    from torch import nn

__all__ = ["CLIP", "RATES", "SPARE", "Private", "dp_sgd", "kept_dp_sgd", "missing"]

CLIP = 1.0
"""Largest norm of one row's gradient."""

RATES = (0.1, 0.3, 1.0, 3.0)
"""Learning rates tried; the recipe's own is the first."""

SPARE = 0.1
"""Share of the training rows that are held back while a learning rate is chosen."""


@dataclass(frozen=True)
class Private:
    """What DP-SGD gives at one target.

    Attributes
    ----------
    epsilon, delta : float
        What the accountant says was spent, of a target the former, at the latter.
    noise : float
        Multiplier of the clipping norm.
    rate : float
        The learning rate that did best on the rows held back.
    accuracies : tuple of float
        On the test rows, one a seed.
    seconds : float
        Of one training, on average.
    """

    target: float
    epsilon: float
    delta: float
    noise: float
    rate: float
    accuracies: tuple[float, ...]
    seconds: float

    @property
    def mean(self) -> float:
        """Mean accuracy over the seeds."""
        return float(np.mean(self.accuracies))


@dataclass(frozen=True)
class _Target:
    """One privacy target on rows to train on; ``delta`` is that of the whole training set."""

    epsilon: float
    delta: float
    noise: float


def missing() -> str | None:
    """Return why there can be no DP-SGD here, if so."""
    try:
        import opacus  # noqa: F401
    except ImportError as error:
        return f"no Opacus ({error}); pip install -e '.[train,bench]'"
    return None


def kept_dp_sgd(
    folder: Path,
    data: TrainingData,
    recipe: Recipe,
    epsilon: float,
    seeds: int,
    tell: Callable[[str], None],
) -> Private:
    """Return what an earlier `dp_sgd` of just this kept in a folder, or run it and keep it."""
    asked = (data.facts().sha256, recipe, epsilon, seeds, RATES, SPARE, CLIP, version("opacus"))
    path = folder / f"dpsgd_{sha256(msgspec.json.encode(asked)).hexdigest()[:16]}.json"
    if not path.exists():
        found = dp_sgd(data, recipe, epsilon, seeds, tell)
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(found))
    return msgspec.json.decode(path.read_bytes(), type=Private)


def dp_sgd(
    data: TrainingData,
    recipe: Recipe,
    epsilon: float,
    seeds: int,
    tell: Callable[[str], None],
) -> Private:
    """Choose a learning rate on rows held back, then train with each seed on all rows.

    What the choice of a learning rate costs in privacy is not counted, in favour of DP-SGD.

    Parameters
    ----------
    data : TrainingData
        With test rows.
    recipe : Recipe
        Dense.
    epsilon : float
        Target; delta is one over the number of training rows.
    seeds : int
    tell : callable
        Told what is being done.
    """
    assert data.X_test is not None and data.y_test is not None
    delta = 1 / len(data.X)
    spare = np.random.default_rng(recipe.seed).random(len(data.X)) < SPARE
    kept, held = ~spare, spare
    scores = []
    target = _Target(epsilon, delta, _noise(int(kept.sum()), recipe, epsilon, delta))
    for rate in RATES:
        tell(f"DP-SGD, epsilon {epsilon:g}: learning rate {rate:g}")
        model, _ = _train(data.X[kept], data.y[kept], len(data.labels), recipe, target, rate, 0)
        scores.append(_accuracy(model, data.X[held], data.y[held]))
    rate = RATES[int(np.argmax(scores))]
    target = _Target(epsilon, delta, _noise(len(data.X), recipe, epsilon, delta))
    accuracies, spent = [], 0.0
    begun = time.perf_counter()
    for seed in range(1, seeds + 1):
        tell(f"DP-SGD, epsilon {epsilon:g}: seed {seed} of {seeds}")
        model, spent = _train(data.X, data.y, len(data.labels), recipe, target, rate, seed)
        accuracies.append(_accuracy(model, data.X_test, data.y_test))
    seconds = (time.perf_counter() - begun) / seeds
    return Private(epsilon, spent, delta, target.noise, rate, tuple(accuracies), seconds)


def _noise(rows: int, recipe: Recipe, epsilon: float, delta: float) -> float:
    """Return the noise multiplier that Opacus's accountant asks for."""
    from opacus.accountants.utils import get_noise_multiplier

    # The rate and the steps an epoch are those of the loader below.
    steps = math.ceil(rows / recipe.batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(
            get_noise_multiplier(
                target_epsilon=epsilon,
                target_delta=delta,
                sample_rate=1 / steps,
                steps=steps * recipe.epochs,
                accountant="prv",
            )
        )


def _train(
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    labels: int,
    recipe: Recipe,
    target: _Target,
    rate: float,
    seed: int,
) -> tuple[nn.Module, float]:
    """Train one network; return it and the epsilon spent."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed + seed)
    plain = _layers(X.shape[1], recipe.layers, labels)
    optimizer = torch.optim.SGD(plain.parameters(), lr=rate, weight_decay=recipe.weight_decay)
    own: Any = _Rows(X, y)
    loader: DataLoader[Any] = DataLoader(
        own, batch_size=recipe.batch, collate_fn=lambda batch: batch
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = PrivacyEngine()
        # Ghost clipping: the same steps, without every row's gradient in memory.
        model, optimizer, loss, loader = engine.make_private(
            module=plain,
            optimizer=optimizer,
            criterion=torch.nn.CrossEntropyLoss(),
            data_loader=loader,
            noise_multiplier=target.noise,
            max_grad_norm=CLIP,
            noise_generator=torch.Generator().manual_seed(recipe.seed + seed),
            grad_sample_mode="ghost",
        )
        for _ in range(recipe.epochs):
            for rows, truth in loader:
                optimizer.zero_grad(set_to_none=True)
                loss(model(rows), truth).backward()
                optimizer.step()
        return plain, float(engine.get_epsilon(target.delta))


class _Rows:
    """Rows, taken a batch at a time."""

    def __init__(self, X: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        import torch

        self.X, self.y = torch.from_numpy(np.array(X)), torch.from_numpy(np.array(y))

    def __len__(self) -> int:
        return len(self.X)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.X[index], self.y[index]

    def __getitems__(self, chosen: Sequence[int]) -> tuple[Any, Any]:
        import torch

        index = torch.tensor(chosen, dtype=torch.int64)
        return self.X[index], self.y[index]


def _layers(inputs: int, hidden: Sequence[int], labels: int) -> nn.Sequential:
    """Return dense layers with a ReLU between them, weights drawn as the trainer draws them."""
    from torch import nn

    parts: list[nn.Module] = []
    for a, b in itertools.pairwise((inputs, *hidden, labels)):
        parts += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def _accuracy(model: nn.Module, X: NDArray[np.float32], y: NDArray[np.int64]) -> float:
    import torch

    with torch.inference_mode():
        answers = model(torch.from_numpy(np.array(X))).argmax(dim=1).numpy()
    return float((answers == y).mean())
