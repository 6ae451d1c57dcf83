"""A tree ensemble as claims speak of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leaveout.kernel.trees import Ensemble


@dataclass(frozen=True, eq=False)
class TreeModel:
    """An ensemble and its file; of a member the whole model's, and the family's."""

    path: Path
    ensemble: Ensemble
    family: Path | None = None  # the file of the members that it is one of
    member: int | None = None
    members: int = 0

    @property
    def source(self) -> str:
        """What it is called in messages."""
        return str(self.path) if self.family is None else f"member {self.member} of {self.family}"

    @property
    def inputs(self) -> int:
        """The number of features."""
        return self.ensemble.features

    @property
    def is_classifier(self) -> bool:
        """Whether it answers labels."""
        return bool(self.ensemble.labels)

    @property
    def labels(self) -> int:
        """The number of scores that claims can name: one a label, or those of a regression."""
        return len(self.ensemble.labels) or len(self.ensemble.base)

    def score(self, label: int) -> int | float:
        """Return which score a label has; a float where it is constant.

        With one score and two labels the second has the score, the first the number it is compared
        with.
        """
        if self.is_classifier and len(self.ensemble.base) == 1:
            return 0 if label == 1 else float(self.ensemble.center)
        return label
