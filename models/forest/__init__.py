"""DaRE forests: random forests with exact deletion of rows; these need the extra ``forests``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leaveout.errors import ForestError
from leaveout.models.forest.plain import Ensemble, PlainTree, Settings
from leaveout.models.forest.scored import ScoredForest, ScoredTree

if TYPE_CHECKING:
    from leaveout.models.forest.classifier import (
        DareForestClassifier,
        caches_sound,
        first_difference,
        trees_of,
    )
    from leaveout.models.forest.reading import (
        Forest,
        SklearnForest,
        exact_forest,
        from_sklearn,
        read_forest,
    )

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


# Imported on first use, so that answers of a stored forest do not import scikit-learn.
def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import leaveout.models.forest.classifier as classifier
    import leaveout.models.forest.reading as reading

    return getattr(classifier if hasattr(classifier, name) else reading, name)
