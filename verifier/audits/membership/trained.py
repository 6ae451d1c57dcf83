"""Trained attacks on one or both models' posteriors, never on rows they score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.audits.membership.attacks import Sees, log_likelihood, margin
from leaveout.verifier.audits.membership.views import Views

Floats = NDArray[np.float64]

_MOST_ROWS = 20_000
_FOLDS = 5
_STEPS = 500
_TOLERANCE = 1e-10
"""So small that what is learned is the one minimum, which a checker finds too."""


@dataclass(frozen=True)
class TrainedAttack:
    """A logistic regression to train."""

    name: str
    sees: Sees
    apart: str


TRAINED = (
    TrainedAttack("trained on one model", "after", "membership"),
    TrainedAttack("trained on both models", "both", "membership"),
    TrainedAttack("told the arms, one model", "after", "arms"),
    TrainedAttack("told the arms, both models", "both", "arms"),
)


def trained_scores(
    attack: TrainedAttack, views: Views, selecting: NDArray[np.bool_], seed: int
) -> dict[str, Floats]:
    """Score every row in both arms with an attack not trained on its trial."""
    features = {
        arm: _features(attack, views, posteriors)
        for arm, posteriors in views.arms.items()
        if arm != "original"
    }
    scores = {arm: np.zeros(len(views.trial)) for arm in features}
    places = np.flatnonzero(selecting)
    folds = [fold for fold in np.array_split(places, min(_FOLDS, len(places))) if len(fold)]
    evaluated = np.flatnonzero(~selecting)
    for scored in (*folds, evaluated):
        learned = np.isin(views.place, np.setdiff1d(places, scored))
        model = _fit(attack, views, features, learned, seed)
        rows = np.isin(views.place, scored)
        if rows.any():
            for arm, table in features.items():
                scores[arm][rows] = model.decision_function(table[rows])
    return scores


def _features(attack: TrainedAttack, views: Views, after: Floats) -> Floats:
    columns = _columns(after, views.label)
    if attack.sees == "both":
        assert views.original is not None
        before = _columns(views.original, views.label)
        apart = np.abs(after - views.original).sum(axis=1, keepdims=True)
        columns = np.hstack([columns, before, columns - before, apart])
    return columns


def _columns(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    likelihood, odds = log_likelihood(posteriors, label), margin(posteriors, label)
    return np.column_stack(
        [likelihood, odds, np.tanh(odds), np.abs(odds), posteriors.max(axis=1), odds > 0]
    )


def _fit(
    attack: TrainedAttack,
    views: Views,
    features: dict[str, Floats],
    learned: NDArray[np.bool_],
    seed: int,
) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if attack.apart == "arms":
        learned = learned & views.forgotten
    rows = np.flatnonzero(learned)
    if len(rows) > _MOST_ROWS:
        rows = np.random.default_rng(seed).permutation(rows)[:_MOST_ROWS]
    X = np.concatenate([table[rows] for table in features.values()])
    if attack.apart == "arms":
        y = np.repeat([arm == "unlearned" for arm in features], len(rows))
    else:
        y = np.tile(views.forgotten[rows], len(features))
    model = make_pipeline(
        StandardScaler(),
        LogisticRegression(
            class_weight="balanced", solver="newton-cholesky", tol=_TOLERANCE, max_iter=_STEPS
        ),
    )
    return model.fit(X, y)
