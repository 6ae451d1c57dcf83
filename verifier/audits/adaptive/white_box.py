"""The white-box attack: delete what half of the models seem to have seen."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ShardedError
from leaveout.models.sharded.rows import Rows
from leaveout.models.sharded.shards import Shards
from leaveout.verifier.audits.adaptive.trials import Trial

_HOW = ("less", "more")


@dataclass(frozen=True)
class WhiteBox:
    """Section 6 of *Adaptive Machine Unlearning*, beside a retrained arm.

    Models are published. Each point is taken to be in the shard of the model most confident in its
    true label, of a tie in one of them by chance; points of the first half of the shards are
    deleted. The events: on average models of those shards are right less often than the others, as
    in the paper; or more often, as where a model is surest of points that mislead it. And, rarer
    after retraining, each of them less often than each of the others, or more often.

    Attributes
    ----------
    estimator : object
        An unfitted scikit-learn classifier with ``predict_proba``.
    features : ndarray of float64, shape (points, features)
    codes : ndarray of int64, shape (points,)
        Labels from 0.
    test_features, test_codes : ndarray
        What models are compared on.
    shards : int
        At least 2.
    inclusion : float or None
        Probability that a shard holds a point; None for 1 / shards.

    Raises
    ------
    ShardedError
        If the estimator gives no probabilities, or there is one shard only; from `replay` if its
        models are no function of points and random state, so that shards are not alike.
    """

    estimator: Any
    features: NDArray[np.float64]
    codes: NDArray[np.int64]
    test_features: NDArray[np.float64]
    test_codes: NDArray[np.int64]
    shards: int = 6
    inclusion: float | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.estimator, "predict_proba"):
            raise ShardedError(
                f"{type(self.estimator).__name__} has no predict_proba; take an estimator that has"
            )
        if self.shards < 2:
            raise ShardedError(f"{self.shards} shards: expected at least 2, to compare halves")

    @property
    def events(self) -> tuple[str, ...]:
        """The events to look for in models."""
        means = tuple(f"models of targeted shards are right {how} often" for how in _HOW)
        if self.shards == 2:
            return means
        return (*means, *(f"each of them {how} often than each of the others" for how in _HOW))

    @property
    def retrained_at_most(self) -> tuple[float, ...]:
        """Bounds by exchangeability of redrawn shards: 1/2, or one in all such halves.

        Derived in ``docs/sharded.md``. With an odd number of shards means have no such bound.
        """
        means = (0.5 if self.shards % 2 == 0 else 1.0,) * 2
        if self.shards == 2:
            return means
        ways = math.comb(self.shards, self.shards // 2)
        return (*means, *(math.nextafter(1 / ways, 1.0),) * 2)

    def replay(self, seed: int, number: int) -> Trial:
        """Run one trial; the same arguments give the same trial."""
        rows = Rows.first(self.features, self.codes)
        shards = self._train_arm(seed, number, b"unlearned", rows)
        confidence = np.stack([self._confidence(model) for model in shards.models], axis=1)
        generator = np.random.default_rng([seed, number])
        # Noise far below any difference that tells, to break ties by.
        guessed = np.argmax(confidence + 1e-12 * generator.random(confidence.shape), axis=1)
        places = np.flatnonzero(guessed < self.shards // 2)
        unlearned = shards.delete(places)
        retrained = self._train_arm(seed, number, b"retrained", rows.without(places))
        if not retrained.repeats(self.test_features):
            raise ShardedError(
                f"{type(self.estimator).__name__}: trained again on the points of a shard with the "
                "same random_state it answers otherwise, so that shards are not alike; make it a "
                "function of both"
            )
        return Trial(
            seed,
            number,
            tuple(rows.ids[places].tolist()),
            self._event_flags(unlearned),
            self._event_flags(retrained),
        )

    def _train_arm(self, seed: int, number: int, arm: bytes, rows: Rows) -> Shards:
        """Train the shards of an arm."""
        key = hashlib.sha256(b"%d %d %s" % (seed, number, arm)).digest()
        inclusion = 1 / self.shards if self.inclusion is None else self.inclusion
        return Shards.train(self.estimator, key, self.shards, inclusion, rows)

    def _confidence(self, model: Any) -> NDArray[np.float64]:
        """Return a model's confidence in true labels; a constant has none."""
        found = np.zeros(len(self.codes))
        if isinstance(model, int):
            return found
        scores = model.predict_proba(self.features)
        for column, label in enumerate(model.classes_):
            mine = self.codes == label
            found[mine] = scores[mine, column]
        return found

    def _event_flags(self, shards: Shards) -> tuple[bool, ...]:
        """Return which events happened."""
        right = (shards.codes(self.test_features) == self.test_codes[:, None]).sum(axis=0)
        return halves(right)[: len(self.events)]


def halves(right: NDArray[np.int64]) -> tuple[bool, bool, bool, bool]:
    """Compare how many test points the models of either half of the shards get right."""
    half = len(right) // 2
    first, rest = right[:half], right[half:]
    targeted, others = int(first.sum()) * len(rest), int(rest.sum()) * half
    return (
        targeted < others,
        targeted > others,
        bool(first.max() < rest.min()),
        bool(first.min() > rest.max()),
    )
