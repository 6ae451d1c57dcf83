"""A small dense network as a scikit-learn classifier, by the stacked trainer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.models.scikit import (
    BaseEstimator,
    ClassifierMixin,
    check_classification_targets,
    check_is_fitted,
    check_random_state,
    validate_data,
)
from leaveout.models.train.architecture import layers_of
from leaveout.models.train.recipe import Recipe


class NetworkClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A dense ReLU network; on one thread training is a function of rows, order and seed.

    Fitting needs torch, from the extra ``train``, and scikit-learn, from ``forests``.

    Parameters
    ----------
    layers : tuple of int
        Widths of the hidden layers.
    epochs, batch : int
    learning_rate, weight_decay, dropout : float
        As in `leaveout.models.train.Recipe`.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : ndarray
    n_features_in_ : int
    """

    def __init__(
        self,
        layers: tuple[int, ...] = (50, 50),
        *,
        epochs: int = 50,
        batch: int = 16,
        learning_rate: float = 0.1,
        weight_decay: float = 1e-5,
        dropout: float = 0.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.layers = layers
        self.epochs = epochs
        self.batch = batch
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on the rows of ``X``, in their order.

        Raises
        ------
        TrainingError
            If a setting is out of range.
        ValueError
            If rows cannot be used, or the trained weights are not finite.
        """
        from leaveout.models.train.stacked import NOTHING, Stack

        validated = validate_data(self, X, y, dtype=np.float32)
        rows: NDArray[np.float32] = np.ascontiguousarray(validated[0])
        check_classification_targets(validated[1])
        self.classes_, codes = np.unique(validated[1], return_inverse=True)
        seed = self.random_state
        if seed is None or isinstance(seed, np.random.RandomState):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        recipe = Recipe(
            layers=tuple(self.layers),
            epochs=self.epochs,
            batch=self.batch,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            dropout=self.dropout,
            seed=seed,
        )
        layers = layers_of(recipe, rows.shape[1], len(self.classes_))
        stack = Stack(layers, recipe, rows, codes.astype(np.int64), np.array([NOTHING]))
        stack.train()
        flat: NDArray[np.float32] = stack.parameters()[0]
        if not np.isfinite(flat).all():
            raise ValueError("the weights are not finite; use a lower learning_rate")
        self.parameters_ = flat
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the scores, shape (rows, labels)."""
        from leaveout.models.train.export import unflatten

        check_is_fitted(self)
        values = validate_data(self, X, dtype=np.float32, reset=False)
        recipe = Recipe(layers=tuple(self.layers))
        layers = layers_of(recipe, values.shape[1], len(self.classes_))
        named = unflatten(layers, self.parameters_)
        places = sorted({int(name.split(".")[1]) for name in named})
        for place in places:
            values = values @ named[f"layers.{place}.weight"].T + named[f"layers.{place}.bias"]
            if place != places[-1]:
                values = np.maximum(values, 0)
        scores: NDArray[np.float32] = values
        return scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label with the highest score; ties go to the first."""
        labels: NDArray[Any] = self.classes_[self.decision_function(X).argmax(axis=1)]
        return labels
