"""What is compared between arms: attack scores, and one number per trial."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaveout.verifier.audits.membership.attacks import ATTACKS, Sees
from leaveout.verifier.audits.membership.trained import TRAINED, trained_scores
from leaveout.verifier.audits.membership.views import Views

Floats = NDArray[np.float64]

LEAST_TRIALS = 4
"""Two to choose an attack on, so that the choice can be cross-fitted, and two to judge it."""


@dataclass(frozen=True, eq=False)
class RowScores:
    """The scores of one attack."""

    attack: str
    sees: Sees
    unlearned: Floats  # shape (rows,): of all rows in each arm
    retrained: Floats  # shape (rows,): of all rows in each arm
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

    The others estimate and take no part in the choice.
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
