"""Models on independent shards: drawing, retraining and votes."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ShardedError
from leaveout.models.sharded.rows import Rows

KEY_BYTES = 32
_A_HASH = 8  # shards drawn from one 64-byte hash


def epoch_key(seed: bytes | None, epoch: int) -> bytes:
    """Return the secret from which an epoch's draws are derived."""
    if seed is None:
        return secrets.token_bytes(KEY_BYTES)
    return _keyed_hash(hashlib.sha256(seed).digest(), b"epoch", epoch, size=KEY_BYTES)


def memberships(
    key: bytes, ids: NDArray[np.int64], shards: int, inclusion: float
) -> NDArray[np.bool_]:
    """Draw which shards contain which points, independently."""
    if inclusion >= 1:
        return np.ones((len(ids), shards), dtype=bool)
    below = np.uint64(int(inclusion * 2.0**64))
    blocks = -(-shards // _A_HASH)
    drawn = b"".join(
        _keyed_hash(key, b"member", point, block)
        for point in ids.tolist()
        for block in range(blocks)
    )
    table = np.frombuffer(drawn, dtype="<u8").reshape(len(ids), blocks * _A_HASH)
    held: NDArray[np.bool_] = table[:, :shards] < below
    return held


def training_seed(key: bytes, shard: int) -> int:
    """Return the random state of a shard's training, below 2^32."""
    return int.from_bytes(_keyed_hash(key, b"train", shard, size=4), "little")


def _keyed_hash(key: bytes, what: bytes, *numbers: int, size: int = 64) -> bytes:
    text = b"".join(number.to_bytes(8, "little") for number in numbers)
    return hashlib.blake2b(text, digest_size=size, key=key, person=what).digest()


_CHECKED_ROWS = 256


@dataclass(frozen=True)
class Shards:
    """The distributed learner: Algorithms 2 and 3 of *Adaptive Machine Unlearning*.

    A change returns new shards that reuse the models it does not affect.
    """

    estimator: Any  # unfitted scikit-learn classifier; each shard trains a copy
    key: bytes  # secret source of memberships and training seeds
    inclusion: float  # probability that a shard contains a point
    rows: Rows
    held: NDArray[np.bool_]  # shape (points, shards)
    models: tuple[Any, ...]
    retrained: tuple[int, ...]  # shards trained by the last change

    @classmethod
    def train(
        cls,
        estimator: Any,
        key: bytes,
        shards: int,
        inclusion: float,
        rows: Rows,
        on_model: Callable[[], None] | None = None,
    ) -> Shards:
        """Draw shards and train all of them."""
        held = memberships(key, rows.ids, shards, inclusion)
        blank = cls(estimator, key, inclusion, rows, held, (0,) * shards, ())
        return blank._train_shards(np.arange(shards), on_model)

    def add(self, features: NDArray[np.float64], codes: NDArray[np.int64]) -> Shards:
        """Draw the shards of new points and retrain those shards."""
        rows = self.rows.with_rows(features, codes)
        new = memberships(self.key, rows.ids[len(self.rows.ids) :], self.count, self.inclusion)
        changed = replace(self, rows=rows, held=np.concatenate([self.held, new]))
        return changed._train_shards(np.flatnonzero(new.any(axis=0)))

    def delete(self, places: NDArray[np.int64]) -> Shards:
        """Retrain the shards that contained the points at given positions, without these."""
        touched = np.flatnonzero(self.held[places].any(axis=0))
        held = np.delete(self.held, places, axis=0)
        return replace(self, rows=self.rows.without(places), held=held)._train_shards(touched)

    def for_rows(self, rows: Rows) -> Shards:
        """Return the shards for other points, retraining those that differ."""
        held = memberships(self.key, rows.ids, self.count, self.inclusion)
        mine, theirs = self.rows.ids, rows.ids
        touched = [
            shard
            for shard in range(self.count)
            if not np.array_equal(mine[self.held[:, shard]], theirs[held[:, shard]])
        ]
        changed = replace(self, rows=rows, held=held)
        return changed._train_shards(np.asarray(touched, dtype=np.int64))

    @property
    def count(self) -> int:
        """The number of shards."""
        return len(self.models)

    def codes(self, features: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return each shard's votes."""
        found = np.empty((len(features), self.count), dtype=np.int64)
        for shard, model in enumerate(self.models):
            found[:, shard] = model if isinstance(model, int) else model.predict(features)
        return found

    def votes(self, features: NDArray[np.float64], labels: int) -> NDArray[np.int64]:
        """Return how many shards vote for each label."""
        codes = self.codes(features)
        return np.stack([(codes == label).sum(axis=1) for label in range(labels)], axis=1)

    def digest(self) -> str:
        """Return a digest of points and first votes that identifies the models."""
        codes = self.codes(self.rows.features[:_CHECKED_ROWS]) if len(self.rows.ids) else None
        found = hashlib.sha256(self.rows.digest().encode())
        found.update(np.packbits(self.held).tobytes())
        found.update(b"" if codes is None else codes.tobytes())
        return found.hexdigest()

    def repeats(self, features: NDArray[np.float64]) -> bool:
        """Return whether retraining one shard reproduces its answers."""
        first = next((at for at, each in enumerate(self.models) if not isinstance(each, int)), None)
        if first is None:
            return True
        again = self._model(first).predict(features)
        return bool(np.array_equal(again, self.models[first].predict(features)))

    def _train_shards(
        self, which: NDArray[np.integer[Any]], on_model: Callable[[], None] | None = None
    ) -> Shards:
        """Return the shards after training some of them."""
        models = list(self.models)
        for shard in which.tolist():
            models[shard] = self._model(shard)
            if on_model is not None:
                on_model()
        return replace(self, models=tuple(models), retrained=tuple(which.tolist()))

    def _model(self, shard: int) -> Any:
        inside = self.held[:, shard]
        codes = self.rows.codes[inside]
        if not len(codes) or (codes == codes[0]).all():
            return int(codes[0]) if len(codes) else 0
        from leaveout.models.scikit import clone

        model = clone(self.estimator)
        _seed(model, training_seed(self.key, shard))
        try:
            model.fit(self.rows.features[inside], codes)
            # Some models notice only when predicting that they have too few points.
            model.predict(self.rows.features[inside][:1])
            return model
        except (ValueError, TypeError, FloatingPointError) as error:
            text = " ".join(str(error).split())
            raise ShardedError(
                f"cannot train shard {shard} with {len(codes)} points: {text}; use fewer shards, "
                "or an estimator that needs fewer points"
            ) from None


def _seed(model: Any, seed: int) -> None:
    """Set every nested random state, so that training is a function of the points."""
    parameters = model.get_params(deep=True)
    own = {name: seed for name in parameters if name.rpartition("__")[2] == "random_state"}
    model.set_params(**own)
