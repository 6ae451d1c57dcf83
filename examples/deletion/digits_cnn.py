"""A service whose shards train a small convolutional network, on scikit-learn's digits.

    python examples/deletion/digits_cnn.py

Any classifier that follows scikit-learn's rules can be trained by shards, if what it becomes is a
function of its points, their order and ``random_state``. Here that is a network of torch (the extra
``train``): what is drawn is drawn from a seed, and training runs on one thread, whose sums have one
order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from leaveout.models.sharded import ServiceSettings, ShardedClassifier, guarantee

SIDE, MOST = 8, 16
"""Of an image, and the largest value of a pixel."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread, and draw nothing from what others draw from."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


class DigitsCNN(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """3x3 convolutions, ReLU, pooling, and a dense layer to the labels.

    Parameters
    ----------
    channels : int
        Of the convolution.
    epochs, batch : int
    learning_rate : float
        Of Adam.
    random_state : int or None
        Of initial weights and of the order of batches; a service sets it, a shard its own.

    Attributes
    ----------
    classes_ : ndarray
    n_features_in_ : int
    """

    def __init__(
        self,
        channels: int = 8,
        *,
        epochs: int = 30,
        batch: int = 32,
        learning_rate: float = 0.01,
        random_state: int | None = None,
    ) -> None:
        self.channels = channels
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on images, a row of 64 numbers each."""
        X, y = validate_data(self, X, y, dtype=np.float32)
        self.classes_, codes = np.unique(y, return_inverse=True)
        images, targets = _images(X), torch.from_numpy(codes.astype(np.int64))
        with one_thread():
            torch.manual_seed(0 if self.random_state is None else self.random_state)
            self.network_ = nn.Sequential(
                nn.Conv2d(1, self.channels, 3),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(self.channels * 9, len(self.classes_)),
            )
            optimizer = torch.optim.Adam(self.network_.parameters(), self.learning_rate)
            for _ in range(self.epochs):
                for rows in torch.randperm(len(targets)).split(self.batch):
                    optimizer.zero_grad()
                    loss = nn.functional.cross_entropy(self.network_(images[rows]), targets[rows])
                    loss.backward()
                    optimizer.step()
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the probabilities of the labels, shape (images, labels)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, reset=False)
        with one_thread(), torch.no_grad():
            scores: torch.Tensor = self.network_(_images(X))
            found: NDArray[np.float32] = scores.softmax(dim=1).numpy()
        return found

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the likeliest label of each image, the first of those that tie."""
        labels: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels


def _images(X: NDArray[np.float32]) -> torch.Tensor:
    return torch.from_numpy(X.reshape(-1, 1, SIDE, SIDE) / MOST)


def main() -> None:
    """Let a service learn digits, forget some, and answer."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=400, random_state=0, stratify=y)
    settings = ServiceSettings(
        shards=6,
        mechanism="noisy_max",
        rows=2000,
        epsilon=0.14,
        predictions=2,
        labels=10,
        on_exhausted="retrain",
    )
    alone = DigitsCNN(random_state=0).fit(X[::6], y[::6])
    print(f"a model of a sixth is right on {alone.score(X_test, y_test):.1%} of {len(y_test)}")
    with tempfile.TemporaryDirectory() as folder:
        service = ShardedClassifier(DigitsCNN(), settings, Path(folder) / "service").fit(X, y)
        service.delete([3, 17])
        print(f"forgetting 2 images trained {service.retrained_shards} of 6 models again")
        print(f"an image of a {y_test[0]} is answered {service.predict(X_test[:1])[0]}")
        print(f"answers left before all are trained anew: {service.predictions_left()}")
    shown = guarantee(settings, 2)
    print(f"whoever sees both answers and then deletes: alpha = {shown.alpha:.3f}, beta = 0.001")


if __name__ == "__main__":
    main()
