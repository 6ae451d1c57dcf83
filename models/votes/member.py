"""One member, trained on its part's rows and evaluated on all test rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.ballots import Against
from leaveout.models.votes.features import Encoder, Features
from leaveout.models.votes.learners import TORCH, Learner
from leaveout.models.votes.onnx_models import Exported, export_constant, export_model
from leaveout.models.votes.samples import NO_LABEL
from leaveout.models.votes.survival.learner import Part, SurvivingLearner


def label_scores(model: Any, X: NDArray[np.float64], labels: int) -> NDArray[np.float32]:
    """Return float32 scores, shape (rows, labels); a member's vote is their argmax.

    Scores are probabilities, else the decision function, else 1 for the prediction. Labels absent
    in training score below all others.
    """
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


CHUNK = 4096
"""Test rows evaluated at once: fixed, since sums may depend on their number."""

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
    learner: Learner
    seed: int
    scale: bool  # standardise within the part
    onnx: bool  # write models
    scores: bool  # keep scores
    copies: int = (
        1  # classifiers of a member, which differ by their seed; their scores are added up
    )
    survive: Against | None = None  # the kind of change that thresholds count
    exact_to: int | None = None  # the last number of changes searched for thresholds


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
    """Train member ``index``, a function of only its set of rows and its seed.

    The same applies to failures: such a member votes for label 0, and the others are trained.
    """
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
            seed = task.seed + index * task.copies
            scores, exported = train(task, seed, rows, encoder)
            for copy in range(1, task.copies):
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
    return Member(votes, scores if task.scores else None, constant, warned, exported)


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
    if task.survive is None:
        return member
    return replace(member, thresholds=learner.thresholds(part, task.survive, task.exact_to))


def _classifier(
    task: Task, seed: int, rows: NDArray[np.int64], encoder: Encoder
) -> tuple[NDArray[np.float32], Exported | None]:
    model: Any = task.learner.estimator(seed)
    if task.scale:
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
    from leaveout.models.votes.network import train_network

    model = train_network(
        task.learner.recipe(seed),
        encoder(rows),
        task.y[rows].astype(np.int64),
        task.labels,
        task.scale,
    )
    # The exported model itself casts the votes.
    content = model.SerializeToString(deterministic=True)
    scores = np.concatenate(
        [run(content, encoder(chunk).astype(np.float32)) for chunk in _chunks(task.tests)]
    )
    return scores, Exported.of(model, encoder, differing=0) if task.onnx else None


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
