"""Quantities compared between the arms: attack scores, and one number per trial."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from leaveout.arrays import Floats
from leaveout.kernel.audits import Scores, basic, scores
from leaveout.verifier.audits.membership.views import Views
from leaveout.verifier.certify.audits import answer

Sees = Literal["after", "both"]
"""What an attack sees: only the model after forgetting, or also the one before."""

_BOTH = ("change of loss", "closeness", "both models")


def sees(attack: str) -> Sees:
    """Return which models an attack, or a statistic of it, looks at."""
    return "both" if any(word in attack for word in _BOTH) else "after"


def statistic_words(name: str) -> str:
    """Return in words which number of a trial the kernel calls by this name."""
    attack, _, kind = name.rpartition(", ")
    what = "mean score of the forgotten rows"
    if kind != "mean":
        what = "rank of the forgotten rows among rows never trained on"
    return f"attack '{attack}', {what}"


@dataclass(frozen=True, eq=False)
class RowScores:
    """The scores of one attack."""

    attack: str
    sees: Sees
    unlearned: Floats  # shape (rows,): all rows of the unlearned arm
    retrained: Floats  # shape (rows,): all rows of the retrained arm
    original: Floats | None = None  # shape (rows,)

    @property
    def scores(self) -> Scores:
        """What the kernel knows of it."""
        return Scores(self.attack, self.unlearned, self.retrained)


def row_scores(views: Views) -> tuple[RowScores, ...]:
    """Return the scores of every attack that the audit supports."""
    original = {} if views.original is None else basic(views.original, views.label)
    return tuple(
        RowScores(each.name, sees(each.name), *each[1:], original.get(each.name))
        for each in scores(views.kernel_view, answer)
    )
