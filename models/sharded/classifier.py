"""An unlearning classifier: models on shards, private answers, and their ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leaveout.errors import ShardedError
from leaveout.files import OWNER_ONLY, clear_partials, open_atomically, refuse_unwritten
from leaveout.models.archive import read_archive
from leaveout.models.scikit import BaseEstimator, ClassifierMixin
from leaveout.models.sharded.aggregation import Chance, draw_function, operating_system
from leaveout.models.sharded.ledger import Ledger, MovedError, Position, Seal, begin_seals
from leaveout.models.sharded.rows import Rows, as_features, as_labels
from leaveout.models.sharded.settings import ServiceSettings
from leaveout.models.sharded.shards import Shards, epoch_key

_FORMAT = 2
_KINDS = np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.int64)


@dataclass(frozen=True)
class State:
    """The points of a service, and a digest of its models."""

    rows: Rows
    classes: NDArray[Any]  # labels by code
    position: Position  # the ledger's seal at the time of writing
    models: str  # `Shards.digest` of the models at that time

    def digest(self) -> str:
        """Return a hash of the content."""
        found = hashlib.sha256(self.rows.digest().encode())
        found.update(repr((self.classes.tolist(), self.position, self.models)).encode())
        return found.hexdigest()


def write_state(path: Path, state: State, seal: Seal) -> None:
    """Write a state atomically."""
    # The file contains every point.
    with refuse_unwritten(ShardedError, path), open_atomically(path, OWNER_ONLY) as stream:
        np.savez(
            stream,
            format=np.array(_FORMAT),
            ids=state.rows.ids,
            features=state.rows.features,
            codes=state.rows.codes,
            next_id=np.array(state.rows.next_id),
            classes=state.classes,
            position=np.array([state.position.epoch, state.position.version]),
            models=np.array(state.models),
            digest=np.array(state.digest()),
        )
        begin_seals(stream, seal)


def read_state(path: Path) -> State:
    """Read a state written by `write_state`."""
    try:
        held = read_archive(path, ShardedError)
        if int(held["format"]) != _FORMAT:
            raise ShardedError(f"{path}: has format {int(held['format'])}, expected {_FORMAT}")
        epoch, version = (int(number) for number in held["position"])
        ids, features, codes = held["ids"], held["features"], held["codes"]
        if (ids.dtype, features.dtype, codes.dtype) != _KINDS or features.ndim != 2:
            raise ValueError("its points are not numbers")
        if not ids.shape == codes.shape == (len(features),):
            raise ValueError("its points, numbers and labels differ in number")
        state = State(
            Rows(ids, features, codes, int(held["next_id"])),
            held["classes"],
            Position(epoch, version),
            str(held["models"]),
        )
        digest = str(held["digest"])
    except (ValueError, KeyError, TypeError) as error:
        raise ShardedError(
            f"{path}: not a state of a sharded service, or damaged: {error}"
        ) from None
    if state.digest() != digest:
        raise ShardedError(f"{path}: damaged: its content does not match its digest")
    return state


_LEDGER = "ledger.sqlite"
_STATE = "state.npz"


class ShardedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Models on independent shards that add and delete points and answer privately.

    Points are numbered in the order of fitting and adding; numbers never shift. Predictions,
    including those of `score`, are charged to a budget; repeated queries to the same models are
    charged once. Labels are those of the last `fit`, and public. An object is for one thread.

    Parameters
    ----------
    estimator : object
        An unfitted scikit-learn classifier; its random states are set here.
    settings : ServiceSettings
    folder : Path
        Folder of the points (``state.npz``) and the ledger (``ledger.sqlite``). Several processes
        may open it; each sees others' changes at its next call.
    seed : bytes or None
        For tests: source of the seeds. None draws them from the operating system.
    chance : random.Random or None
        For tests: source of the answers' randomness. None uses the operating system.
    remembered : int
        Answers stored, to be repeated without a charge.
    on_charge : callable or None
        Called without arguments once predictions are charged, before they are drawn.

    Attributes
    ----------
    classes_ : ndarray
    n_features_in_ : int
    ids_ : ndarray of int64
        Numbers of the present points.
    retrained_shards : int
        Shards trained by the last change. Keep it and response times of changes secret: they reveal
        seeds.
    """

    def __init__(
        self,
        estimator: Any,
        settings: ServiceSettings,
        folder: Path,
        *,
        seed: bytes | None = None,
        chance: Chance | None = None,
        remembered: int = 100_000,
        on_charge: Callable[[], None] | None = None,
    ) -> None:
        self.estimator = estimator
        self.settings = settings
        self.folder = folder
        self.seed = seed
        self.chance = chance
        self.remembered = remembered
        self.on_charge = on_charge

    @classmethod
    def load(cls, folder: Path, estimator: Any, **options: Any) -> ShardedClassifier:
        """Retrain the models of a service from its folder.

        Parameters
        ----------
        folder : Path
        estimator : object
            The original one; a hash of votes must match.
        **options
            ``seed``, ``chance``, ``remembered``, ``on_charge``.

        Raises
        ------
        ShardedError
            If the folder has no service, is damaged, or yields other models.
        """
        ledger = _ledger(folder)
        if not ledger.is_made():
            raise ShardedError(f"{folder}: no ledger, so nothing was fitted here; call fit")
        settings = ledger.settings()
        found = cls(estimator, settings, folder, **options)
        found._take_over()
        return found

    def fit(self, X: ArrayLike, y: ArrayLike) -> ShardedClassifier:
        """Draw new shards of these points and train all shards: a new epoch.

        Raises
        ------
        ShardedError
            If points or labels cannot be used, or the folder has other settings.
        """
        features = as_features(X)
        classes, codes = np.unique(as_labels(y, len(features)), return_inverse=True)
        rows = Rows.first(features, codes.astype(np.int64))
        if not len(features):
            raise ShardedError("X: expected at least one point")
        self._check_size(len(features))
        if self.settings.labels is not None and len(classes) > self.settings.labels:
            raise ShardedError(
                f"y: {len(classes)} labels, but settings allow {self.settings.labels}; raise labels"
            )
        ledger, at = self._ledger_at()
        self._renew(ledger, at, rows, classes)
        return self

    def retrain(self) -> None:
        """Redraw and retrain all shards: a new epoch with a full budget."""
        self._repeat(lambda: self._renew(self._ledger, self._at, self._shards.rows, self.classes_))

    def add(self, X: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
        """Add points and retrain the shards that receive one.

        Returns
        -------
        ndarray of int64, shape (points,)
            Their numbers.

        Raises
        ------
        ShardedError
            If points cannot be used or are too many, or a label is not in `classes_`.
        """
        given = as_features(X)
        labels = as_labels(y, len(given))

        def add_points() -> None:
            features = as_features(given, self.n_features_in_)
            self._check_size(len(self.ids_) + len(features))
            self._move(self._shards.add(features, self._codes(labels)))

        self._repeat(add_points)
        return self.ids_[len(self.ids_) - len(given) :].copy()

    def delete(self, ids: Sequence[int] | NDArray[np.int64]) -> None:
        """Delete points and retrain the shards that contained one.

        When this returns, no model and no file of the folder contains the points.

        Raises
        ------
        ShardedError
            If an id was never assigned, is already deleted, or repeats; nothing is deleted.
        """
        self._repeat(lambda: self._move(self._shards.delete(self._shards.rows.places(ids))))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Answer privately; rows that are new to these models are charged.

        Returns
        -------
        ndarray, shape (points,)

        Raises
        ------
        ShardedError
            If X cannot be used; `ExhaustedError` if the budget does not cover it and
            ``on_exhausted`` is "refuse"; nothing is charged then.
        """
        self._sync()
        features = as_features(X, self.n_features_in_)
        if not self.settings.private:
            draw = draw_function("majority", 0.0)
            votes = self._shards.votes(features, len(self.classes_))
            codes = [draw(row, self._chance) for row in votes.tolist()]
            return self.classes_[np.asarray(codes, dtype=np.int64)]
        asked = [hashlib.sha256(row.tobytes()).digest() for row in features]
        places: dict[bytes, int] = {}
        for place, query in enumerate(asked):
            places.setdefault(query, place)
        answers: dict[bytes, Any] = {}
        while len(answers) < len(places):
            features = as_features(features, self.n_features_in_)
            left = [query for query in places if query not in answers]
            try:
                found = self._answer_charged(left, features[[places[query] for query in left]])
            except MovedError:
                self._sync()
                continue
            answers.update({query: self.classes_[code] for query, code in found.items()})
            if len(answers) < len(places):
                self._sync()
                self._start_if_spent()
        return np.asarray([answers[query] for query in asked], dtype=self.classes_.dtype)

    def predictions_left(self) -> int | None:
        """Return how many predictions the budget still covers; None without a budget."""
        self._sync()
        if self.settings.predictions is None:
            return None
        return self.settings.predictions - self._ledger.charged_predictions()

    def _codes(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        alike = (labels.dtype.kind == "U") == (self.classes_.dtype.kind == "U")
        known = np.isin(labels, self.classes_) if alike else np.zeros(len(labels), dtype=bool)
        for label in labels[~known].tolist():
            raise ShardedError(
                f"y: label {label!r} was not fitted; labels are public and fixed until the next fit"
            )
        return np.searchsorted(self.classes_, labels).astype(np.int64)

    def _answer_charged(
        self, queries: list[bytes], features: NDArray[np.float64]
    ) -> dict[bytes, int]:
        """Answer what the budget covers."""
        assert self.settings.predictions is not None
        partly = self.settings.on_exhausted == "retrain"
        opened = self._ledger.open(
            self._at, queries, self.settings.predictions, labels=len(self.classes_), partly=partly
        )
        if not opened.lines:
            return opened.known
        if self.on_charge is not None:
            self.on_charge()
        inside = [place for place, query in enumerate(queries) if query in opened.lines]
        votes = self._shards.votes(features[inside], len(self.classes_))
        draw = draw_function(self.settings.mechanism, self.settings.epsilon)
        drawn = [draw(row, self._chance) for row in votes.tolist()]
        fresh = dict(zip(opened.lines, drawn, strict=True))
        written = {opened.lines[query]: answer for query, answer in fresh.items()}
        self._ledger.record(self._at.epoch, written, self.remembered)
        return opened.known | fresh

    def _start_if_spent(self) -> None:
        assert self.settings.predictions is not None
        if self._ledger.charged_predictions() >= self.settings.predictions:
            try:
                self._renew(self._ledger, self._at, self._shards.rows, self.classes_)
            except MovedError:
                self._sync()

    @property
    def _chance(self) -> Chance:
        return operating_system() if self.chance is None else self.chance

    def _check_size(self, points: int) -> None:
        if points > self.settings.rows:
            raise ShardedError(
                f"X: {points:,} points, but settings allow {self.settings.rows:,}; raise rows"
            )

    def _ledger_at(self) -> tuple[Ledger, Position]:
        ledger = _ledger(self.folder)
        if ledger.is_made():
            if ledger.settings() != self.settings:
                raise ShardedError(
                    f"{self.folder}: contains a service with other settings; use another folder"
                )
            return ledger, ledger.position()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ShardedError(f"{self.folder}: cannot create: {error.strerror}") from None
        key = epoch_key(self.seed, 0)
        return Ledger.create(ledger.path, self.settings, key, ledger.state), Position(0, 0)

    def _renew(self, ledger: Ledger, at: Position, rows: Rows, classes: NDArray[Any]) -> None:
        key = epoch_key(self.seed, at.epoch + 1)
        self._write(ledger, at, self._train(key, rows), classes, key)

    def _train(self, key: bytes, rows: Rows) -> Shards:
        settings = self.settings
        return Shards.train(self.estimator, key, settings.shards, settings.probability, rows)

    def _repeat(self, change: Callable[[], None]) -> None:
        """Change the service, after any concurrent change by other processes."""
        while True:
            self._sync()
            try:
                return change()
            except MovedError:
                continue

    def _move(self, shards: Shards) -> None:
        self._write(self._ledger, self._at, shards, self.classes_)

    def _write(
        self,
        ledger: Ledger,
        at: Position,
        shards: Shards,
        classes: NDArray[Any],
        key: bytes | None = None,
    ) -> None:
        with ledger.move_on(at, key) as (new, seal):
            clear_partials(self.folder)
            state = State(shards.rows, classes, new, shards.digest())
            write_state(self.folder / _STATE, state, seal)
        self._set(ledger, new, shards, classes)

    def _set(self, ledger: Ledger, at: Position, shards: Shards, classes: NDArray[Any]) -> None:
        self._ledger, self._at, self._shards, self.classes_ = ledger, at, shards, classes
        self.ids_ = shards.rows.ids.copy()
        self.n_features_in_ = shards.rows.features.shape[1]
        self.retrained_shards = len(shards.retrained)

    def _sync(self) -> None:
        """Adopt changes by other processes."""
        if not hasattr(self, "_ledger"):
            raise ShardedError("there are no models yet; call fit(X, y), or load a folder")
        if self._ledger.position() != self._at:
            self._take_over()

    def _take_over(self) -> None:
        """Train on the folder's points, reusing models with unchanged points."""
        ledger = _ledger(self.folder)
        with ledger.lock() as (at, key):
            state = read_state(self.folder / _STATE)
        ahead = state.position.version - at.version
        if ahead not in (0, 1):
            raise ShardedError(
                f"{self.folder}: points have version {state.position.version}, but the account "
                f"has version {at.version}; restore both files from the same time"
            )
        shards: Shards | None = getattr(self, "_shards", None)
        if shards is not None and shards.key == key:
            shards = shards.for_rows(state.rows)
        else:
            shards = self._train(key, state.rows)
        if ahead == 0 and shards.digest() != state.models:
            raise ShardedError(
                f"{self.folder}: retraining produced different models; load with the estimator, "
                "and the library versions, that it was fitted with"
            )
        self._set(ledger, at, shards, state.classes)
        if ahead:
            # A process wrote a change but died before acknowledging it; the first process to see
            # the change acknowledges it.
            with suppress(MovedError):
                self._move(shards)


def _ledger(folder: Path) -> Ledger:
    return Ledger(folder / _LEDGER, folder / _STATE)
