"""DaRE forests: random forests from which rows can be deleted, and what proves it was exact."""

from __future__ import annotations

from leaveout.errors import ForestError
from leaveout.models.forest.classifier import (
    DareForestClassifier,
    caches_sound,
    first_difference,
    trees_of,
)
from leaveout.models.forest.plain import Ensemble, PlainTree, Settings

__all__ = [
    "DareForestClassifier",
    "Ensemble",
    "ForestError",
    "PlainTree",
    "Settings",
    "caches_sound",
    "first_difference",
    "trees_of",
]
