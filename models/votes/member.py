"""One member: trained on the rows of its part, asked for its scores at all test rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import TrainingError
from leaveout.models.votes.features import Encoder, Features
from leaveout.models.votes.learners import TORCH, Learner
from leaveout.models.votes.onnx_models import Exported, export_constant, export_model
from leaveout.models.votes.samples import NO_LABEL
from leaveout.models.votes.scoring import constant_scores, label_scores

__all__ = ["CHUNK", "Member", "Task", "train_member"]

CHUNK = 4096
"""Test rows asked about together: a constant, since sums may depend on how many there are."""

_FAILURES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    np.linalg.LinAlgError,
)


@dataclass(frozen=True, eq=False)
class Task:
    """What members share, and the rows of each.

    Attributes
    ----------
    features : Features
    y : ndarray of int32, shape (training rows,)
    rows : tuple of ndarray of int64
        Of each member, in sorted order.
    ranks : ndarray of int64, shape (training rows,)
        Of each row's sample among the distinct ones.
    samples : ndarray of int64, or None
        A row of each distinct sample, by rank, for a learner that reads samples without labels.
    tests : ndarray of int64
    labels : int
    learner : Learner
    seed : int
    scale, onnx, scores : bool
        Standardise within the part; write models; keep scores.
    """

    features: Features
    y: NDArray[np.int32]
    rows: tuple[NDArray[np.int64], ...]
    ranks: NDArray[np.int64]
    samples: NDArray[np.int64] | None
    tests: NDArray[np.int64]
    labels: int
    learner: Learner
    seed: int
    scale: bool
    onnx: bool
    scores: bool


@dataclass(frozen=True, eq=False)
class Member:
    """What is kept of a trained member.

    Attributes
    ----------
    votes : ndarray of int32, shape (points,)
    scores : ndarray of float32, shape (points, labels), or None
    constant : str
        Why it votes one label always; empty where it was trained.
    warned : tuple of str
        Kinds of warnings the learner gave.
    exported : Exported or None
        None where no export was asked for.
    """

    votes: NDArray[np.int32]
    scores: NDArray[np.float32] | None
    constant: str
    warned: tuple[str, ...]
    exported: Exported | None


def train_member(task: Task, index: int) -> Member:
    """Train member ``index``: a function of the rows of its part, their order set aside, and seed.

    Raises
    ------
    TrainingError
        If the learner fails on this part.
    """
    rows = task.rows[index]
    present = np.unique(task.y[rows])
    encoder = task.features.fitted(rows)
    if len(present) < 2:
        label = int(present[0]) if len(present) else 0
        scores = constant_scores(label, len(task.tests), task.labels)
        constant = "one label" if len(present) else "no rows"
        exported = None
        if task.onnx:
            exported = export_constant(max(encoder.width, 1), encoder, label, task.labels)
        return _member(task, scores, constant, (), exported)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if task.learner.name == TORCH:
                scores, exported = _network(task, index, rows, encoder)
            else:
                scores, exported = _classifier(task, index, rows, encoder)
        except _FAILURES as error:
            raise TrainingError(
                f"part {index} ({len(rows)} rows, {len(present)} labels): {task.learner.name} "
                f"cannot be trained or asked: {' '.join(str(error).split())}; use fewer --parts, "
                "or another --learner"
            ) from None
    if not np.isfinite(scores).all():
        raise TrainingError(
            f"part {index} ({len(rows)} rows): {task.learner.name} gives scores that are not "
            "finite numbers; change its settings, or take another --learner"
        )
    kinds = sorted({each.category.__name__ for each in caught})
    return _member(task, scores, "", tuple(kinds), exported)


def _member(
    task: Task,
    scores: NDArray[np.float32],
    constant: str,
    warned: tuple[str, ...],
    exported: Exported | None,
) -> Member:
    votes = scores.argmax(axis=1).astype(np.int32)
    return Member(votes, scores if task.scores else None, constant, warned, exported)


def _classifier(
    task: Task, index: int, rows: NDArray[np.int64], encoder: Encoder
) -> tuple[NDArray[np.float32], Exported | None]:
    model: Any = task.learner.estimator(task.seed + index)
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
    task: Task, index: int, rows: NDArray[np.int64], encoder: Encoder
) -> tuple[NDArray[np.float32], Exported | None]:
    from leaveout.models.train.export import scores as run
    from leaveout.models.votes.network import train_network

    model = train_network(
        task.learner.recipe(task.seed + index),
        encoder(rows),
        task.y[rows].astype(np.int64),
        task.labels,
        task.scale,
    )
    # What is exported is what votes.
    content = model.SerializeToString(deterministic=True)
    scores = np.concatenate(
        [run(content, encoder(chunk).astype(np.float32)) for chunk in _chunks(task.tests)]
    )
    return scores, Exported.of(model, encoder, differing=0) if task.onnx else None


def _with_unlabelled(
    task: Task, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Add a row of every sample that has no label in this part, in the order of samples."""
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
