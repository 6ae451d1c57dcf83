"""One member, trained on its part's rows and evaluated on all test rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.votes.features import Encoder, Features
from leaveout.models.votes.learners import TORCH, Learner
from leaveout.models.votes.onnx_models import Exported, export_constant, export_model
from leaveout.models.votes.recipe import PartRecipe
from leaveout.models.votes.samples import NO_LABEL
from leaveout.models.votes.survival.learner import Part, SurvivingLearner

if TYPE_CHECKING:
    import onnx

    from leaveout.models.train.recipe import Recipe


def label_scores(model: Any, X: NDArray[np.float64], labels: int) -> NDArray[np.float32]:
    """Return float32 scores (rows, labels) whose argmax is a vote; of absent labels the least."""
    seen = np.asarray(model.classes_, dtype=np.int64)
    own = _own_scores(model, X, seen)
    with np.errstate(over="ignore"):
        own = own.astype(np.float32)
    lowest = own.min(axis=1, keepdims=True)
    # Subtract its magnitude, too; otherwise float32 could round the difference away.
    scores = np.repeat(lowest - np.maximum(1, np.abs(lowest)), labels, axis=1)
    scores[:, seen] = own
    return np.ascontiguousarray(scores, dtype=np.float32)


def constant_scores(label: int, rows: int, labels: int) -> NDArray[np.float32]:
    """Return the scores of a member that always votes for ``label``."""
    scores = np.zeros((rows, labels), dtype=np.float32)
    scores[:, label] = 1
    return scores


def _own_scores(model: Any, X: NDArray[np.float64], seen: NDArray[np.int64]) -> NDArray[Any]:
    for name in ("predict_proba", "decision_function"):
        if not hasattr(model, name):
            continue
        values = np.asarray(getattr(model, name)(X), dtype=np.float64)
        if values.ndim == 1 and len(seen) == 2:
            return np.stack([-values, values], axis=1)
        if values.shape == (len(X), len(seen)):
            return values
    votes: NDArray[np.float64] = (np.asarray(model.predict(X))[:, None] == seen).astype(np.float64)
    return votes


CHUNK = 4096  # test rows evaluated at once: fixed, since sums may depend on their number

_FAILURES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TrainingError,
    TypeError,
    ValueError,
    np.linalg.LinAlgError,
)


@dataclass(frozen=True, eq=False)
class Task:
    """What members share, and the rows of each member."""

    features: Features
    y: NDArray[np.int32]  # shape (training rows,)
    rows: tuple[NDArray[np.int64], ...]  # one array per member, in sorted order
    ranks: NDArray[np.int64]  # shape (training rows,): of each row's sample among all distinct ones
    samples: NDArray[np.int64] | None
    tests: NDArray[np.int64]
    labels: int
    recipe: PartRecipe
    onnx: bool  # write models
    only_votes: bool = False  # keep neither scores nor thresholds

    @property
    def learner(self) -> Learner:
        """What trains the members."""
        return self.recipe.learner


@dataclass(frozen=True, eq=False)
class Member:
    """Results kept from a trained member."""

    votes: NDArray[np.int32]  # shape (points,)
    scores: NDArray[np.float32] | None  # shape (points, labels)
    constant: str  # why it always votes for one label; empty if it was trained
    warned: tuple[str, ...]  # kinds of warnings from the learner
    exported: Exported | None  # None without an export
    failed: str = ""
    thresholds: NDArray[np.int32] | None = None  # shape (points, labels)


def train_member(task: Task, index: int) -> Member:
    """Train member ``index`` by its rows and seed alone; if it fails it votes for label 0."""
    rows = task.rows[index]
    present = np.unique(task.y[rows])
    encoder = task.features.fit_encoder(rows)
    if task.learner.surviving is not None:
        return _surviving_member(task, task.learner.surviving, rows, encoder)
    if len(present) < 2:
        label = int(present[0]) if len(present) else 0
        return _constant(task, encoder, label, "one label" if len(present) else "no rows")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            train = _network if task.learner.name == TORCH else _classifier
            seed = task.recipe.seed + index * task.recipe.copies
            scores, exported = train(task, seed, rows, encoder)
            for copy in range(1, task.recipe.copies):
                # One after another, so that sums are always rounded in the same way.
                scores = scores + train(task, seed + copy, rows, encoder)[0]
        except _FAILURES as error:
            why = f"training or prediction fails: {' '.join(str(error).split())}"
            return _failed_member(task, index, encoder, why)
    if not np.isfinite(scores).all():
        return _failed_member(task, index, encoder, "returns scores that are not finite numbers")
    kinds = sorted({each.category.__name__ for each in caught})
    return _member(task, scores, "", tuple(kinds), exported)


def _failed_member(task: Task, index: int, encoder: Encoder, why: str) -> Member:
    """Return a member that could not be trained and votes for label 0."""
    rows = task.rows[index]
    size = f"({len(rows)} rows, {len(np.unique(task.y[rows]))} labels)"
    failed = f"{size}: {task.learner.name} {why}"
    return replace(_constant(task, encoder, 0, "failed"), failed=failed)


def _constant(task: Task, encoder: Encoder, label: int, why: str) -> Member:
    scores = constant_scores(label, len(task.tests), task.labels)
    exported = None
    if task.onnx:
        exported = export_constant(max(encoder.width, 1), encoder, label, task.labels)
    return _member(task, scores, why, (), exported)


def _member(
    task: Task,
    scores: NDArray[np.float32],
    constant: str,
    warned: tuple[str, ...],
    exported: Exported | None,
) -> Member:
    votes = scores.argmax(axis=1).astype(np.int32)
    kept = scores if task.recipe.scores and not task.only_votes else None
    return Member(votes, kept, constant, warned, exported)


def _surviving_member(
    task: Task, learner: SurvivingLearner, rows: NDArray[np.int64], encoder: Encoder
) -> Member:
    """Return a member with thresholds, from a surviving learner."""
    part = Part(encoder(rows), task.y[rows], encoder(task.tests), task.labels)
    labels = len(np.unique(part.y))
    constant = "" if labels > 1 else "one label" if labels else "no rows"
    if len(rows) and task.learner.keeps_unlabelled:
        constant = ""  # the weights of its rows may be negative
    exported = None
    if task.onnx:
        exported = Exported(b"", f"the learner {learner.name} has no ONNX form here")
    member = _member(task, learner.scores(part), constant, (), exported)
    against, exact_to = task.recipe.survive, task.recipe.searched_to
    if against is None or task.only_votes:
        return member
    return replace(member, thresholds=learner.thresholds(part, against, exact_to))


def _classifier(
    task: Task, seed: int, rows: NDArray[np.int64], encoder: Encoder
) -> tuple[NDArray[np.float32], Exported | None]:
    model: Any = task.learner.estimator(seed)
    if task.recipe.scale:
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model = make_pipeline(StandardScaler(), model)
    y = task.y[rows]
    if task.samples is not None:
        rows, y = _with_unlabelled(task, rows)
    model.fit(encoder(rows), y)
    scores = np.concatenate(
        [label_scores(model, encoder(chunk), task.labels) for chunk in _chunks(task.tests)]
    )
    exported = None
    if task.onnx:
        exported = export_model(model, encoder, task.tests, scores, CHUNK)
    return scores, exported


def _network(
    task: Task, seed: int, rows: NDArray[np.int64], encoder: Encoder
) -> tuple[NDArray[np.float32], Exported | None]:
    from leaveout.models.train.export import scores as run

    recipe = task.learner.recipe(seed)
    y = task.y[rows].astype(np.int64)
    model = train_network(recipe, encoder(rows), y, task.labels, task.recipe.scale)
    # The exported model itself casts the votes.
    content = model.SerializeToString(deterministic=True)
    scores = np.concatenate(
        [run(content, encoder(chunk).astype(np.float32)) for chunk in _chunks(task.tests)]
    )
    return scores, Exported.of(model, encoder, differing=0) if task.onnx else None


def train_network(
    recipe: Recipe, X: NDArray[np.float64], y: NDArray[np.int64], labels: int, scale: bool
) -> onnx.ModelProto:
    """Train one float32 network on a part, as a family that leaves no row out."""
    from leaveout.models.train.architecture import layers_of
    from leaveout.models.train.export import network_model, unflatten
    from leaveout.models.train.stacked import NOTHING, Stack

    shift, factor = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if scale:
        shift, deviation = X.mean(axis=0), X.std(axis=0)
        factor = 1 / np.where(deviation > 0, deviation, 1)
    scaled = ((X - shift) * factor).astype(np.float32)
    layers = layers_of(recipe, X.shape[1], labels)
    stack = Stack(layers, recipe, scaled, y, np.array([NOTHING]))
    stack.train()
    parameters = unflatten(layers, stack.parameters()[0])
    first = parameters["layers.0.weight"] * factor
    bias = parameters["layers.0.bias"] - first @ shift
    folded = {
        **parameters,
        "layers.0.weight": first.astype(np.float32),
        "layers.0.bias": bias.astype(np.float32),
    }
    if not all(np.isfinite(value).all() for value in folded.values()):
        raise ValueError("its weights are not finite; lower the learning rate, --set lr=0.01")
    return network_model(layers, folded)


def _with_unlabelled(
    task: Task, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Add one row for each sample without a label in this part, in sample order."""
    assert task.samples is not None
    known = np.zeros(len(task.samples), dtype=bool)
    known[task.ranks[rows]] = True
    others = task.samples[~known]
    together = np.concatenate([rows, others])
    y = np.concatenate([task.y[rows], np.full(len(others), NO_LABEL, dtype=np.int32)])
    order = np.lexsort((y, task.ranks[together]))
    return together[order], y[order]


def _chunks(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [rows[first : first + CHUNK] for first in range(0, len(rows), CHUNK)]
