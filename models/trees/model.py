"""A tree ensemble as claims speak of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from leaveout.kernel.trees import Ensemble


@dataclass(frozen=True, eq=False)
class TreeModel:
    """An ensemble and its file; of a member the whole model and its file, and the family's."""

    path: Path
    whole: Ensemble
    family: Path | None = None  # the file of the members that it is one of
    member: int | None = None
    members: int = 0
    take: Callable[[int], Ensemble] | None = None  # makes a member, each time it is needed

    @property
    def ensemble(self) -> Ensemble:
        """The trees."""
        if self.take is None or self.member is None:
            return self.whole
        return self.take(self.member)

    @property
    def source(self) -> str:
        """What it is called in messages."""
        return str(self.path) if self.family is None else f"member {self.member} of {self.family}"

    @property
    def inputs(self) -> int:
        """The number of features."""
        return self.whole.features

    @property
    def is_classifier(self) -> bool:
        """Whether it answers labels."""
        return bool(self.whole.labels)

    @property
    def labels(self) -> int:
        """The number of scores that claims can name: one a label, or those of a regression."""
        return len(self.whole.labels) or len(self.whole.base)

    def score(self, label: int) -> int | float:
        """Return which score a label has; a float where it is constant (the center)."""
        if self.is_classifier and len(self.whole.base) == 1:
            return 0 if label == 1 else float(self.whole.center)
        return label
