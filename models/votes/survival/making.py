"""Surviving learners by name, with their settings."""

from __future__ import annotations

from collections.abc import Mapping

from leaveout.errors import TrainingError
from leaveout.models.votes.survival.learner import SurvivingLearner
from leaveout.models.votes.survival.nearest import Nearest
from leaveout.models.votes.survival.tree import Tree
from leaveout.names import hint

_SETTINGS: dict[str, dict[str, tuple[int, int]]] = {
    Nearest.name: {"k": (5, 1_000_000)},
    Tree.name: {"depth": (2, 8), "leaf": (1, 1_000_000)},
}
"""By learner: the default and largest value of each setting."""

SURVIVING = tuple(_SETTINGS)


def make_surviving(
    name: str, given: Mapping[str, object]
) -> tuple[SurvivingLearner, tuple[tuple[str, int], ...]]:
    """Return a learner and the values of all its settings."""
    known = _SETTINGS[name]
    found = {setting: default for setting, (default, _) in known.items()}
    for setting, value in given.items():
        if setting not in known:
            raise TrainingError(
                f"--set {setting}: the learner {name} has no setting {setting!r}"
                f"{hint(setting, list(known))}; it has {', '.join(known)}"
            )
        most = known[setting][1]
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise TrainingError(
                f"--set {setting}={value}: expected a whole number from 1 to {most:,}"
            )
        found[setting] = value
    learner = Nearest(**found) if name == Nearest.name else Tree(**found)
    return learner, tuple(sorted(found.items()))
