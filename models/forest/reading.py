"""Forest files of either kind, with or without the training rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaveout.errors import ForestError
from leaveout.models.forest.classifier import DareForestClassifier
from leaveout.models.forest.from_sklearn import SklearnForest
from leaveout.models.forest.scored import ScoredForest
from leaveout.models.forest.scored_file import holds_scored

Forest = DareForestClassifier | SklearnForest
"""Both answer; the first alone knows its rows, and forgets them."""


def read_forest(path: Path | str) -> Forest:
    """Read a forest file of either kind.

    Raises
    ------
    ForestError
        If it cannot be read, is damaged or of another version.
    """
    if holds_scored(Path(path)):
        return SklearnForest.load(path)
    return DareForestClassifier.load(path)


def scored_with_rows(forest: Forest) -> tuple[ScoredForest, NDArray[np.float64]]:
    """Return a forest's scored form and its known rows, shape (rows, features)."""
    if isinstance(forest, SklearnForest):
        return forest.scored, np.empty((0, forest.n_features_in_))
    ensemble = forest.ensemble()
    return ScoredForest.of(ensemble), ensemble.X


def exact_forest(forest: object) -> DareForestClassifier:
    """Return the forest itself if rows can be deleted from it; raise otherwise.

    Raises
    ------
    ForestError
        If it was read from scikit-learn.
    """
    if isinstance(forest, SklearnForest):
        raise ForestError(
            f"the forest was read from scikit-learn's {forest.kind}, which keeps no rows, so none "
            "can be deleted and what each changes is not known; train a DareForestClassifier on "
            "the same rows"
        )
    if not isinstance(forest, DareForestClassifier):
        raise ForestError(f"a {type(forest).__name__} is no DareForestClassifier")
    return forest
