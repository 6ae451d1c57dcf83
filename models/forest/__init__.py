"""DaRE forests: random forests with exact deletion of rows."""

from __future__ import annotations

from leaveout.errors import ForestError
from leaveout.models.forest.classifier import (
    DareForestClassifier,
    caches_sound,
    first_difference,
    trees_of,
)
from leaveout.models.forest.plain import Ensemble, PlainTree, Settings
from leaveout.models.forest.reading import (
    Forest,
    SklearnForest,
    exact_forest,
    from_sklearn,
    read_forest,
)
from leaveout.models.forest.scored import ScoredForest, ScoredTree

__all__ = [
    "DareForestClassifier",
    "Ensemble",
    "Forest",
    "ForestError",
    "PlainTree",
    "ScoredForest",
    "ScoredTree",
    "Settings",
    "SklearnForest",
    "caches_sound",
    "exact_forest",
    "first_difference",
    "from_sklearn",
    "read_forest",
    "trees_of",
]
