"""Quantities compared between the arms: attack scores, and one number per trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leaveout.arrays import Floats
from leaveout.verifier.audits.membership.views import Views

Sees = Literal["after", "both"]
"""What an attack sees: only the model after forgetting, or also the one before."""

_LEAST = 1e-7


@dataclass(frozen=True)
class Attack:
    """An attack fixed in advance."""

    name: str
    sees: Sees
    score: Callable[[Floats | None, Floats, NDArray[np.int64]], Floats]


def log_likelihood(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    """Return the log-probability of the true label: minus the loss."""
    return np.asarray(np.log(np.maximum(posteriors[np.arange(len(label)), label], _LEAST)))


def margin(posteriors: Floats, label: NDArray[np.int64]) -> Floats:
    """Return the log-odds of the true label against the best other one."""
    others = posteriors.copy()
    others[np.arange(len(label)), label] = 0
    return np.asarray(
        log_likelihood(posteriors, label) - np.log(np.maximum(others.max(axis=1), _LEAST))
    )


def _loss(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    return log_likelihood(after, label)


def _margin(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    return margin(after, label)


def _confidence(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    return np.asarray(after.max(axis=1))


def _label(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    return np.asarray((after.argmax(axis=1) == label).astype(np.float64))


def _change(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    assert before is not None
    return log_likelihood(after, label) - log_likelihood(before, label)


def _closeness(before: Floats | None, after: Floats, label: NDArray[np.int64]) -> Floats:
    assert before is not None
    return np.asarray(-np.abs(after - before).sum(axis=1))


ATTACKS = (
    Attack("loss", "after", _loss),
    Attack("margin", "after", _margin),
    Attack("confidence", "after", _confidence),
    Attack("label only", "after", _label),
    Attack("change of loss", "both", _change),
    Attack("closeness", "both", _closeness),
)
"""Yeom et al.'s loss attack and its variants; a label-only one; two that compare both models."""


_MOST_ROWS = 20_000
_FOLDS = 5
_STEPS = 500
_TOLERANCE = 1e-10
"""Small enough that training finds the unique minimum, which a checker finds, too."""


@dataclass(frozen=True)
class TrainedAttack:
    """A logistic regression that is trained on trials."""

    name: str
    sees: Sees
    apart: str


TRAINED = (
    TrainedAttack("membership classifier, one model", "after", "membership"),
    TrainedAttack("membership classifier, both models", "both", "membership"),
    TrainedAttack("arm classifier, one model", "after", "arms"),
    TrainedAttack("arm classifier, both models", "both", "arms"),
)


def trained_scores(
    attack: TrainedAttack, views: Views, selecting: NDArray[np.bool_], seed: int
) -> dict[str, Floats]:
    """Score every row in both arms with an attack that was not trained on the row's trial."""
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


LEAST_TRIALS = 4
"""Two to choose an attack, so that the choice can be cross-fitted, and two to evaluate it."""


@dataclass(frozen=True, eq=False)
class RowScores:
    """The scores of one attack."""

    attack: str
    sees: Sees
    unlearned: Floats  # shape (rows,): all rows of the unlearned arm
    retrained: Floats  # shape (rows,): all rows of the retrained arm
    original: Floats | None = None  # shape (rows,)


@dataclass(frozen=True, eq=False)
class Statistic:
    """One number per trial, in each arm."""

    attack: str
    of: str
    sees: Sees
    unlearned: Floats  # shape (trials,)
    retrained: Floats  # shape (trials,)

    def __str__(self) -> str:
        what = "mean score of the forgotten rows"
        if self.of == "ranking":
            what = "rank of the forgotten rows among rows never trained on"
        return f"attack '{self.attack}', {what}"


def selecting_trials(trials: int) -> NDArray[np.bool_]:
    """Return which trials choose and train attacks: the first third, at least two.

    The others are used only for estimates.
    """
    return np.arange(trials) < max(LEAST_TRIALS // 2, trials // 3)


def row_scores(views: Views, seed: int) -> tuple[RowScores, ...]:
    """Return the scores of every attack that the audit supports."""
    before = views.original
    found = [
        RowScores(
            attack.name,
            attack.sees,
            attack.score(before, views.unlearned, views.label),
            attack.score(before, views.retrained, views.label),
            attack.score(None, before, views.label)
            if before is not None and attack.sees == "after"
            else None,
        )
        for attack in ATTACKS
        if before is not None or attack.sees == "after"
    ]
    chosen = selecting_trials(len(views.trials))
    for trained in TRAINED:
        if trained.sees == "both" and before is None:
            continue
        if trained.apart == "membership" and not views.has_unseen_rows:
            continue
        scores = trained_scores(trained, views, chosen, seed)
        found.append(
            RowScores(trained.name, trained.sees, scores["unlearned"], scores["retrained"])
        )
    return tuple(found)


def statistics(views: Views, scores: tuple[RowScores, ...]) -> tuple[Statistic, ...]:
    """Return all compared statistics."""
    found = []
    for row in scores:
        arms = (row.unlearned, row.retrained)
        means = (_means(views, arm) for arm in arms)
        found.append(Statistic(row.attack, "mean", row.sees, *means))
        if views.has_unseen_rows:
            ranks = (_rankings(views, arm) for arm in arms)
            found.append(Statistic(row.attack, "ranking", row.sees, *ranks))
    return tuple(found)


def _means(views: Views, scores: Floats) -> Floats:
    place = views.place[views.forgotten]
    total = np.bincount(place, scores[views.forgotten], minlength=len(views.trials))
    return np.asarray(total / np.bincount(place, minlength=len(views.trials)))


def _rankings(views: Views, scores: Floats) -> Floats:
    from scipy.stats import rankdata

    found = np.zeros(len(views.trials))
    for place in range(len(found)):
        rows = views.place == place
        gone = views.forgotten[rows]
        ranks = rankdata(scores[rows])
        yes, no = int(gone.sum()), int((~gone).sum())
        found[place] = (ranks[gone].sum() - yes * (yes + 1) / 2) / (yes * no)
    return found
