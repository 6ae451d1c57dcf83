"""Learners that know how many changes their members survive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leaveout.errors import TrainingError
from leaveout.models.votes.survival.learner import SurvivingLearner
from leaveout.models.votes.survival.logistic import Logistic
from leaveout.models.votes.survival.nearest import Nearest
from leaveout.models.votes.survival.ridge import Kernel, Ridge
from leaveout.models.votes.survival.tree import Tree
from leaveout.names import hint
from leaveout.partition_options import SURVIVORS

_LEARNERS = (Kernel, Logistic, Nearest, Ridge, Tree)
_KINDS: dict[str, type[Any]] = {each.name: each for each in _LEARNERS}


def make_surviving(
    name: str, given: Mapping[str, object]
) -> tuple[SurvivingLearner, tuple[tuple[str, int], ...]]:
    """Return a learner and the values of all its settings."""
    known = SURVIVORS[name].settings
    found = {setting: each.default for setting, each in known.items()}
    for setting, value in given.items():
        if setting not in known:
            raise TrainingError(
                f"--set {setting}: the learner {name} has no setting {setting!r}"
                f"{hint(setting, list(known))}; it has {', '.join(known)}"
            )
        most = known[setting].most
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise TrainingError(
                f"--set {setting}={value}: expected a whole number from 1 to {most:,}"
            )
        found[setting] = value
    return _KINDS[name](**found), tuple(sorted(found.items()))
